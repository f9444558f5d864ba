"""Promises: room that others are leaving, kept for the job they leave it to.

A promise is charged to its nodes when it is made, so they are overfull until the others are gone, and nobody else is
placed there. Every cycle looks at every promise, before anything else is given away, and it is

- *redeemed* when none of its nodes is overfull but for what was promised there later, and nobody who leaves still has a
  port or a device that it is promised, or must be kept apart from it: the job starts there, and needs nothing of the
  draft, for its room is its own already;
- *withdrawn* when its time is over, when its job runs and falls below its minimum, when a node of it is gone, not ready
  or reserved for others, when pods that it must be near have come up elsewhere, or when those who are leaving do not
  leave enough any more (one of them runs on, after a restart; a pod of others came): then the job is decided anew;
- else kept, and the job says for whom it waits.

A nomination to requested nodes is kept until all of them have arrived.

A job that is withdrawn, or changed while it waits, has lost its promise by that (`core.fold.fold`). So has a pod that
would grow a running job, and is not wanted any more: of such a job pods are promised room, and placed when it is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property

import numpy as np

from phalanx.core.backfill import advance
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.node_order import ordered_nodes
from phalanx.core.placement.scoring.typical_pods import expected_pods
from phalanx.model.job import Phase, Slot
from phalanx.model.policy import Policy, ScoringStrategy
from phalanx.state.classes import AffinityClass, Demand
from phalanx.state.cluster import Cluster, JobRecord, is_incomplete, is_overcommitted, nominated_in
from phalanx.state.nodes.devices import DeviceUse, device_use
from phalanx.state.nodes.pod_index import selector_matches, term_matches
from phalanx.state.nodes.table import NodeTable

PATIENCE_S = 600.0  # beyond the grace period: so long others may take to leave


class NominationState(Enum):
    """The next step of a nomination."""

    FREE = "free"
    KEPT = "kept"
    BROKEN = "broken"


class LeavingPods:
    """The terminating pods, collected once a cycle.

    `released`: row -> resource -> what they give back.
    `jobs_on`: node -> their jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @cached_property
    def released(self) -> Mapping[int, Mapping[str, int]]:
        found: dict[int, Counter[str]] = {}
        sharing: dict[int, list[tuple[Sequence[str], DeviceUse]]] = {}
        columns = self.cluster.columns
        for record, slot in leaving_slots(self.cluster):
            row, demand = columns.row_of[record.placements[slot]], record.gang.demands[slot.role]
            found.setdefault(row, Counter()).update(dict(demand.asks))
            if demand.shape.share is not None and (names := record.devices.get(slot)):
                sharing.setdefault(row, []).append((names, device_use(demand.shape.share)))
        for row, leavers in sharing.items():
            found[row].update(columns.devices.returned(row, leavers))
        return found

    @cached_property
    def jobs_on(self) -> Mapping[str, Mapping[str, None]]:
        found: dict[str, dict[str, None]] = {}
        for job in self.cluster.leaving:
            record = self.cluster.jobs[job]
            for slot in record.leaving:
                found.setdefault(record.placements[slot], {})[job] = None
        return found


def nomination_state(cluster: Cluster, record: JobRecord, now_s: float, others: LeavingPods) -> NominationState:
    """Return the next step of a nomination."""
    columns = cluster.columns
    coming, nodes = columns.groups.coming, set(record.nominated.values())
    rows = np.array(sorted(columns.row_of[node] for node in nodes), np.intp)
    there = [columns.row_of[node] for node in nodes if node not in coming] if coming else rows
    is_over = now_s >= record.nominated_until_s or (len(there) == len(rows) and fell_below(cluster, record))
    if is_over or not columns.attributes.ready[there].all():
        return NominationState.BROKEN
    if (closed := advance.rows_closed_now(cluster, record.job, now_s)) is not None and closed[rows].any():
        return NominationState.BROKEN
    if len(there) < len(rows):
        return NominationState.KEPT
    short = set(rows[columns.lowest_free(rows) < 0].tolist())
    if not any(is_overcommitted(cluster, row, nominated_later(cluster, record, row)) for row in short):
        if leaver_in_the_way(cluster, record):
            return NominationState.KEPT
        return (
            NominationState.BROKEN
            if any(lacks_required_neighbor(cluster, record, *each) for each in record.nominated.items())
            else NominationState.FREE
        )
    return NominationState.KEPT if leave_enough(cluster, short, others) else NominationState.BROKEN


