"""Volcano's definitions, translated.

Parts, lowest first:

    configuration  the scheduler's configuration: actions, plugins and their arguments
    hyper_nodes    HyperNodes as a topology
    zones          Numatopologies: the NUMA zones of nodes
    queues         Queues and PriorityClasses as queues of the queue tree
"""
