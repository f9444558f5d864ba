"""The definitions in Koordinator's objects: devices, cpus and groups of gangs, then all of them together.

Parts, lowest first:

    devices  the devices of nodes, and the devices that pods ask for and get
    cpus     the cores and NUMA zones of nodes, and the cores that pods get for themselves
    groups   groups of gangs that start together, with or without PodGroups
    defined  all definitions, including quotas and Reservations
"""
