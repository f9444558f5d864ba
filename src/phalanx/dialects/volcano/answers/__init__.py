"""The statuses and Events that Volcano's users read.

Parts, lowest first:

    enqueue   which waiting PodGroups Volcano would take up
    statuses  the status of PodGroups, Queues and HyperNodes
"""
