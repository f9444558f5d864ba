"""Koordinator's gangs: annotations of pods, and PodGroups.

Rooms, lowest first:

    claims      which pods are one gang, what its PodGroup says of it
    pod_groups  the status of a PodGroup
"""
