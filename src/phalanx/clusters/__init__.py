"""Other clusters to which jobs are sent (Kueue's MultiKueue): the connection to each, and its free capacity.

Parts, lowest first:

    copies      the copies of jobs in other clusters: their kinds, their content
    workers     the clusters themselves: connections, states, nodes, calls
    choice      the choice of a worker for a job
    keys        the queue of jobs to reconcile
    defaulting  the list of LocalQueues that send their jobs away
    dispatch    send jobs, follow their copies, delete copies
"""
