"""Commands for the cluster.

sdiag       jobs since midnight, and what the scheduler does
sinfo_rows  rows of sinfo, and their order; columns and JSON of sinfo
sinfo       partitions and nodes
configured  what scontrol shows of the site itself
verbs       what scontrol does, by its verbs
scontrol    show and change jobs, nodes, partitions, reservations
"""
