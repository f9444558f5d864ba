"""Other clusters to which jobs are sent (Kueue's MultiKueue): the connection to each, and its free capacity.

Parts, lowest first:

    copies      the copies of jobs in other clusters: their kinds, their content
    workers     the clusters themselves: connections, states, nodes, calls
    choice      which worker gets a job
    keys        jobs that are to be looked at
    defaulting  the list of LocalQueues that send their jobs away
    dispatch    send jobs, follow their copies, delete copies
"""
