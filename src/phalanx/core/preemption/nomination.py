"""Nominations. A job is nominated to the nodes on which it will start as soon as its victims have left them.

A nominated job is charged to its nodes at once. Until the victims have left, these nodes are overcommitted, so no other
job is placed on them. Every cycle checks every nomination before all other requests:

- The job *starts* when two conditions are met. First, without the amounts of later nominations, none of its nodes is
  overcommitted. Second, no terminating pod blocks the job by a port, a device, anti-affinity or topology spread. The
  job needs no free capacity on the draft, because its nodes are already charged for it.
- The nomination is *withdrawn* in four cases. First, the job already runs, and has fallen below its minimum. Second, a
  node is gone, is not ready, or is now reserved for other jobs. Third, the pods that the job's pod affinity requires
  nearby now run in other topology domains. Fourth, the capacity of the terminating pods is no longer enough, for
  example because another scheduler has placed a pod on a node, or because a victim was not deleted before the scheduler
  restarted. The next cycle then decides about the job again.
- Otherwise the nomination is *kept*, and the job reports which victims it waits for. If the time limit of the
  nomination has passed, the nomination *moves* to other nodes as soon as all of the job's pods fit on them.

A job may also be nominated to nodes that a node group is still creating. Such a nomination is kept until all of these
nodes have joined the cluster, or until its time limit has passed.

Pods above the minimum of a running job can be nominated too, and are placed when the capacity is free. A queued job
loses its nomination when the job is deleted or changed (`core.fold.fold`). A nominated pod above the minimum loses its
nomination when the job no longer requests this pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property

import numpy as np

from phalanx.core.backfill import advance
from phalanx.core.placement import gang
from phalanx.core.placement.draft import Draft
from phalanx.model.job import Phase, Placement, Slot, pods_by_role
from phalanx.model.plan import Action, Nominate
from phalanx.state.classes import AffinityClass, Demand
from phalanx.state.cluster import Cluster, JobRecord, is_incomplete, is_overcommitted, nominated_in
from phalanx.state.nodes.devices import DeviceUse, device_use
from phalanx.state.nodes.pod_index import selector_matches, term_matches
from phalanx.state.nodes.table import NodeTable

# If the victims still run this long after the end of their grace period, the nomination may move to other nodes.
PATIENCE_S = 600.0


class NominationState(Enum):
    """The next step of a nomination: start the job (FREE), keep the nomination (KEPT), or withdraw it (BROKEN)."""

    FREE = "free"
    KEPT = "kept"
    BROKEN = "broken"


class LeavingPods:
    """The terminating pods of all jobs. Each cycle creates this object once.

    `released`: row -> resource -> the amount that the terminating pods on this node release.
    `jobs_on`: node -> the jobs with terminating pods on the node."""

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
    """Return the next step of the job's nomination. `others`: the terminating pods."""
    columns = cluster.columns
    coming, nodes = columns.groups.coming, set(record.nominated.values())
    rows = np.array(sorted(columns.row_of[node] for node in nodes), np.intp)
    there = [columns.row_of[node] for node in nodes if node not in coming] if coming else rows
    if (len(there) == len(rows) and fell_below(cluster, record)) or not columns.attributes.ready[there].all():
        return NominationState.BROKEN
    if (closed := advance.rows_closed_now(cluster, record.job, now_s)) is not None and closed[rows].any():
        return NominationState.BROKEN
    if len(there) < len(rows):
        return NominationState.BROKEN if now_s >= record.nominated_until_s else NominationState.KEPT
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
    """Return whether the job is a running gang that has fewer pods than its minimum."""
    queue = cluster.queues.get(record.queue)
    return record.phase is not Phase.QUEUED and (queue is None or queue.gang) and is_incomplete(record)


def nominated_later(cluster: Cluster, record: JobRecord, row: int) -> Mapping[str, int]:
    """Return a mapping: resource -> the amount that jobs with later nominations are charged on the node in this row.
    These jobs may start only after this job."""
    order = list(cluster.nominated)
    return nominated_in(cluster, row, dict.fromkeys(order[order.index(record.job.id) + 1 :]))


