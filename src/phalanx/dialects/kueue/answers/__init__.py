"""Write Phalanx's decisions as the objects and statuses that Kueue's users read.

Parts, lowest first:

    conditions       set the conditions in a status, such as the conditions about the readiness of pods
    names            the name of a gang's Workload
    topology         topology requests and assignments of pod sets; the sizes of pod sets after a job has changed
    workload_status  the status of a Workload
    workloads        the Workload of a job
    consumed         the past usage of LocalQueues
    pending          the visibility API: pending Workloads in order
    queue_statuses   the status of ClusterQueue, LocalQueue and Cohort; delete Workloads and jobs after their retention
                     time
    figures          Kueue's metrics
"""
