"""Send jobs to other clusters (Kueue's MultiKueue). For this, connect to each of these clusters, and read its free
capacity.

Parts, lowest first:

    copies      the copies of jobs in other clusters: their kinds, their content
    workers     the other clusters: connections to them, their states and nodes, calls to them
    question    ask a worker when it would start a gang, and read the answer; read the prices and data of a cluster
    choices     choose a worker for each waiting gang, and keep the choice up to date; order the clusters for one gang
    sending     sends jobs, follows their copies, returns jobs to the queue
    defaulting  the list of LocalQueues whose jobs are sent to other clusters
    dispatch    combines all parts, for the scheduler of one cluster
"""
