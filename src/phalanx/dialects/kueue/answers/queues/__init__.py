"""The status of queues.

Rooms, lowest first:

    consumed  what LocalQueues have used in the past
    statuses  the status of ClusterQueue, LocalQueue and Cohort
"""
