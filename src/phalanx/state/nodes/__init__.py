"""The nodes as columns: a decision reads one amount of all nodes far more often than all amounts of one node.

A node has a row, the same in every column. A row is assigned when an event first names the node, and is free again when
the node is gone and no pod is charged to it.

Parts, lowest first:

    attributes   labels, taints, readiness, encoded as integers
    devices      the free amounts of each device and of each NUMA zone
    pod_index    the pods on each node, as pod affinity and spread constraints see them
    groups       node groups, requested nodes, failed requests
    table        `NodeTable`: names and rows, allocatable and free amounts, and all of the above; scores of nodes that
                 are expensive to compute, kept from cycle to cycle
"""
