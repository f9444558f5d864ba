"""Kueue (`kueue.x-k8s.io`, v1beta1 and v1beta2): its queues, its words on jobs, its answers.

Rooms, lowest first:

    kinds        its kinds, and the names that they have in our tree
    configuration  its Configuration, from the ConfigMap of its controller
    selectors    label selectors of namespaces
    definitions  ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, AdmissionCheck: our queue tree
    gangs        labels and annotations of jobs and pods, in our words
    conditions   one condition of a status, kept while it says the same
    workloads    the Workload of a job, and its status
    statuses     the status of ClusterQueue, LocalQueue and Cohort
    admission    what its webhooks do, as admission policies
    tables       what becomes of every field, label and annotation
    notes        what of an object has no effect
    migration    what each object of a cluster becomes, before it moves
    dialect      all of it, as `frame.Dialect`
"""
