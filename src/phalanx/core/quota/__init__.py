"""May a job start, as far as the queue tree is concerned.

Kueue's quotas: nominal (here guaranteed), borrowing and lending limits by flavor, cohorts that nest; Slurm's limits by
queue, user, group and job beside them.

Rooms, lowest first:

    partial            partial admission: which optional members of a gang are left out
    shares             weighted dominant resource shares
    ledger             the accounts with this cycle's decisions laid over them; the first limit that binds
    role_flavors      which flavors the roles of a gang may be given: one of each resource group
    flavor_assignment  the ways to give a gang's roles flavors, best first
"""
