"""The cluster as it is known now: one mutable object, `cluster.Cluster`, and the indexes that it is made of.

The loop owns it, and `core.fold` alone changes it. Every change updates each index, so that the cost of a decision
depends on what changed, and not on the size of the cluster. Nothing here decides anything.

Parts, lowest first:

    classes       demands and gangs, interned: one object for all pods, or jobs, that ask the same
    dependencies  which jobs wait for which others; arrays; how finished jobs ended
    history/      what is remembered of jobs that are over: usage, run times
    nodes/        the nodes as columns: amounts, attributes, devices, and which pods run where
    queues/       the queues as a tree, what is charged to each, and what a gang costs
    pending/      the jobs that wait, and what each waits for
    running       running jobs: as columns, by expected end, by what they hold
    cluster       the whole: `Cluster`, and a `JobRecord` for each live job
"""
