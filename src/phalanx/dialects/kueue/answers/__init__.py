"""What was decided, as Kueue's users read it.

Rooms, lowest first:

    conditions  one condition of a status, kept while it says the same
    workloads   the Workload of a job, and its status
    statuses    the status of ClusterQueue, LocalQueue and Cohort
"""
