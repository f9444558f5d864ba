"""The preemption step of a cycle.

Parts, lowest first:

    evict   makes the actions of a preemption plan: evict the victims, and nominate or start the preemptor
    search  checks existing nominations, evicts pods of queues above their limits, and searches for victims within a
            budget
"""
