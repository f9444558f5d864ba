"""Quota: whether the queue tree allows a job to start.

The package implements Kueue's quotas: guarantees (Kueue's nominal quota), limits and lending limits by flavor, in a
tree of queues. It also implements Slurm's limits per queue, user, group and job.

Parts, lowest first:

    partial            partial admission: the optional members of a gang that are left out
    shares             weighted dominant resource shares
    ledger             the charges with this cycle's decisions, and the first limit that does not allow a charge
    flavor_assignment  the assignments of flavors to a gang's roles, the best first; the flavors that the roles of a
                       gang may get: one of each resource group; the order in which a queue prefers the assignments of
                       flavors
"""
