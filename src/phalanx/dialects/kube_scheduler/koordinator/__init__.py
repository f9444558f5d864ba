"""The Koordinator dialect: it reads the gangs and ElasticQuotas of Koordinator (`koord-scheduler`), and replaces its
webhooks.

Parts, lowest first:

    kinds         its kinds, labels and annotations, and the names of its quotas as Phalanx Queues
    webhooks      the checks and changes of its webhooks, as admission policies
    quota_tree    translates ElasticQuota and ElasticQuotaProfile into the queue tree
    reservation   Reservations: capacity on a node that is reserved for certain pods
    definitions/  the devices and cpus of nodes, gangs that start together, and the result of reading all objects
    gang          finds the gang of a pod, applies the settings of its PodGroup, and writes the PodGroup's status
    fields/       the use of every field, label and annotation; the Phalanx equivalents of objects, for a migration
    quota_usage   the status of quotas: used and requested amounts, and the amount that each quota may use now
    dialect       the interface that every dialect implements (`frame.dialect`), for Koordinator

Source: koordinator-sh/koordinator v1.8.0.
"""
