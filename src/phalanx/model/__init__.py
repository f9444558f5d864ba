"""The values that packages exchange: events of a world, plans of the core, status for users.

All values are frozen. A world (`kube`, `simulator`) and the core exchange only these values. Amounts are exact
integers: cpu in millicores, other resources in whole units. Times are seconds since the epoch, in UTC; names of times
and durations end in `_s`.

Parts, lowest first:

    pod     the shape of a pod: its requests and its constraints on nodes; amounts
    node    a node; topologies, flavors and advance reservations
    reason  why a job waits, with numbers; the forecast of its start
    job     a job, its roles and groups, and the tree that they form; placements
    queue   a queue: quotas, limits, order, and its jobs' rights to preempt
    policy  the settings of the whole cluster
    event   facts that a world reports: the only way to change the cluster state from outside
    plan    the actions of one cycle, the time of the next cycle, and the first reservation
    status  the status of a queue and of the cluster at one time
"""
