"""Quota: decide whether the limits and guarantees of the queue tree allow a job to start.

The package implements Kueue's quotas: guarantees (Kueue's nominal quota), limits and lending limits by flavor, in a
tree of queues. It also implements Slurm's limits per queue, user, group and job.

Parts, lowest first:

    partial            partial admission: which optional members of a gang are left out if quota is short
    excess             quota preemption: the pods that a queue loses if its limit was lowered below its usage
    shares             weighted dominant resource shares
    ledger             the charges including this cycle's decisions, and the first limit that does not allow a charge
    flavor_assignment  the flavors that the roles of a gang may get (one of each resource group), and the assignments of
                       flavors to roles, in the order in which the queue prefers them
"""
