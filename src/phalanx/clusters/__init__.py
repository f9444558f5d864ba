"""Other clusters to which jobs are sent (Kueue's MultiKueue): the connection to each, and its free capacity.

Parts, lowest first:

    copies      the copies of jobs in other clusters: their kinds, their content
    workers     the clusters themselves: connections, states, nodes, calls
    choice      the choice of a worker for a job
    sending     sends jobs, follows their copies, returns jobs to the queue
    defaulting  the list of LocalQueues that send their jobs away
    dispatch    all of it, for the scheduler of one cluster
"""
