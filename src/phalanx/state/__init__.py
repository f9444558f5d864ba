"""The present state of the cluster, as the scheduler knows it: one mutable object, `cluster.Cluster`, which contains
several indexes.

The scheduler's main loop owns this object. Only `core.fold`, the part of the core that applies events and plans to the
state, changes it. Every change updates all indexes at once, so that no decision has to build them again from all jobs
and nodes. This package makes no decisions.

Parts, lowest first:

    classes       demands and gangs, interned: one object for all pods, or jobs, with equal requests
    dependencies  jobs that wait for other jobs; arrays; the outcomes of finished jobs
    nodes/        the nodes as columns: amounts, attributes, devices, and which pods run where
    queues/       the queues as a tree, the charges of jobs to each queue, and the cost of a gang
    pending/      the jobs that wait, and the reason why each of them waits
    run_times     run times of finished jobs, and the expected run times of other jobs; recent submissions
    running       running jobs: as columns, sorted by expected end, and by the amounts that they hold
    usage         the decayed past usage of users, for fair shares
    cluster       the whole state, `Cluster`, with a `JobRecord` for each live job
"""
