"""Kueue's definitions as queues of the queue tree.

Parts, lowest first:

    transformations  the quota charge of a pod
    configuration  Kueue's Configuration, from the ConfigMap of its controller
    multi          MultiKueue's configs, and the clusters that they name
    checks         AdmissionChecks: decisions of other controllers about one Workload
    prebuilt       Workloads that exist before their jobs
    definitions    ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, AdmissionCheck
    claims         the settings of one gang, from these and its Workload
"""
