"""Koordinator's gangs: annotations of pods, and PodGroups.

Parts, lowest first:

    claims      finds the gang of a pod, and applies its PodGroup and its quota
    pod_groups  writes the status of a PodGroup
"""
