"""Commands that show jobs, queues and nodes, and the reasons for which jobs wait.

status     summarize the cluster in five lines
jobs       list jobs
explain    explain one job in full
queues     the queues and their usage
nodes      the resources of each node, and the jobs that use them
history    list jobs from the ledger, also ended and deleted ones
ledger     export, archive and purge the ledger
top        nodes, queues and jobs, live
dashboard  serve the page for a browser
"""
