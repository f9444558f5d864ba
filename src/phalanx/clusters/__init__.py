"""Other clusters to which jobs are sent (Kueue's MultiKueue): the connection to each, and its free capacity.

Parts, lowest first:

    copies      the copies of jobs in other clusters: their kinds, their content
    workers     the clusters themselves: connections, states, nodes, calls
    question    the question to a worker about a gang, and its answer; the price and the data of a cluster
    choices     the choice of a worker for each waiting gang, kept up to date; the order of the clusters for one gang
    sending     sends jobs, follows their copies, returns jobs to the queue
    defaulting  the list of LocalQueues that send their jobs away
    dispatch    combines all parts, for the scheduler of one cluster
"""
