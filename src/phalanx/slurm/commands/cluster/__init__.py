"""Commands for the cluster.

sdiag     jobs since midnight, and what the scheduler does
sinfo     partitions and nodes
scontrol  show and change jobs, nodes, partitions, reservations
"""
