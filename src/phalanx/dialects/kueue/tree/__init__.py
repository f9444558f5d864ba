"""Kueue's definitions as our queue tree.

Rooms, lowest first:

    transformations  what a pod counts against quota
    configuration  its Configuration, from the ConfigMap of its controller
    checks         AdmissionChecks: what others decide of one Workload
    prebuilt       Workloads that exist before their jobs
    definitions    ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, AdmissionCheck
    claims         what they, and its Workload, say of one gang
"""
