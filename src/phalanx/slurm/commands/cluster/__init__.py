"""Commands for the cluster.

sinfo     partitions and nodes
scontrol  show and change jobs, nodes, partitions, reservations
"""
