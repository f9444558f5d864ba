"""Commands of administrators.

queue   create, edit, drain and delete queues
doctor  what a cluster enforces, what is wrong in it, and how to mend that
"""
