"""The seats of a started gang, and the pods in them. A seat is a place for one pod, which has a node once the core has
chosen one. Parts, lowest first:

    seat_table      the node and the pod of each slot
    gang_start      one start: the decision, and the events about it
    bind_barrier    bind all pods of the minimum together; retry refused bindings; pods that are not ready yet
    seating         assign pods to seats, and add seats for pods that the start did not plan
    elastic         shrink and grow; gangs with too few running bare pods
    recall          the seats of a start that an earlier scheduler process made
"""
