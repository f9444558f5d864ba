"""Kueue's definitions as our queue tree.

Rooms, lowest first:

    configuration  its Configuration, from the ConfigMap of its controller
    selectors      label selectors of namespaces
    checks         AdmissionChecks: what others decide of one Workload
    definitions    ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, AdmissionCheck
"""
