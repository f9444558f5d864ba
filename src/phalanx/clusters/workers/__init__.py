"""The workers, which are the clusters to which jobs are sent: connections to them, their nodes, and calls to them.

Parts, lowest first:

    state   the state of a connection, as a condition; the capacity and use of a worker, as an annotation
    mirror  the nodes of a worker as nodes of the manager
    echo    warnings of a worker as Events of the manager
    source  the place and the content of a cluster's kubeconfig
    reach   a connection to the worker that runs a job, with the rights of the caller
    worker  one worker: its connection, its caches and its state
    fleet   all workers that the manager's objects name; the limit on concurrent calls to each worker
"""
