"""KAI's gangs: from the words of pods, their owners, and PodGroups.

Rooms, lowest first:

    grouper     which pods become one gang, from what stands on a pod
    owners      how many pods the gang of an owner needs
    pod_groups  what a gang is, by its PodGroup or its owner
"""
