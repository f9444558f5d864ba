"""The clusters to which jobs are sent: the connection to each, what it has, and calls to it.

Parts, lowest first:

    source      where the kubeconfig of a cluster is, and its content
    state       the state of a connection, as a condition and as a row
    mirror      the nodes of a worker as nodes of the manager
    worker      one worker: its connection, its caches, its state
    fleet       all workers, as the objects of the manager name them
    calls       calls to workers, few at a time to each
    echo        warnings of a worker as Events of the manager
    reach       connect to the worker that has a job
"""
