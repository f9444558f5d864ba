"""Other clusters to which jobs are sent (Kueue's MultiKueue): the connection to each, and its free capacity.

Parts, lowest first:

    source   where the kubeconfig of a cluster is, and its content
    state    the state of a connection, as a condition and as a row
    mirror   the nodes of a worker as nodes of the manager
    worker   one worker: its connection, its caches, its state
    fleet    all workers, as the objects of the manager name them
    figured  workers in a snapshot, from the figures of the scheduler
    copies   the copy of a Job in a worker
    reach    connect to the worker that has a Job
    keys     Jobs that are to be looked at
    dispatch  send jobs, follow their copies, delete copies
"""
