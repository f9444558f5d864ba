"""Preemption's part of a cycle.

Rooms, lowest first:

    evict   what follows from a plan of preemption: victims are told, the preemptor is nominated or starts
    search  who searches for victims, within a budget; and what becomes of nominations that stand
"""
