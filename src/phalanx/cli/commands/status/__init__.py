"""Running and waiting jobs, and the reasons.

status     the cluster, in five lines
jobs       jobs, as a table
explain    one job, in full
queues     the queues and their usage
nodes      the amounts of each node, and who uses them
history    jobs that are over too, from the ledger
ledger     the ledger as files
top        nodes, queues and jobs, live
dashboard  the page in a browser
"""
