"""Build the rows of the page: present jobs, queues and nodes from a snapshot, and past runs from the ledger.

The first part computes the rows of jobs, queues, nodes and reservations from a snapshot, without side effects. The
second part reads the ledger. Each ended run of a job is one row.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b
from math import inf, isfinite
from typing import Any

import msgspec

from phalanx import __version__
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.views import queue_view
from phalanx.cli.views.job import reading
from phalanx.cli.views.job.job_view import JobView
from phalanx.cli.views.node_view import GPU
from phalanx.cli.views.page.sooner import Outlook, PlayedRun
from phalanx.dashboard.rows import (
    Facts,
    JobRow,
    NodeRow,
    PageState,
    PastRow,
    PlayedRow,
    QueueRow,
    ReasonRow,
    ReservationRow,
)
from phalanx.ledger.entry import JobEntry, StartEntry, State
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import Ledger
from phalanx.model.job import Job, Phase, Role
from phalanx.model.node import Node, parts_of
from phalanx.model.pod import CPU, MEMORY
from phalanx.model.queue import Queue
from phalanx.model.reason import NEVER, Reason, ReasonCode, StartForecast
from phalanx.report.status import queue_positions

_GIB = 2**30
_CANNOT = NEVER | {ReasonCode.DEPENDENCY_NEVER, ReasonCode.QUEUE_UNKNOWN, ReasonCode.VOLUMES, ReasonCode.DEADLINE}
# Labels by which nodes are grouped into racks or pools if the cluster has no topology.
_RACKS = ("topology.kubernetes.io/rack", "rack", "phalanx.dev/rack")
_POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)
_HOSTNAME = "kubernetes.io/hostname"


class Unit:
    """The resource that the page draws: GPUs if a node of the cluster has GPUs, else CPU cores."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        held = Counter[str]()
        for node in nodes:
            for name, amount in node.allocatable:
                held[name] += amount
        gpus = [name for name in held if name.rpartition("/")[2] in ("gpu", "gpus") and held[name] > 0]
        self.resource = GPU if held.get(GPU) else max(gpus, key=lambda name: held[name], default=CPU)

    def of(self, amounts: Mapping[str, Any]) -> float:
        """Return the amount of this resource in `amounts`, in GPUs or CPU cores."""
        return _number(amounts.get(self.resource, 0) / (1000 if self.resource == CPU else 1))


def state_of(
    snapshot: Snapshot,
    outlook: Outlook | None,
    facts: Facts,
    thought: Snapshot | None = None,
    backfilled: Collection[tuple[str, float]] = (),
) -> PageState:
    """Return the state that the page shows. `facts`: data of the page that are not in the snapshot. `thought`: an
    earlier snapshot with a plan, if this snapshot has no plan. `backfilled`: (job, time of its start) of each running
    job that was started by backfill."""
    nodes = [node for node in snapshot.cluster.columns.nodes if node is not None]
    unit = Unit(nodes)
    found = reading.views(snapshot, finished=True)
    if thought is not None:
        found = list(_with_reasons(found, thought))
    reasons = {reason_key(view.reason): view.reason for view in found if view.reason is not None}
    places = {} if (thought or snapshot).partial else _positions(thought or snapshot)
    jobs = {row.id: row for row in _jobs(snapshot, found, unit, outlook, places)}
    for name, at_s in backfilled:
        record = snapshot.cluster.jobs.get(name)
        if name in jobs and record is not None and record.started_s == at_s and record.phase is not Phase.QUEUED:
            jobs[name] = msgspec.structs.replace(jobs[name], backfilled=True)
    head, head_s = _head(thought or snapshot)
    return PageState(
        facts=msgspec.structs.replace(
            facts,
            at_s=snapshot.now_s,
            version=__version__,
            unit=unit.resource,
            forecast_s=outlook.at_s if outlook is not None else None,
            head=head,
            head_s=head_s,
        ),
        jobs=jobs,
        queues={row.name: row for row in _queues(snapshot, unit)},
        nodes={row.name: row for row in sorted(_nodes(snapshot, nodes, unit), key=_by_rack)},
        reasons={key: _reason(reason) for key, reason in reasons.items()},
        reservations={row.name: row for row in _reservations(snapshot)},
        played={row.job: row for row in _played(snapshot, outlook, unit)} if outlook is not None else {},
    )


