"""Which other cluster gets a job: what each offers, when each would start it, and their order.

Parts, lowest first:

    offer     the price and the data of a cluster
    question  a gang as a question to a worker, and the worker's answer
    ranking   the order of the clusters for one gang
    choices   the choice for each waiting gang, kept up to date
    figured   workers in a snapshot, from the figures of the scheduler
"""
