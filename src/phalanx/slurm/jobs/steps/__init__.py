"""Steps within an allocation of one node: what of it is free, and their tasks.

booking  which step has which number, and which CPUs steps hold
tasks    the processes of a step
"""
