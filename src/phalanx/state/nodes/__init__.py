"""The nodes as columns: a decision asks one thing of all nodes far more often than all things of one.

A node has a row. Rows are given at first mention, taken back when the node is gone and nothing is charged to it, and
are the same in every column here.

Rooms, lowest first:

    attributes   labels, taints, readiness: what nodes say of themselves, encoded as integers
    devices      what is left of each device and of each NUMA zone
    pod_index    which pods run where, as pod affinity and spread constraints see them
    score_cache  scores of nodes that are expensive to compute, kept from cycle to cycle
    table        `NodeTable`: names and rows, allocatable and free amounts, and all of the above
"""