# --- jobs -----------------------------------------------------------------------------------------------------------


def _with_reasons(found: Iterable[JobView], thought: Snapshot) -> Iterator[JobView]:
    """Yield the views of the jobs. Queued jobs get the reasons and nominations of the snapshot `thought`."""
    reasons, nominated = thought.reasons, thought.nominated
    for view in found:
        if view.state != "queued":
            yield view
        else:
            state = "promised" if view.id in nominated else view.state
            yield replace(view, state=state, reason=reasons.get(view.id, view.reason))


def _jobs(
    snapshot: Snapshot, found: Iterable[JobView], unit: Unit, outlook: Outlook | None, places: Mapping[str, int]
) -> Iterator[JobRow]:
    for view in found:
        record = snapshot.cluster.jobs.get(view.id)
        job = record.job if record is not None else None
        asked = _sum(view.roles)
        largest = max((unit.of(dict(role.shape.requests)) for role in view.roles), default=0)
        start = outlook.starts.get(view.id) if outlook is not None and not view.soon else None
        yield JobRow(
            id=view.id,
            user=job.user if job is not None else "",
            queue=view.queue,
            state=view.state,
            units=unit.of(asked),
            each=largest,
            pods=view.wanted,
            placed=view.placed,
            cpu=_number(asked[CPU] / 1000),
            memory=_number(asked[MEMORY] / _GIB),
            flavors=tuple(dict.fromkeys(part for name in record.flavors for part in parts_of(name)))
            if record is not None
            else (),
            priority=view.priority,
            nice=job.nice if job is not None else 0,
            submitted_s=view.submitted_s,
            since_s=view.since_s,
            limit_s=view.limit_s,
            end_s=outlook.ends_s.get(view.id) if outlook is not None else None,
            places=tuple(_places(snapshot, view, unit)),
            array=job.array if job is not None else "",
            array_cap=job.array_cap if job is not None else None,
            reason=reason_key(view.reason) if view.reason is not None else "",
            start_s=quantiles(start),
            position=places.get(view.id, 0),
            preempted=view.preempted,
            preempted_by=view.preempted_by,
            message=view.message,
            soon=view.soon,
        )


def _positions(snapshot: Snapshot) -> dict[str, int]:
    cluster = snapshot.cluster
    found = (place for queue in cluster.tree.branches for place in queue_positions(cluster, queue, len(cluster.jobs)))
    return {place.job: place.position for place in found}


def _places(snapshot: Snapshot, view: JobView, unit: Unit) -> Iterator[tuple[str, float]]:
    """Yield (node, amount of the unit) for the job's pods. For a nominated job, yield the nodes to which it is
    nominated, if they are known."""
    record = snapshot.cluster.jobs.get(view.id)
    if record is None:
        return
    where = record.placements or record.nominated
    held = defaultdict[str, float](float)
    for slot, node in where.items():
        held[node] += unit.of(dict(record.job.roles[slot.role].shape.requests)) if view.roles else 0
    yield from ((node, _number(amount)) for node, amount in sorted(held.items()))


def quantiles(found: StartForecast | None) -> tuple[float | None, ...]:
    """Return the quantiles of the expected start, in the order that the page expects. A quantile is None if its time is
    unknown. Without a forecast, the result is empty."""
    if found is None:
        return ()
    (early, late), (first, last) = found.likely_s, found.nearly_sure_s
    return tuple(at_s if at_s < inf else None for at_s in (first, early, found.start_s, late, last, found.latest_s))


def reason_key(reason: Reason) -> str:
    """Return a key; equal reasons have equal keys."""
    text = f"{reason.code}\n{reason.text}".encode(errors="replace")
    return blake2b(text, digest_size=6).hexdigest()


def _reason(reason: Reason) -> ReasonRow:
    numbers = msgspec.json.decode(msgspec.json.encode(dict(reason.numbers), enc_hook=float))
    return ReasonRow(
        key=reason_key(reason), code=str(reason.code), text=reason.text, numbers=numbers, never=reason.code in _CANNOT
    )


def _sum(roles: Iterable[Role]) -> Counter[str]:
    total = Counter[str]()
    for role in roles:
        for name, amount in role.shape.requests:
            total[name] += amount * role.count
    return total


