"""Commands that show or change the cluster: its nodes, partitions and jobs.

sdiag       show numbers of jobs since midnight, and statistics of the scheduler
sinfo_rows  build the rows, the columns and the JSON document of sinfo
sinfo       show partitions and nodes
verbs       the verbs of scontrol
scontrol    show and change jobs, nodes, partitions and reservations
"""
