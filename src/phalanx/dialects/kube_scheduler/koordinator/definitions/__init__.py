"""Read the objects of Koordinator on which the scheduler's decisions depend: Devices, NodeResourceTopologies, groups of
PodGroups, quotas and Reservations.

Parts, lowest first:

    cpus     the cores and NUMA zones of nodes, and the cores that a pod gets exclusively
    defined  groups of gangs, devices, and the result of reading all objects
"""
