"""Phalanx on a Kubernetes API: what happens there is told to the scheduler, and what it decides is carried out there.

Rooms, lowest first; a room imports only those listed before it:

    read/       Kubernetes objects as values: pods, Jobs, nodes, queues, and every label and annotation that we know
    capacity/   what is left on nodes and in the ResourceQuotas of namespaces
    install/    what Phalanx brings to a cluster: definitions of its kinds, admission policies
    gang/       the life of one gang: its spec, its seats, the bind barrier, preemption, restart. No I/O
    write/      writes to the API server: sent side by side, in order per object, never twice by mistake
    leader/     the Lease: one scheduler at a time, and the fence past which nothing is written
    routing/    from changed objects to the gangs that they concern
    status/     what others are told: the status of queues and PodGroups, past usage
    world       `World` of `phalanx.loop`: events in, plans out
"""
