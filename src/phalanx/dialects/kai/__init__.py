"""KAI (`scheduling.run.ai`, `kai.scheduler`): its queues, its pod groups, its answers.

Rooms, lowest first:

    kinds      its kinds, the owners that its grouper knows, and names in our tree
    queues     Queue, PriorityClass, Topology, SchedulingShard: our queue tree
    gang/      which pods are one gang, and what their PodGroup or owner says of it
    status     the PodGroup of a gang, and the status of PodGroups and Queues
    admission  what its webhooks refuse, as admission policies, and what its installation brings
    fields/    what becomes of every field, label and annotation, on objects and before they move
    dialect    all of it, as `frame.Dialect`
"""
