"""The definitions in Koordinator's objects: devices, cpus and groups of gangs, then all of them together.

Parts, lowest first:

    cpus     the cores and NUMA zones of nodes, and the cores that pods get for themselves
    defined  all definitions, including quotas and Reservations
"""
