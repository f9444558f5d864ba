"""Choose the next job, by the order of the jobs in each queue and the order of the queues.

Parts, lowest first:

    associations   the tree of Slurm's associations, from queues and their usage; their fair-share factors
    multifactor    Slurm's multifactor priority
    account_usage  the past usage of accounts; the account with the least usage comes first
    next_job       the next job of the whole queue tree, by a tournament
"""