def leaver_in_the_way(cluster: Cluster, record: JobRecord) -> bool:
    """Return whether a terminating pod prevents the start of the nominated job: by a host port or a device that both
    need, by anti-affinity, or by topology spread."""
    if not record.devices and all(demand.unconstrained and demand.kind is None for demand in record.gang.demands):
        return False
    return any(
        slots_clash(record, slot, node, other, leaver)
        for other, leaver in leaving_slots(cluster)
        for slot, node in record.nominated.items()
    )


def slots_clash(record: JobRecord, slot: Slot, node: str, other: JobRecord, leaver: Slot) -> bool:
    """Return whether the slot's pod cannot start on the node while the other job's pod still runs there."""
    ours, theirs = record.gang.demands[slot.role], other.gang.demands[leaver.role]
    if other.placements[leaver] == node:
        if set(ours.shape.ports) & set(theirs.shape.ports):
            return True
        if set(record.devices.get(slot, ())) & set(other.devices.get(leaver, ())):
            return True
    return keeps_away(ours, theirs) or keeps_away(theirs, ours) or makes_uneven(ours, theirs)


def keeps_away(demand: Demand, other: Demand) -> bool:
    """Return whether a required anti-affinity term of `demand` selects the pods of `other`."""
    shape = demand.shape
    return any(not term.weight and term_matches(term, shape.namespace, other.kind) for term in shape.away)


def makes_uneven(demand: Demand, other: Demand) -> bool:
    """Return whether a required spread constraint of `demand` counts the pods of `other`."""
    shape, kind = demand.shape, other.kind
    spread = (each.selector for each in shape.spread if each.required)
    return kind is not None and any(selector_matches(selector, (shape.namespace,), kind) for selector in spread)


def lacks_required_neighbor(cluster: Cluster, record: JobRecord, slot: Slot, node: str) -> bool:
    """Return True if the slot's required pod affinity selects running pods, but none in the topology domain of the
    node. Return False if it selects no running pod at all: when the nomination was made, the slot's pod was allowed to
    be the first one."""
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
    """Yield (affinity class, node) of the running pods of other jobs and of other schedulers. Terminating pods are left
    out."""
    for pod, (kind, _) in cluster.foreign_identity.items():
        if kind is not None:
            yield kind, cluster.foreign[pod][0]
    for other in cluster.jobs.values():
        for slot, node in other.placements.items() if other is not record else ():
            if slot not in other.leaving and (kind := other.gang.demands[slot.role].kind) is not None:
                yield kind, node


def leaving_slots(cluster: Cluster) -> Iterator[tuple[JobRecord, Slot]]:
    """Yield (record, slot) of all terminating pods. A search for victims treats the capacity of terminating pods as
    free, no matter how long they take to terminate (rule R17)."""
    for job in cluster.leaving:
        record = cluster.jobs[job]
        for slot in sorted(record.leaving):
            yield record, slot


def is_short(columns: NodeTable, row: int, back: Mapping[str, int]) -> bool:
    """Return whether the node in this row is still overcommitted after `back` (resource -> amount) is released on
    it."""
    return any(int(column[row]) + back.get(name, 0) < 0 for name, column in columns.free.items())


def leave_enough(cluster: Cluster, rows: set[int], others: LeavingPods) -> bool:
    """Return whether the overcommitted nodes in these rows have enough capacity again after all terminating pods have
    left."""
    return not any(is_overcommitted(cluster, row, others.released.get(row, {})) for row in rows)


def lower_nominated(cluster: Cluster, record: JobRecord) -> Iterator[JobRecord]:
    """Yield the nominated jobs in the same queue that have a lower priority than the job. They include running jobs
    that have nominated pods above their minimum."""
    queue = record.queue
    for name in list(cluster.nominated):
        other = cluster.jobs[name]
        same = other.queue == queue and other.phase is not Phase.STOPPING
        if same and other.job.priority < record.job.priority:
            yield other


def place_elsewhere(cluster: Cluster, draft: Draft, record: JobRecord, now_s: float) -> list[Placement]:
    """Move all nominated pods of the job, on the draft, to nodes that are not overcommitted, and return the new
    placements. Return an empty list if the pods do not fit, or if the job already runs and has a topology request."""
    if record.phase is not Phase.QUEUED and record.gang.tree is not None:
        return []
    drafted, devices = draft.mark(), record.devices
    held = [Placement(*slot, node, devices.get(slot, ())) for slot, node in sorted(record.nominated.items())]
    vacate(cluster, draft, record, held)
    found = place_pods(cluster, draft, record, pods_by_role(held, len(record.job.roles)), now_s)
    if not found:
        draft.rewind(drafted)
    return [new._replace(ordinal=old.ordinal) for old, new in zip(held, sorted(found), strict=False)]


