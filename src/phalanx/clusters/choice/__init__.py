"""Which other cluster gets a job: what each offers, when each would start it, and their order.

Parts, lowest first:

    question  the question to a worker about a gang, and its answer; the price and the data of a cluster
    choices   the choice for each waiting gang, kept up to date; the order of the clusters for one gang; workers in a
              snapshot, from the figures of the scheduler
"""