def _head(snapshot: Snapshot) -> tuple[str, float | None]:
    """Return the job with the first backfill reservation, and the time at which this reservation begins; ("", None)
    without a reservation."""
    first = snapshot.plan.reserved
    if snapshot.partial or first is None:
        return "", None
    return first.job, first.at_s if isfinite(first.at_s) else None


# --- queues, nodes, reservations --------------------------------------------------------------------------------------


def _queues(snapshot: Snapshot, unit: Unit) -> Iterator[QueueRow]:
    for view in queue_view.views(snapshot):
        standing = view.standing
        queue = snapshot.cluster.queues.get(standing.queue)
        usage = [one for one in standing.usage if one.resource == unit.resource]
        guaranteed = [one.guaranteed for one in usage if one.guaranteed is not None]
        limits = [one.limit for one in usage if one.limit is not None]
        scale = 1000 if unit.resource == CPU else 1
        yield QueueRow(
            name=standing.queue,
            parent=standing.parent,
            depth=standing.depth,
            used=_number(max((one.used for one in usage if not one.flavor), default=0) / scale)
            or _number(sum(one.used for one in usage) / scale),
            guaranteed=_number(sum(guaranteed) / scale) if guaranteed else None,
            limit=_number(sum(limits) / scale) if limits else None,
            running=standing.running,
            waiting=standing.pending,
            share=standing.share if isfinite(standing.share) else None,
            weight=queue.weight if queue is not None else 1,
            order=_order(queue),
            state=view.state if not view.exists else str(standing.state),
            fault=view.wrong,
        )


def _order(queue: Queue | None) -> str:
    return "" if queue is None else f"{queue.order}{', strict' if queue.strict else ''}"


def _nodes(snapshot: Snapshot, nodes: Iterable[Node], unit: Unit) -> Iterator[NodeRow]:
    columns, cluster = snapshot.cluster.columns, snapshot.cluster
    levels = [topology.levels for topology in cluster.policy.topologies + cluster.declared_topologies]
    for node in nodes:
        allocatable = dict(node.allocatable)
        row = columns.row_of[node.name]
        free = {name: int(columns.free[name][row]) for name in (CPU, MEMORY) if name in columns.free}
        used = {name: allocatable.get(name, 0) - free.get(name, allocatable.get(name, 0)) for name in (CPU, MEMORY)}
        yield NodeRow(
            name=node.name,
            group=_group(dict(node.labels), levels),
            flavor=_flavor(snapshot, node),
            state="not ready" if not node.ready else "cordoned" if node.unschedulable else "ready",
            units=unit.of(allocatable),
            foreign=unit.of(cluster.foreign_usage_on.get(node.name, {})),
            cpu=(_number(used[CPU] / 1000), _number(allocatable.get(CPU, 0) / 1000)),
            memory=(_number(used[MEMORY] / _GIB), _number(allocatable.get(MEMORY, 0) / _GIB)),
        )


def _by_rack(row: NodeRow) -> tuple[object, ...]:
    """Return the sort key of nodes on the page: by rack, then by name, so that `gpu-9` comes before `gpu-10`."""
    return _natural(row.group), _natural(row.name)


def _natural(text: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts if part]


def _group(labels: Mapping[str, str], topologies: Iterable[tuple[str, ...]]) -> str:
    """Return the node's rack: its domain in the lowest topology level above the host. Without a topology, return the
    value of the first label in `_RACKS` or `_POOLS`."""
    for levels in topologies:
        named = [labels[level] for level in levels if level != _HOSTNAME and level in labels]
        if named:
            return named[-1]
    return next((labels[label] for label in (*_RACKS, *_POOLS) if label in labels), "")


def _flavor(snapshot: Snapshot, node: Node) -> str:
    labels = set(node.labels)
    flavors = snapshot.cluster.flavors.values()
    return next((each.name for each in flavors if each.labels and labels.issuperset(each.labels)), "")


def _reservations(snapshot: Snapshot) -> Iterator[ReservationRow]:
    for one in snapshot.cluster.reservations.values():
        named = [f"queue {name}" for name in one.queues] or [*one.users, *one.groups]
        yield ReservationRow(
            name=one.name, nodes=one.nodes, start_s=one.start_s, end_s=one.end_s, whom=", ".join(named)
        )


