"""KAI's gangs: from the labels and annotations of pods, their owners, and PodGroups.

Parts, lowest first:

    grouper     the gang of a pod, from the pod alone; how many pods the gang of an owner needs
    pod_groups  the pods of a gang, by its PodGroup or its owner
"""
