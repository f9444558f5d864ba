"""The KAI dialect. It reads KAI's Queues, forms gangs of pods as KAI does, and writes the status of Queues and
PodGroups (API group `scheduling.run.ai`, labels of `kai.scheduler`).

Parts, lowest first:

    kinds       KAI's kinds, the owner kinds of its pod grouper, and names in the queue tree
    queues      translate Queue, PriorityClass, Topology and SchedulingShard for the core
    admission   admission policies in place of KAI's webhooks, and objects of its installation
    grouper     find the gang of a pod from the pod's metadata; how many pods the gang of an owner needs
    fields      the use of every field, label and annotation
    pod_groups  the settings of a gang, from its PodGroup or its owner
    status      the PodGroup of a gang, and the status of PodGroups and Queues
    dialect     all parts as a `frame.Dialect`
"""
