"""The status of queues.


Parts, lowest first:

    consumed  the past usage of LocalQueues
    statuses  the status of ClusterQueue, LocalQueue and Cohort
"""
