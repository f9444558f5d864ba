"""Reports about the cluster state. The reports only read the state and make no decisions.

Parts, lowest first:

    forecast        forecast the starts of pending jobs by simulating cycles on copies of the state, with jobs that may
                    be submitted later
    status          compute the status of the cluster, and of each queue with its first pending jobs
"""
