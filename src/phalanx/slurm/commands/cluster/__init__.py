"""Commands for the cluster.

sdiag       jobs since midnight, and what the scheduler does
sinfo_rows  rows of sinfo, and their order; columns and JSON of sinfo
sinfo       partitions and nodes
verbs       what scontrol does, by its verbs
scontrol    show and change jobs, nodes, partitions, reservations
"""