def fell_below(cluster: Cluster, record: JobRecord) -> bool:
    """Return whether the job runs as a gang, and misses pods to its minimum."""
    queue = cluster.queues.get(cluster.queue_of(record.job))
    return record.phase is not Phase.QUEUED and (queue is None or queue.gang) and is_incomplete(record)


def nominated_later(cluster: Cluster, record: JobRecord, row: int) -> Mapping[str, int]:
    """Return what later nominations request in the row: these wait for this one."""
    order = list(cluster.nominated)
    return nominated_in(cluster, row, dict.fromkeys(order[order.index(record.job.id) + 1 :]))


def leaver_in_the_way(cluster: Cluster, record: JobRecord) -> bool:
    """Return whether a leaving pod keeps the job from starting though there is capacity: by ports, devices or
    anti-affinity, which amounts do not show."""
    if not record.devices and all(demand.unconstrained and demand.kind is None for demand in record.gang.demands):
        return False
    return any(
        slots_clash(record, slot, node, other, leaver)
        for other, leaver in leaving_slots(cluster)
        for slot, node in record.nominated.items()
    )


def slots_clash(record: JobRecord, slot: Slot, node: str, other: JobRecord, leaver: Slot) -> bool:
    """Return whether the slot cannot start on the node while the other job's pod is where it is."""
    ours, theirs = record.gang.demands[slot.role], other.gang.demands[leaver.role]
    if other.placements[leaver] == node:
        if set(ours.shape.ports) & set(theirs.shape.ports):
            return True
        if set(record.devices.get(slot, ())) & set(other.devices.get(leaver, ())):
            return True
    return keeps_away(ours, theirs) or keeps_away(theirs, ours) or makes_uneven(ours, theirs)


def keeps_away(demand: Demand, other: Demand) -> bool:
    """Return whether the demand has required anti-affinity to the other, in whatever domain."""
    shape = demand.shape
    return any(not term.weight and term_matches(term, shape.namespace, other.kind) for term in shape.away)


def makes_uneven(demand: Demand, other: Demand) -> bool:
    """Return whether pods of the other demand count in a required spread of this one."""
    shape, kind = demand.shape, other.kind
    spread = (each.selector for each in shape.spread if each.required)
    return kind is not None and any(selector_matches(selector, (shape.namespace,), kind) for selector in spread)


def lacks_required_neighbor(cluster: Cluster, record: JobRecord, slot: Slot, node: str) -> bool:
    """Return whether pods that the slot must be near run elsewhere, and none beside it. (Where none runs at all it is
    the first, which was found out when it was promised that place.)"""
    shape = record.gang.demands[slot.role].shape
    terms = [term for term in shape.near if not term.weight]
    if not terms:
        return False
    homes = [
        labels_of(cluster, name)
        for kind, name in other_running_pods(cluster, record)
        if all(term_matches(term, shape.namespace, kind) for term in terms)
    ]
    here = labels_of(cluster, node)
    there = [[home[term.topology] for home in homes if term.topology in home] for term in terms]
    return any(there) and not all(here.get(term.topology) in values for term, values in zip(terms, there, strict=True))


def labels_of(cluster: Cluster, node: str) -> Mapping[str, str]:
    known = cluster.columns.node(node)
    return {} if known is None else dict(known.labels)