def place_pods(cluster: Cluster, draft: Draft, record: JobRecord, pods: Sequence[int], now_s: float) -> list[Placement]:
    """Place `pods[role]` pods of each role of the job on the draft. Return the placements; an empty list if the pods do
    not fit."""
    roles = tuple(replace(role, count=each, minimum=each) for role, each in zip(record.job.roles, pods, strict=True))
    # all of these pods must fit, so the groups must not start with fewer members
    groups = tuple(replace(group, minimum=None) for group in record.gang.groups)
    crew = cluster.interned.gang(roles, groups, record.gang.closeness, record.gang.size)
    if record.flavors:
        crew = cluster.with_flavors(crew, record.flavors)
    with advance.without_closed_nodes(draft, cluster, record.job, now_s):
        placements = gang.place(draft, crew)
    return [] if isinstance(placements, gang.PlacementShortfall) else placements


def growing_jobs(cluster: Cluster, places: Iterable[str], actions: Sequence[Action]) -> set[str]:
    """Return the running jobs that get more pods in this cycle. `places`: the running jobs for which the cycle has
    placed pods. `actions`: the actions of the cycle. A running job that one of them nominates to nodes also gets more
    pods."""
    nominated = (each.job for each in actions if isinstance(each, Nominate) and each.placements)
    return {*places, *(job for job in nominated if cluster.jobs[job].phase is not Phase.QUEUED)}


def each_slot_once(placed: Sequence[Placement], nominated: Sequence[Placement]) -> list[Placement]:
    """Return the placements that this cycle has made for a job. For its other slots with a nomination, add the
    nominated placements."""
    known = {(each.role, each.ordinal) for each in placed}
    return [*placed, *(each for each in nominated if (each.role, each.ordinal) not in known)]


def vacate(cluster: Cluster, draft: Draft, record: JobRecord, placements: Sequence[Placement]) -> None:
    """Remove the pods with `placements` from the draft. Pods on nodes outside the draft are ignored."""
    position_of = {row: position for position, row in enumerate(draft.rows.tolist())} if placements else {}
    for each in placements:
        if (position := position_of.get(cluster.columns.row_of[each.node])) is not None:
            draft.vacate(position, record.gang.demands[each.role], each.devices)


def leavers(record: JobRecord, others: LeavingPods) -> Sequence[str]:
    """Return the jobs that have terminating pods on any node to which the job of `record` is nominated."""
    return sorted({job for node in set(record.nominated.values()) for job in others.jobs_on.get(node, ())})


def with_overcommitted(cluster: Cluster, draft: Draft, others: LeavingPods) -> Draft | None:
    """Some nodes are overcommitted only until the terminating pods (`others`) have left. Return a draft that also has
    these nodes; None if there are none.

    In the returned draft, these nodes are closed until a search for victims removes the terminating pods from the draft
    (rule R17). So even in a cluster of one node, a second preemptor can be nominated before the first has started."""
    columns = draft.columns
    leaving = [row for row in others.released if columns.attributes.ready[row] and columns.least_free(row) < 0]
    rows = [row for row in leaving if not is_short(columns, row, others.released[row])]
    if not rows:
        return None
    free = {name: column.copy() for name, column in columns.free.items()}
    for column in free.values():
        # free amounts below 0 are raised to 0 for now, because a new draft leaves out overcommitted rows
        column[rows] = np.maximum(column[rows], 0)
    wider = Draft(columns.with_free(free), draft.topologies, draft.score, draft.expected)
    for position in np.isin(wider.rows, rows).nonzero()[0].tolist():
        row = int(wider.rows[position])
        lacking = [(name, -int(column[row])) for name, column in columns.free.items() if column[row] < 0]
        wider.take(position, tuple(lacking), 1)
        wider.shut(position)
    wider.overcommitted = rows
    return wider
