"""The preemption step of a cycle.

Parts, lowest first:

    evict   carry out a plan: evict the victims, nominate or start the preemptor
    excess  quota preemption: the pods of queues that use more than a lowered limit
    search  which requests search for victims, within a budget; and which nominations stay
"""
