"""The preemption step of a cycle.

Parts, lowest first:

    evict   the actions of a preemption plan: evict the victims, and nominate or start the preemptor
    excess  quota preemption: the pods of queues that use more than a lowered limit
    search  searches for victims, within a budget, and checks of existing nominations
"""
