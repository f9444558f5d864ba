"""Compute the status of queues from the state, for the status of Queue objects and for the command line.

The computation takes time in proportion to the number of queues and of their quotas. To find the first pending jobs of
a queue, it reads all jobs of the queue once.

The module also computes the status of the cluster, which consists of a few numbers.

Computing it takes time in proportion to the number of nodes, of request classes (groups of equal waiting jobs), and of
jobs that are in no request class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from math import inf

import numpy as np

from phalanx.core.order.account_usage import AccountUsage
from phalanx.core.order.multifactor import MultifactorPriority
from phalanx.core.quota import shares
from phalanx.model.job import Phase
from phalanx.model.pod import MAX_AMOUNT, Amount
from phalanx.model.queue import QueueOrder, QueueState
from phalanx.model.status import ClusterStatus, QueuePosition, QueueStatus, ResourceUsage
from phalanx.report.forecast import typical_starts
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.pending.request_class import Kind, Request
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Key

_MOST_SHOWN = 100_000  # the maximum number of jobs of one queue that are sorted to find its first pending jobs
_STARTED = (Phase.STARTING, Phase.RUNNING)


def queue_statuses(cluster: Cluster, places: int = 20) -> Iterator[QueueStatus]:
    """Yield every queue's status, parents before children, siblings by name, with its first `places` pending jobs."""
    pending, running = _counts(cluster)
    owned = {key for each in cluster.tree.branches.values() for key, amount in each.quota.guaranteed.items() if amount}
    left = [(branch, 0) for branch in reversed(_by_name(cluster.tree.root))]
    while left:
        branch, depth = left.pop()
        left += [(child, depth + 1) for child in reversed(_by_name(branch))]
        usage = tuple(_usage(branch, owned))
        yield _standing(cluster, branch, depth, (pending[branch.name], running[branch.name]), usage, places)


def with_expected_starts(cluster: Cluster, found: list[QueueStatus], now_s: float, most_jobs: int) -> list[QueueStatus]:
    """Return the statuses of the queues, with the expected starts of each queue's first jobs. With more than
    `most_jobs` live jobs, return them unchanged, because a forecast would take too long."""
    asked = [place.job for standing in found for place in standing.first]
    if not asked or len(cluster.jobs) > most_jobs:
        return found
    starts = typical_starts(cluster, cluster.policy, now_s, asked)
    return [
        replace(each, first=tuple(replace(place, start_s=starts.get(place.job)) for place in each.first))
        for each in found
    ]


def queue_positions(cluster: Cluster, queue: str, places: int) -> list[QueuePosition]:
    """Return the first `places` pending jobs of the queue, in job order."""
    records = islice(_records(cluster, queue), _MOST_SHOWN)
    waiting = (record for record in records if record.phase not in _STARTED)
    first = nsmallest(places, waiting, key=_ranking(cluster, queue))
    found = []
    for position, record in enumerate(first, 1):
        reason = cluster.reason(record.job.id)
        found.append(
            QueuePosition(job=record.job.id, position=position, code=str(reason.code) if reason is not None else "")
        )
    return found


def waiting_jobs(cluster: Cluster, queue: str) -> list[JobRecord]:
    """Return the pending jobs of the queue, in job order; at most `_MOST_SHOWN` jobs of the queue are ranked."""
    records = islice(_records(cluster, queue), _MOST_SHOWN)
    return sorted((record for record in records if record.phase not in _STARTED), key=_ranking(cluster, queue))


def _by_name(branch: Branch) -> list[Branch]:
    return [branch.children[name] for name in sorted(branch.children)]


def _counts(cluster: Cluster) -> tuple[dict[str, int], dict[str, int]]:
    """Return two mappings: queue -> number of pending jobs, and queue -> number of started jobs. The numbers of a queue
    include the queues below it."""
    pending, running = (dict.fromkeys(cluster.tree.branches, 0) for _ in range(2))
    for name, branch in cluster.tree.branches.items():
        jobs = list(_records(cluster, name)) if branch.queue is not None else []
        started = sum(record.phase in _STARTED for record in jobs)
        for above in branch.path:
            running[above.name] += started
            pending[above.name] += len(jobs) - started
    return pending, running


def _records(cluster: Cluster, queue: str) -> Iterator[JobRecord]:
    names = (queue, "") if queue == cluster.policy.default_queue else (queue,)
    return (cluster.jobs[job] for name in names for job in cluster.jobs_of.get(name, ()))


