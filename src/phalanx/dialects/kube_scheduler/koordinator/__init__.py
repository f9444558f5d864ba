"""The Koordinator dialect: it reads the gangs and ElasticQuotas of Koordinator (`koord-scheduler`), and replaces its
webhooks.

Parts, lowest first:

    kinds         its kinds, labels and annotations, and the names of its quotas as Phalanx Queues
    webhooks      the checks and changes of its webhooks, as admission policies
    quota_tree    translates ElasticQuota and ElasticQuotaProfile into the queue tree
    reservation   Reservations: capacity on a node that is reserved for certain pods
    definitions/  the devices and cpus of nodes, gangs that start together, and all definitions
    gang          finds the gang of a pod, and applies and answers its PodGroup
    fields/       the effect of every field, label and annotation; the report for a migration
    quota_usage   the status of quotas: used and requested amounts, and the amount that each may use now
    dialect       the dialect itself, as `frame.Dialect`

Source: koordinator-sh/koordinator v1.8.0.
"""
