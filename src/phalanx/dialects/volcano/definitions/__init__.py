"""Translate Volcano's definitions to Phalanx's model.

Parts, lowest first:

    hyper_nodes    HyperNodes as a topology
    configuration  the scheduler's configuration: actions, plugins and their arguments; Numatopologies: the NUMA zones
                   of nodes
    queues         Queues and PriorityClasses as queues of the queue tree
"""
