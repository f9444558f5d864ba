"""Reports about the cluster state. The reports only read the state and make no decisions.

Parts, lowest first:

    forecast        expected starts of pending jobs: cycles simulated on a copy of the state; jobs that may be
                    submitted later: the recent submissions again
    status          the cluster in a few numbers; the status of each queue, with its first pending jobs
"""
