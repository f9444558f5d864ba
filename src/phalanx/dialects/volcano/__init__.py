"""The Volcano dialect: it reads Volcano's Queues and PodGroups, and writes their status (API groups `batch.volcano.sh`,
`scheduling.volcano.sh` and others).

Parts, lowest first:

    kinds         Volcano's kinds, and the names of its Queues in the option `phalanx.dev/queue`
    definitions/  Queues and PriorityClasses as queues of the queue tree
    tables        the use of every field, label and annotation
    settings      the use of each action, plugin and argument in the configuration of Volcano's scheduler
    admission     admission policies in place of Volcano's webhooks
    pod_groups    the gang of a pod, and its settings from its PodGroup; the Phalanx equivalent of each object, before
                  a migration
    answers/      the status of PodGroups and Queues
    dialect       all parts as a `frame.Dialect`
"""
