"""The preemption step of a cycle.

Parts, lowest first:

    evict   makes the actions of a preemption plan: evict the victims, and nominate or start the preemptor
    excess  quota preemption: evicts pods of queues whose limit was lowered below their usage
    search  searches for victims, within a budget, and checks of existing nominations
"""
