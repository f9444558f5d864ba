"""What is read off the state: it decides nothing.

Rooms, lowest first:

    cluster_status  the cluster in a few numbers
    forecast        when waiting jobs are expected to start: the cycle, played forward on a copy
    queue_status    how queues stand, and the first of their pending jobs
"""
