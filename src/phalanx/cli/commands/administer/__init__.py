"""Commands of administrators.

queue   create, edit, drain and delete queues
"""
