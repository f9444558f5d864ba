"""Translate Kueue's definitions (ClusterQueues, Cohorts and others) to queues of Phalanx's queue tree.

Parts, lowest first:

    configuration  Kueue's Configuration, from the ConfigMap of its controller; the quota charge of a pod
    workload       the types of those fields of a Workload that are read
    checks         AdmissionChecks: decisions of other controllers about one Workload
    definitions    ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, AdmissionCheck
    claims         the settings of one gang, from the definitions and its Workload; Workloads that exist before their
                   jobs
"""
