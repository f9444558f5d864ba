"""The status of queues, and Workloads that have been kept long enough.


Parts, lowest first:

    consumed   the past usage of LocalQueues
    statuses   the status of ClusterQueue, LocalQueue and Cohort; the deletion of Workloads and jobs whose retention;
               the fair share of ClusterQueues and Cohorts
"""
