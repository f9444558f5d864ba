"""Reports about the cluster state. They decide nothing.

Parts, lowest first:

    cluster_status  the cluster in a few numbers
    later_jobs      jobs that may be submitted later: the recent submissions again
    forecast        expected starts of pending jobs: cycles simulated on a copy of the state
    queue_status    the status of each queue, with its first pending jobs
"""
