"""Which other cluster gets a job: what each offers, when each would start it, and their order.

Parts, lowest first:

    question  a gang as a question to a worker, and the worker's answer; the price and the data of a cluster
    choices   the choice for each waiting gang, kept up to date; the order of the clusters for one gang; workers in a
              snapshot, from the figures of the scheduler
"""