def _ranking(cluster: Cluster, queue: str) -> Callable[[JobRecord], tuple[float, float, float, str]]:
    """Return a sort key for the queue's pending jobs. The key orders the jobs as `core.order.next_job` does, with the
    present priority factors and the present usage of accounts."""
    branch = cluster.tree.branch(queue)
    order = branch.order
    priorities = MultifactorPriority(cluster, cluster.policy, cluster.now_s)
    usage = AccountUsage(cluster, cluster.now_s)

    def ranked(record: JobRecord) -> tuple[float, float, float, str]:
        used = 0.0
        match order:
            case QueueOrder.FIFO:
                first = 0.0
            case QueueOrder.MULTIFACTOR:
                first = -priorities.of(record)
            case _:
                first = -record.job.priority
        if order is QueueOrder.USAGE and branch.queue is not None:
            used = usage.of_account(branch.queue, record.job.association)
        return used, first, record.job.submitted_s, record.job.id

    return ranked


def _standing(
    cluster: Cluster, branch: Branch, depth: int, counts: tuple[int, int], usage: tuple[ResourceUsage, ...], places: int
) -> QueueStatus:
    queue = branch.queue
    assert queue is not None
    ratio = shares.dominant_share(branch, branch.account, cluster.tree.pool)
    return QueueStatus(
        queue=branch.name,
        parent=queue.parent,
        depth=depth,
        pending=counts[0],
        running=counts[1],
        share=inf if ratio.weightless else ratio.ratio,
        usage=usage,
        state=queue.state,
        state_since_s=queue.state_since_s,
        held_by=next((each.name for each in branch.rules.states if each.state is not QueueState.OPEN), ""),
        fault=branch.fault,
        first=tuple(queue_positions(cluster, branch.name, places)) if places else (),
    )


def _usage(branch: Branch, owned: Set[Key]) -> Iterator[ResourceUsage]:
    """Yield the usage of each flavor and resource that the queue uses, or for which it has a guarantee or a limit.
    `owned`: the (flavor, resource) keys for which some queue of the tree has a guarantee."""
    used: Mapping[Key, Amount] = branch.account.total
    keys = {key for key, amount in used.items() if amount} | branch.quota.guaranteed.keys() | branch.quota.limit.keys()
    for flavor, resource in sorted(keys):
        key = flavor, resource
        quota, guaranteed = branch.quota, branch.quota.guaranteed.get(key)
        unbounded = guaranteed is not None and guaranteed >= MAX_AMOUNT
        yield ResourceUsage(
            flavor=flavor,
            resource=resource,
            used=used.get(key, 0),
            guaranteed=None if unbounded else guaranteed,
            limit=quota.limit.get(key),
            owned=key in owned and not unbounded,
            lendable=0 if unbounded else max(0, (guaranteed or 0) - max(used.get(key, 0), quota.kept.get(key, 0))),
        )


def cluster_status(cluster: Cluster) -> ClusterStatus:
    """Return the status of the cluster."""
    columns = cluster.columns
    ready = columns.attributes.ready
    return ClusterStatus(
        waiting=waiting_by_reason(cluster),
        nodes=len(columns) - sum(not coming.is_seen for coming in columns.groups.coming.values()),
        ready=int(ready.sum()),
        overfull=int((columns.lowest_free(np.flatnonzero(ready)) < 0).sum()),
        allocatable={name: int(column[ready].sum()) for name, column in columns.allocatable.items()},
        free={name: int(column[ready].sum()) for name, column in columns.free.items()},
    )


def waiting_by_reason(cluster: Cluster) -> Counter[str]:
    """Return the number of pending jobs by the code of their reason. The code "" stands for jobs without a reason
    yet."""
    found: Counter[str] = Counter()
    pending = cluster.pending
    told = 0
    for request_class in pending.request_classes.values():
        if request_class.key.kind == Kind.JOB and (reason := pending.reason_of(request_class)) is not None:
            found[str(reason.code)] += len(request_class)
            told += len(request_class)
    if told < len(cluster.jobs):
        found += _single(cluster)
    return found


def _single(cluster: Cluster) -> Counter[str]:
    """Return the number of pending jobs by their reason, for jobs that are in no request class, or in a class without a
    reason."""
    found: Counter[str] = Counter()
    pending = cluster.pending
    for name, record in cluster.jobs.items():
        if record.phase is not Phase.QUEUED:
            continue
        request_class = pending.request_class_of.get(Request(name))
        if request_class is None or pending.reason_of(request_class) is None:
            found[str(record.reason.code) if record.reason is not None else ""] += 1
    return found
