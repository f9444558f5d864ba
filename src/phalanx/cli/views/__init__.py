"""Convert a snapshot of the cluster, or an entry of the ledger, to table rows and text.

node_view   a row of `phalanx nodes`
cluster_view  a row of `phalanx clusters`
queue_view  a row of `phalanx queues`
entry_view  a row of `phalanx history`, and the page of a deleted job
job         a row of `phalanx jobs`, and the page of `phalanx explain`
top_view    the screen of `phalanx top`
page        the data of the page of `phalanx dashboard`
top_reading  read the data of `phalanx top` from the cluster
"""