def other_running_pods(cluster: Cluster, record: JobRecord) -> Iterator[tuple[AffinityClass, str]]:
    """Pods that run and stay, of other jobs and of others: what they are, and where."""
    for pod, (kind, _) in cluster.foreign_identity.items():
        if kind is not None:
            yield kind, cluster.foreign[pod][0]
    for other in cluster.jobs.values():
        for slot, node in other.placements.items() if other is not record else ():
            if slot not in other.leaving and (kind := other.gang.demands[slot.role].kind) is not None:
                yield kind, node


def leaving_slots(cluster: Cluster) -> Iterator[tuple[JobRecord, Slot]]:
    """Yield (record, slot) of all terminating pods. They count as gone, however long they take (rule R17)."""
    for job in cluster.leaving:
        record = cluster.jobs[job]
        for slot in sorted(record.leaving):
            yield record, slot


def is_short(columns: NodeTable, row: int, back: Mapping[str, int]) -> bool:
    """Return whether the row holds more than it has, even with `back` given back."""
    return any(int(column[row]) + back.get(name, 0) < 0 for name, column in columns.free.items())


def leave_enough(cluster: Cluster, rows: set[int], others: LeavingPods) -> bool:
    """Return whether these rows are no longer overcommitted once all leaving pods have left."""
    return not any(is_overcommitted(cluster, row, others.released.get(row, {})) for row in rows)


def lower_nominated(cluster: Cluster, record: JobRecord) -> Iterator[JobRecord]:
    """Yield the jobs of lower priority in the job's queue that are nominated, or grow by nomination."""
    queue = cluster.queue_of(record.job)
    for name in list(cluster.nominated):
        other = cluster.jobs[name]
        same = cluster.queue_of(other.job) == queue and other.phase is not Phase.STOPPING
        if same and other.job.priority < record.job.priority:
            yield other


def leavers(record: JobRecord, others: LeavingPods) -> Sequence[str]:
    """Return the jobs that are still on the nodes that the job is nominated for."""
    return sorted({job for node in set(record.nominated.values()) for job in others.jobs_on.get(node, ())})


def cycle_draft(cluster: Cluster, policy: Policy, others: LeavingPods) -> Draft:
    """Return the draft of a cycle that begins. `others`: the terminating pods."""
    columns = cluster.columns
    order = ordered_nodes(columns, packed=policy.score is ScoringStrategy.PACK)
    draft = Draft(columns, cluster.topologies(policy), policy.score, expected_pods(cluster, policy), order)
    wider = with_overcommitted(cluster, draft, others)
    if wider is None:
        return draft
    columns.node_order = order  # it was not used: the next cycle can bring it up to date
    return wider


def with_overcommitted(cluster: Cluster, draft: Draft, others: LeavingPods) -> Draft | None:
    """Return the draft of a cycle that begins, and beside it the nodes that are overcommitted no more when the
    terminating pods (`others`) have left; None: there are no such nodes.

    These nodes are shut until a search for victims takes the pods to be gone: only then may it place anything there
    (rule R17). So on a cluster of one node a second preemptor need not wait until the first has started."""
    columns = draft.columns
    if not (cluster.nominated and cluster.leaving):
        return None
    leaving = [row for row in others.released if columns.attributes.ready[row] and columns.least_free(row) < 0]
    rows = [row for row in leaving if not is_short(columns, row, others.released[row])]
    if not rows:
        return None
    free = {name: column.copy() for name, column in columns.free.items()}
    for column in free.values():
        column[rows] = np.maximum(column[rows], 0)  # for only what is not overfull is laid out
    wider = Draft(columns.with_free(free), draft.topologies, draft.score, draft.expected)
    for position in np.isin(wider.rows, rows).nonzero()[0].tolist():
        row = int(wider.rows[position])
        lacking = [(name, -int(column[row])) for name, column in columns.free.items() if column[row] < 0]
        wider.take(position, tuple(lacking), 1)
        wider.shut(position)
    wider.overcommitted = rows
    return wider
