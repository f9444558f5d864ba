"""From changed objects to the gangs that they concern, and to events for the core.

Parts, lowest first:

    settings        how Phalanx is to behave on a cluster
    fence           one odd object concerns itself alone
    caches          which kinds are watched
    volume_users    which pods and Jobs name a claim, and are read again when it changes
    quota_headroom  gangs against the ResourceQuotas of their namespaces
    capacity_watch  nodes, queues, flavors, reservations
    workload_watch  Jobs and pods to their gangs
    watch           all that is watched, in order
    reconciler      the gangs to reconcile, because they changed or because their time has come
"""
