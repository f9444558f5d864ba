"""The values that cross boundaries: what a world tells, what the core decides, what people ask.

All of them are frozen and know nothing of each other's use. A world (`kube`, `simulator`) and the core speak to each
other in these values alone. Amounts are exact integers: cpu in millicores, all else in whole units. Times are seconds
since the epoch, in UTC; names of times and durations end in `_s`.

Rooms, lowest first:

    pod     the shape of a pod: what it asks, where it may run; amounts
    node    a node; topology, flavors and reservations, which are about nodes
    reason  why a job waits, with numbers; when it is forecast to start
    job     a job, its roles and groups, and the tree that they form; placements
    queue   a queue: quotas, limits, order, and what its jobs may preempt
    policy  how the whole cluster is scheduled
    event   what happened: the only way anything enters the cluster's state
    plan    what to do: actions, and what deciding found out
    status  what people ask at one moment: a queue's status, the cluster's
"""
