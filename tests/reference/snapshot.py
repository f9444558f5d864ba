"""The facts of a cluster state, as the reference reads them."""

from __future__ import annotations

from phalanx.model.job import Phase
from phalanx.model.policy import Backfill
from phalanx.state.cluster import Cluster, JobRecord

from .facts import Facts, Work, total
from .tree import tree_of


def facts_of(cluster: Cluster, now_s: float) -> Facts:
    """Return the facts of a state into which all events are folded, before the cycle decides."""
    ranks = {job: rank for rank, job in enumerate(cluster.nominated)}
    asked = {resource for record in cluster.jobs.values() for resource, _ in record.job.roles[0].shape.requests}
    quotas = (quota for queue in cluster.queues.values() for quota in queue.quotas)
    asked |= {resource for quota in quotas for resource, _ in (*quota.guaranteed, *quota.limit)}
    resources = tuple(sorted(asked))
    works = {name: work_of(cluster, record, ranks.get(name, 0), resources) for name, record in cluster.jobs.items()}
    nodes = {}
    for node in cluster.columns.nodes:
        if node is not None and node.ready and not node.unschedulable:
            has = dict(node.allocatable)
            nodes[node.name] = tuple(has.get(resource, 0) for resource in resources)
    capacity = total(nodes.values(), (0,) * len(resources))
    queues = {name: queue for name, queue in cluster.queues.items() if not cluster.tree.branches[name].fault}
    return Facts(
        now_s=now_s,
        nodes=nodes,
        queues=queues,
        tree=tree_of(queues, resources, capacity),
        capacity=capacity,
        works=works,
        preempted_at={queue: list(times) for queue, times in cluster.preempted_at.items()},
        has_reservations=cluster.policy.backfill is Backfill.EASY,
    )


def work_of(cluster: Cluster, record: JobRecord, rank: int, resources: tuple[str, ...]) -> Work:
    job, asked = record.job, dict(record.job.roles[0].shape.requests)
    return Work(
        job=job,
        queue=cluster.queue_of(job),
        asks=tuple(asked.get(resource, 0) for resource in resources),
        phase=record.phase,
        pods={slot.ordinal: node for slot, node in record.placements.items()},
        leaving={slot.ordinal for slot in record.leaving} if record.phase is not Phase.STOPPING else set(),
        open={slot.ordinal for slot in record.open},
        nominated={slot.ordinal: node for slot, node in record.nominated.items()},
        rank=rank,
        until_s=record.nominated_until_s,
        started_s=record.started_s,
        not_before_s=record.not_before_s if record.phase is Phase.QUEUED else 0.0,
        short_since_s=record.short_since_s,
        preempted=record.preempted + job.preempted,
        size=record.size[0] if record.size and record.phase is not Phase.QUEUED else 0,
    )
