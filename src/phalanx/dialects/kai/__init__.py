"""KAI (`scheduling.run.ai`, `kai.scheduler`): its queues, its pod groups, its answers.

Rooms, lowest first:

    kinds        its kinds, the owners that its grouper knows, and names in our tree
    queues       Queue, PriorityClass, Topology, SchedulingShard: our queue tree
    grouper      which pods become one gang, from what stands on a pod
    owners       how many pods the gang of an owner needs
    pod_groups   what a gang is, by its PodGroup or its owner
    status       the PodGroup of a gang, and the status of PodGroups and Queues
    admission    what its webhooks refuse, as admission policies, and what its installation brings
    tables       what becomes of every field, label and annotation
    notes        what of an object has no effect
    migration    what each object of a cluster becomes, before it moves
    dialect      all of it, as `frame.Dialect`
"""
