"""Choose the next job, by the order of the jobs in each queue and the order of the queues.

Parts, lowest first:

    fair_tree      Slurm's fair-share factor, by the Fair Tree algorithm or the classic formula
    multifactor    Slurm's multifactor priority
    account_usage  the past usage of accounts; the account with the least usage comes first
    next_job       the next job of the whole queue tree, by a tournament
"""
