"""The seats of a started gang, and the pods in them. A *seat* is a place for one pod of the gang. It has a node as soon
as the core has chosen a node for this pod. Parts, lowest first:

    seat_table      the node and the pod of each slot
    gang_start      one start: the decision, and the events about it
    bind_barrier    bind all pods of the minimum together; retry refused bindings; track pods that are not ready
    seating         assign pods to seats, and add seats for pods that the start did not plan
    elastic         shrink and grow a gang; detect gangs with too few running bare pods
    recall          the seats of a start that an earlier scheduler process made
"""
