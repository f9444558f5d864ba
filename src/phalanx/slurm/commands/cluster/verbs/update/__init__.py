"""scontrol update.

asked  what a waiting job asks for: partition, account, size, nodes, features, memory, GPUs
job    update, of jobs and by what is named
"""
