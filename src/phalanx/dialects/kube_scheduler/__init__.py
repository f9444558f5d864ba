"""The dialects for kube-scheduler's own API and for schedulers that are built from kube-scheduler.

Parts, lowest first:

    kubernetes         scheduling.k8s.io: the Workloads and PodGroups of Kubernetes itself
    scheduler_plugins  scheduling.x-k8s.io: coscheduling and capacity scheduling, by SIG Scheduling
    koordinator        koord-scheduler: gangs, ElasticQuotas and Reservations
"""