def _played(snapshot: Snapshot, outlook: Outlook, unit: Unit) -> Iterator[PlayedRow]:
    for name, run in outlook.runs.items():
        record = snapshot.cluster.jobs.get(name)
        if record is not None and record.phase is Phase.QUEUED:
            places = _shares(record.job, run, unit)
            yield PlayedRow(job=name, start_s=run.start_s, end_s=run.end_s, places=places, backfilled=run.backfilled)


def _shares(job: Job, run: PlayedRun, unit: Unit) -> tuple[tuple[str, float], ...]:
    """Return (node, amount of the unit) for each node of the run. The function assumes that all pods of the job are
    equal."""
    pods = sum(role.count for role in job.roles) or 1
    each = unit.of(_sum(job.roles)) / pods
    return tuple((node, _number(each * count)) for node, count in sorted(run.pods.items()))


def _number(amount: float | Fraction) -> float:
    """Return the amount rounded to thousandths. If the result is a whole number, it is an int."""
    rounded = round(float(amount), 3)
    return int(rounded) if rounded.is_integer() else rounded


# --- the past ---------------------------------------------------------------------------------------------------------

MOST = 20_000  # the maximum number of runs in one response
_PREEMPTOR = re.compile(r"^Preempted: (?:gives way to|was preempted by|is preempted by) (\S+/\S+) ")


def read_past(url: str, unit: Unit, from_s: float, to_s: float) -> list[PastRow]:
    """Return the ended runs that overlap this interval, the latest end first. `from_s`, `to_s`: in seconds since the
    epoch. Raises LedgerError."""
    with Ledger.open(url, read_only=True) as ledger:
        found = list(past_rows(ledger.jobs(Selection(since_s=from_s, until_s=to_s)), unit, from_s, to_s))
    return sorted(found, key=lambda row: -row.end_s)[:MOST]


def backfilled_starts(url: str) -> frozenset[tuple[str, float]]:
    """Return (job, time of its last start) of each job that has not ended and was last started by backfill. Raises
    LedgerError."""
    with Ledger.open(url, read_only=True) as ledger:
        starts = ((entry.job, entry.starts[-1]) for entry in ledger.live() if entry.starts)
        return frozenset((job, start.at_s) for job, start in starts if start.backfilled)


def past_rows(entries: Iterable[JobEntry], unit: Unit, from_s: float, to_s: float) -> Iterator[PastRow]:
    for entry in entries:
        for start in entry.starts:
            end_s = start.end_s if start.end_s is not None else entry.end_s
            if end_s is None or end_s < from_s or start.at_s > to_s:
                continue
            yield PastRow(
                job=entry.job,
                user=entry.user,
                queue=entry.queue,
                units=unit.of(start.allocated),
                submitted_s=entry.submit_s,
                start_s=start.at_s,
                end_s=end_s,
                outcome=str(start.state),
                why=_why(entry, start),
                by=preemptor(start),
                places=_places_of_start(start, unit),
                backfilled=start.backfilled,
            )


def preemptor(start: StartEntry) -> str:
    """Return the job that preempted this run; "" if no job did."""
    if start.by:
        return start.by
    # In entries of older versions, only the text of the reason contains the preemptor.
    found = _PREEMPTOR.match(start.reason) if start.state is State.PREEMPTED else None
    return found[1] if found else ""


def _why(entry: JobEntry, start: StartEntry) -> str:
    last = bool(entry.starts) and start is entry.starts[-1] and start.state is not State.COMPLETED
    text = start.reason.partition(": ")[2]
    if start.state is State.PREEMPTED:
        text = text.partition("): ")[2] or text  # leave out the preemptor, because the row has a separate field for it
    return text or (entry.cause if last else "")


def _places_of_start(start: StartEntry, unit: Unit) -> tuple[tuple[str, float], ...]:
    """Return (node, amount of the unit) for each node of the run. The function assumes that all pods of the run are
    equal."""
    each = unit.of(start.allocated) / len(start.nodes) if start.nodes else 0
    return tuple((node, round(each * count, 3)) for node, count in sorted(Counter(start.nodes).items()))
