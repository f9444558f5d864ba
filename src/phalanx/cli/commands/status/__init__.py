"""What runs, what waits, and why.

status     the cluster, in five lines
jobs       jobs, as a table
explain    one job, in full
queues     the queues, and what is in them
nodes      what each node has, and who uses it
history    jobs that are over too, from the ledger
ledger     the ledger as files
top        nodes, queues and jobs, live
dashboard  the page in a browser
"""
