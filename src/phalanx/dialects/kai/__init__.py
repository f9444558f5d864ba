"""KAI (`scheduling.run.ai`, `kai.scheduler`): its queues, its pod groups, its status.

Parts, lowest first:

    kinds      KAI's kinds, the owner kinds of its pod grouper, and names in the queue tree
    queues     Queue, PriorityClass, Topology, SchedulingShard as queues of the queue tree
    gang/      the gang of a pod, and its settings from its PodGroup or owner
    status     the PodGroup of a gang, and the status of PodGroups and Queues
    admission  admission policies in place of KAI's webhooks, and objects of its installation
    fields     the use of every field, label and annotation
    dialect    all parts as a `frame.Dialect`
"""
