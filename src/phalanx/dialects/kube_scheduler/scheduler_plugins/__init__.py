"""The scheduler-plugins dialect (`scheduling.x-k8s.io`): it reads the PodGroups of the plugin coscheduling and the
ElasticQuotas of the plugin capacity scheduling.

Parts, lowest first:

    kinds        kinds, labels of pods, and names of queues in the queue tree
    quotas       ElasticQuotas as queues, and their status
    groups       the gang of a pod, and the status of its PodGroup
    tables       the use of every field and label
    dialect      all parts as a `frame.Dialect`


Source: pkg/{coscheduling,capacityscheduling,controllers} of kubernetes-sigs/scheduler-plugins v0.34.7.
"""
