"""What Volcano's objects define, in ours.

Rooms, lowest first:

    configuration  the scheduler's configuration: actions, plugins and their arguments
    hyper_nodes    HyperNodes: a topology
    zones          Numatopologies: the NUMA zones of nodes
    queues         Queues and PriorityClasses: our queue tree, and what gangs are looked up in
"""
