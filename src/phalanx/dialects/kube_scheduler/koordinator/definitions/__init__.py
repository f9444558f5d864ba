"""Read the objects of Koordinator from which the scheduler needs facts: Devices, NodeResourceTopologies, groups of
PodGroups, quotas and Reservations.

Parts, lowest first:

    cpus     the cores and NUMA zones of nodes, and the cores that a pod gets exclusively
    defined  groups of gangs, devices, and the result of reading all objects
"""
