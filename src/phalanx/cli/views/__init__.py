"""State as people see it: a snapshot or an entry of the ledger in, rows or text out.

node_view   a row of `phalanx nodes`
cluster_view  a row of `phalanx clusters`
queue_view  a row of `phalanx queues`
entry_view  a job of the ledger
job         a job: its row and its page
top_view    the screen of `phalanx top`
page        the page in a browser
"""
