"""The nodes as columns: one array for each kind of amount or attribute, with one element for each node. Columns are
used because decisions read one amount of all nodes far more often than all amounts of one node.

Each node has a row, which is its index in every column. A node gets a row when an event first names the node. When the
node is gone and no pod is charged to it, another node may get the row.

Parts, lowest first:

    attributes   labels, taints, readiness, encoded as integers
    devices      the free amounts of each device and of each NUMA zone
    pod_index    the pods on each node, as pod affinity and spread constraints see them
    groups       node groups, requested nodes, failed requests
    table        `NodeTable`: the names and rows of nodes, their allocatable and free amounts, and all parts above; also
                 a cache of scores of nodes that are expensive to compute
"""
