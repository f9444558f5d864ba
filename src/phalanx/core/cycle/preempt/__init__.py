"""The preemption step of a cycle.

Parts, lowest first:

    evict   makes the actions of a preemption plan: evict the victims, and nominate or start the preemptor
    excess  quota preemption: evicts pods of queues that use more than their limit, because it was lowered
    search  searches for victims, within a budget, and checks of existing nominations
"""
