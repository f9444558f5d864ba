"""Other clusters to which jobs are sent (Kueue's MultiKueue): the connection to each, and its free capacity.

Parts, lowest first:

    source      where the kubeconfig of a cluster is, and its content
    state       the state of a connection, as a condition and as a row
    sendable    the kinds of jobs that can be sent
    copies      the copy of a job in a worker
    mirror      the nodes of a worker as nodes of the manager
    worker      one worker: its connection, its caches, its state
    fleet       all workers, as the objects of the manager name them
    choice      which worker gets a job
    figured     workers in a snapshot, from the figures of the scheduler
    reach       connect to the worker that has a job
    keys        jobs that are to be looked at
    calls       calls to workers, few at a time to each
    echo        warnings of a worker as Events of the manager
    defaulting  the list of LocalQueues that send their jobs away
    dispatch    send jobs, follow their copies, delete copies
"""
