"""The status of queues, and Workloads that have been kept long enough.


Parts, lowest first:

    consumed   the past usage of LocalQueues
    shares     the fair share of ClusterQueues and Cohorts
    statuses   the status of ClusterQueue, LocalQueue and Cohort; the deletion of Workloads and jobs whose retention
               has ended
"""
