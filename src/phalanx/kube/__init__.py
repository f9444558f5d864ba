"""Run the scheduler on a Kubernetes API: turn changes of objects into events for the core, and the core's decisions
into writes.

A *gang* is a set of Kubernetes Jobs and pods that Phalanx schedules together as one job. The parts, lowest first (a
part imports only parts that are listed before it):

    read/       Kubernetes objects as values: pods, Jobs, nodes, queues, and every label and annotation
    capacity/   the free amounts of nodes and of namespaces' ResourceQuotas
    install/    install definitions of Phalanx's kinds and admission policies
    gang/       the life of one gang: its spec, its seats, the bind barrier, preemption, restart; no I/O
    write/      writes to the API server: concurrent, in order for each object, never repeated by mistake
    leader      elect one leader by a Lease; the leader writes nothing after its Lease may have expired
    routing/    map changed objects to the gangs that they belong to
    status/     publish the status of queues and PodGroups, and past usage
    world/      the `World` of `phalanx.loop`: it reports events, and carries out plans
"""
