"""Route each changed object to the gang that it belongs to, or convert the change to events for the core.

Parts, lowest first:

    settings        the settings of the scheduler on a cluster
    fence           handles objects that cannot be read, so that they affect no other object
    caches          which kinds are watched
    volume_users    which pods and Jobs name a volume claim, so that they are read again when it changes
    quota_headroom  checks gangs against the ResourceQuotas of their namespaces
    capacity_watch  converts changes of nodes, queues, flavors and reservations into events
    workload_watch  routes Jobs and pods to their gangs
    watch           watches all kinds; reads existing objects in the order in which decisions need them
    reconciler      reconciles gangs that have changed, or whose timer has expired
"""
