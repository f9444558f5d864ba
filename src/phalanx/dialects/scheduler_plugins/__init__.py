"""scheduler-plugins (`scheduling.x-k8s.io`): PodGroups of its coscheduling, ElasticQuotas of its capacity scheduling.

Rooms, lowest first:

    kinds        its kinds, the labels of its pods, and the names that its queues have in our tree
    quotas       ElasticQuota: our queue tree, and its status
    groups       which pods are one gang, and the status of its PodGroup
    tables       what becomes of every field and label
    dialect      all of it, as `frame.Dialect`

Source: pkg/{coscheduling,capacityscheduling,controllers} of kubernetes-sigs/scheduler-plugins v0.34.7.
"""
