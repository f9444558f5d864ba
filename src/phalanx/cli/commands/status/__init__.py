"""Commands that show jobs, queues and nodes, and the reasons why jobs wait.

status     summarize the cluster in five lines
jobs       list jobs
explain    explain one job in full
queues     show the queues and their usage
nodes      show the resources of each node, and the jobs that use them
history    list jobs from the ledger, also ended and deleted ones
ledger     export, archive and purge the ledger
top        show nodes, queues and jobs live
dashboard  serve the page for a browser
"""
