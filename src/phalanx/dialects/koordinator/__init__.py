"""Koordinator (`koord-scheduler`): its gangs, its tree of ElasticQuotas, what its manager refuses.

Rooms, lowest first:

    kinds        its kinds, labels and annotations, and the names that its queues have in our tree
    quotas       ElasticQuota and ElasticQuotaProfile: our queue tree
    runtime      how much of the cluster each quota may use now, as Koordinator counts it
    usage        what each quota uses and asks for: its status and annotations
    gangs        which pods are one gang, what its PodGroup says of it
    pod_groups   the status of a PodGroup
    admission    what its webhooks refuse, as admission policies
    tables       what becomes of every field, label and annotation
    notes        what of an object has no effect
    migration    what each object of a cluster becomes, before it moves
    dialect      all of it, as `frame.Dialect`

Source: koordinator-sh/koordinator v1.8.0.
"""
