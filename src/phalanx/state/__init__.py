"""The cluster as it is known now: one mutable object, `cluster.Cluster`, and the indexes that it is made of.

The loop owns it, and `core.fold` alone changes it. Every change updates each index, so that the cost of a decision
depends on what changed, and not on the size of the cluster. Nothing here decides anything.

Parts, lowest first:

    classes       demands and gangs, interned: one object for all pods, or jobs, that ask the same
    dependencies  which jobs wait for which others; arrays; how finished jobs ended
    nodes/        the nodes as columns: amounts, attributes, devices, and which pods run where
    queues/       the queues as a tree, what is charged to each, and what a gang costs
    pending/      the jobs that wait, and what each waits for
    run_times     run times of finished jobs, and the expected run times of others; recent submissions
    running       running jobs: as columns, by expected end, by what they hold
    usage         the decayed past usage of users, for fair shares
    cluster       the whole: `Cluster`, and a `JobRecord` for each live job
"""
