"""Apply events about the cluster to the state: nodes, pods of other schedulers, queues, flavors, reservations, policy,
time.

`core.fold.fold` has the table that maps events to these functions. If a change may concern pending jobs, the next cycle
*receives* these jobs again: it checks whether they are eligible, and adds them to request classes. If only the rules of
some queues have changed, it receives the jobs of these queues again. If the change may concern any job, it receives all
jobs again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from phalanx.core.fold import node_groups
from phalanx.core.fold.charging import rebuild_tree
from phalanx.model.event import (
    FlavorGone,
    FlavorSeen,
    NodeGone,
    NodeGroupGone,
    NodeGroupSeen,
    NodesComing,
    NodeSeen,
    NodesFailed,
    NodesKept,
    NodesNoted,
    Occupied,
    PolicySeen,
    QueueGone,
    QueueSeen,
    ReservationGone,
    ReservationSeen,
    RunTold,
    Ticked,
    TopologiesSeen,
    UsageTold,
    Vacated,
)
from phalanx.model.job import Job, Phase
from phalanx.model.plan import ReleaseNodes, RequestNodes
from phalanx.model.pod import bounded_amounts
from phalanx.model.policy import BackfillOrder, Policy
from phalanx.state.cluster import Cluster, time_limit_s
from phalanx.state.pending.request_class import Request
from phalanx.state.usage import Price


def node_seen(cluster: Cluster, event: NodeSeen) -> None:
    """Store a node that is new or has changed."""
    node = node_groups.arriving(cluster, event.node) if event.node.group else event.node
    known = cluster.columns.node(node.name)
    if known == node:
        return
    cluster.update_node(node)
    if known is None or known.labels != node.labels:
        refresh_open_slots(cluster, node.name)


def refresh_open_slots(cluster: Cluster, node: str) -> None:
    """For each gang with pods on the node, make the next cycle check the open slots again. The node was removed or has
    other labels now, so the slots may now need another topology domain."""
    if not cluster.columns.charges[cluster.columns.row_of[node]]:
        return
    for job, record in cluster.jobs.items():
        if record.open and record.gang.tree is not None and node in record.placements.values():
            for slot in record.open:
                cluster.pending.refresh(Request(job, slot))


def node_gone(cluster: Cluster, event: NodeGone) -> None:
    """Remove a deleted node from the state."""
    known = cluster.columns.node(event.name) is not None
    cluster.remove_node(event.name)
    if known and event.name in cluster.columns.row_of:
        refresh_open_slots(cluster, event.name)


def queue_seen(cluster: Cluster, event: QueueSeen) -> None:
    """Store a queue that is new or has changed."""
    queue = event.queue
    if cluster.queues.get(queue.name) != queue:
        cluster.queues[queue.name] = queue
        price = None if queue.usage is None else Price.of(queue.usage.billing, queue.usage.half_life_s)
        cluster.usage.price_queue(queue.name, price, cluster.now_s)
        cluster.tree.outdate(queue.name)


def queue_gone(cluster: Cluster, event: QueueGone) -> None:
    """Remove a deleted queue from the state."""
    if cluster.queues.pop(event.name, None):
        cluster.usage.price_queue(event.name, None, cluster.now_s)
        cluster.tree.outdate(event.name)
        cluster.preempted_at.pop(event.name, None)


def flavors_changed(cluster: Cluster, event: FlavorSeen | FlavorGone) -> None:
    match event:
        case FlavorSeen(flavor):
            cluster.flavors[flavor.name] = flavor
        case FlavorGone(name):
            cluster.flavors.pop(name, None)
    cluster.flavored_gangs.clear()
    # the pool has the total amounts of each flavor, so it must be computed again
    cluster.tree.pool_stale = True
    cluster.tree.outdate(
        *(queue.name for queue in cluster.queues.values() if any(quota.flavor for quota in queue.quotas))
    )
    cluster.pending.look_at_all()


def topologies_seen(cluster: Cluster, event: TopologiesSeen) -> None:
    """Store the topologies that objects of the cluster declare."""
    if cluster.declared_topologies != event.topologies:
        cluster.declared_topologies = event.topologies
        cluster.pending.look_at_all()


def reservations_changed(cluster: Cluster, event: ReservationSeen | ReservationGone) -> None:
    match event:
        case ReservationSeen(reservation):
            cluster.reservations[reservation.name] = reservation
        case ReservationGone(name):
            cluster.reservations.pop(name, None)
    receive_all_again(cluster)
    cluster.pending.look_at_all()


def run_told(cluster: Cluster, event: RunTold) -> None:
    """Add the run time of an ended job to the statistics that are used to estimate run times."""
    cluster.ends.run_times.learn(event.job, time_limit_s(cluster, event.job), event.run_s)


def with_learned_estimate(cluster: Cluster, job: Job) -> Job:
    """Return the job with a run time estimate that was learned from similar jobs. If the job states an estimate itself,
    or the policy does not use learned estimates, return the job unchanged."""
    if cluster.policy.backfill_order is not BackfillOrder.SHORTEST_LEARNED or job.estimate_s is not None:
        return job
    estimate_s = cluster.ends.run_times.estimate_s(job, time_limit_s(cluster, job))
    return job if estimate_s is None else replace(job, estimate_s=estimate_s)


def usage_told(cluster: Cluster, event: UsageTold) -> None:
    """Store the past usage of a user."""
    cluster.usage.tell(event.queue, event.user, event.usage, event.at_s, cluster.now_s)


def occupied(cluster: Cluster, event: Occupied) -> None:
    """Charge a node for a pod that another scheduler has placed."""
    held = (event.node, bounded_amounts(event.requests))
    kind = cluster.interned.kind(event.namespace, event.labels, event.near, event.away)
    seen, had = (kind, event.ports), cluster.foreign_identity.get(event.pod, (None, ()))
    known = (cluster.foreign.get(event.pod), had, cluster.foreign_devices.get(event.pod, ()))
    if known != (held, seen, event.devices):
        cluster.add_foreign_pod(event.pod, *held, *seen, event.devices)
    if event.resident:
        cluster.residents.add(event.pod)


def vacated(cluster: Cluster, event: Vacated) -> None:
    """Release the amounts that a pod of another scheduler held on its node."""
    cluster.remove_foreign_pod(event.pod)


def policy_seen(cluster: Cluster, event: PolicySeen) -> None:
    """Store the policy, if it has changed."""
    policy = event.policy
    if cluster.policy is not policy:
        if cluster.policy != policy:
            policy_changed(cluster, policy)
        cluster.policy = policy


def policy_changed(cluster: Cluster, policy: Policy) -> None:
    cluster.usage.price(policy.billing, policy.half_life_s, cluster.now_s)
    before, cluster.policy = cluster.policy, policy
    if before.default_queue != policy.default_queue:
        cluster.tree.outdate(before.default_queue, policy.default_queue)
        for job in cluster.jobs_of.get("", ()):
            cluster.jobs[job].queue = policy.default_queue
    cluster.pending.look_at_all()


def tick(cluster: Cluster, event: Ticked) -> None:
    """Store the time of the event. `Cluster.told_s` becomes this time, even if the clock was set back. In that case,
    reservations may begin or end a second time. `Cluster.now_s` also becomes this time, but never decreases."""
    now_s = event.now_s
    early_s, late_s = sorted((cluster.told_s, now_s))
    cluster.told_s = now_s
    if now_s > cluster.now_s:
        cluster.now_s = now_s
    if cluster.reservations and any(
        early_s < at_s <= late_s for each in cluster.reservations.values() for at_s in (each.start_s, each.end_s)
    ):
        cluster.pending.look_at_all()
        for job, record in cluster.jobs.items():
            if record.job.reservation and record.phase is Phase.QUEUED:
                cluster.pending.refresh(Request(job))


def tree_changed(cluster: Cluster) -> None:
    """Build the queue tree again, because queues, flavors or nodes have changed. Make the next cycle receive all jobs
    of the queues whose rules have changed."""
    tree = cluster.tree
    if tree.stale:
        before = {name: branch.treatment() for name, branch in tree.branches.items()}
        names = dict.fromkeys(each.name for name in tree.outdated for each in tree.branch(name).below())
        rebuild_tree(cluster)
        for name in tree.outdated:
            names.update(dict.fromkeys(each.name for each in tree.branch(name).below() if name in tree.branches))
            names[name] = None
        for name, branch in tree.branches.items():
            if before.get(name) != branch.treatment():
                names[name] = None
        tree.outdated.clear()
        for name in names:
            receive_queue_again(cluster, name)
    pool = tree.pool
    rebuild_tree(cluster)
    if tree.pool != pool:
        cluster.pending.look_at_hopeless()


def receive_all_again(cluster: Cluster) -> None:
    """Make the next cycle receive all pending jobs again, because an advance reservation has changed. The reservation
    may concern jobs of all users, groups and queues."""
    for queue in list(cluster.jobs_of):
        receive_queue_again(cluster, queue)


def receive_queue_again(cluster: Cluster, queue: str) -> None:
    """Make the next cycle receive the queue's jobs again. Jobs that name no queue belong to the default queue."""
    for name in (queue, "") if queue == cluster.policy.default_queue else (queue,):
        for job in cluster.jobs_of.get(name, ()):
            record = cluster.jobs[job]
            if record.phase is Phase.QUEUED:
                cluster.pending.refresh(Request(job))
            for slot in record.open:
                cluster.pending.refresh(Request(job, slot))


OF_NODE_GROUPS: Final[dict[type[Any], Callable[[Cluster, Any], None]]] = {
    NodeGroupSeen: node_groups.group_seen,
    NodeGroupGone: node_groups.group_gone,
    NodesComing: node_groups.nodes_requested,
    NodesFailed: node_groups.nodes_failed,
    NodesKept: node_groups.nodes_kept,
    NodesNoted: node_groups.nodes_noted,
    RequestNodes: node_groups.nodes_requested,
    ReleaseNodes: node_groups.nodes_released,
}
