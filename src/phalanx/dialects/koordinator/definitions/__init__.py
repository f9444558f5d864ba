"""What Koordinator's objects define, besides quotas and Reservations, and all of it together.

Rooms, lowest first:

    devices  which devices nodes have, and pods are given
    cpus     the same of cores, and NUMA zones
    groups   PodGroups, and gangs without one, that start together
    defined  all definitions
"""
