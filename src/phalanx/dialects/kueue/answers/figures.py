"""Compute the metrics `kueue_*` with the names, types, labels and buckets that they have in Kueue.


Gauges are computed from the gangs at the same time as the status of the queues. Counters are increased when Phalanx
writes the status of a Workload: for example, a write that sets the condition Admitted to True counts as one admission.
So the metrics always agree with the objects. As in Kueue, counters start at 0 when the process becomes the leader.

The values of labels are names of objects that administrators create. If a job names a ClusterQueue or a priority class
that does not exist, there is no time series for this name. LocalQueues have the same counters and gauges as in Kueue,
but no wait times. Wait times are recorded for ClusterQueues only.

Sources: pkg/metrics/metrics.go; metrics of 0.19 and 0.20 have the labels priority_class and replica_role.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf, nan
from typing import Any, Final, Literal, NamedTuple

from phalanx.client.kind import Kind
from phalanx.client.moment import MomentError, read_moment
from phalanx.client.tally import MetricFamily, Spread
from phalanx.dialects.frame.dialect import GangStage, GangView, Object, Objects
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers import consumed
from phalanx.dialects.kueue.answers.conditions import Conditions
from phalanx.dialects.kueue.answers.names import key_of
from phalanx.dialects.kueue.answers.queue_statuses import INFINITE, FlavorUse, shares, uses
from phalanx.dialects.kueue.answers.workloads import deactivated, incomplete, waits_for_room
from phalanx.dialects.kueue.tree.definitions import Cell, ClusterQueue, KueueDefinitions
from phalanx.model.pod import CPU

WAIT_BOUNDS_S: Final = (1.0, *(2.5 * 2**power for power in range(13)))
ROLE: Final = "leader"  # the only value: only the leader exports these metrics

_CQ, _CLASS, _ROLE = "cluster_queue", "priority_class", "replica_role"
_OF_CQ, _OF_LOCAL = (_CQ,), ("name", "namespace")
_OF_QUOTA, _OF_USE = ("cohort", _CQ, "flavor", "resource"), ("name", "namespace", "flavor", "resource")
_WHY = ("reason", "underlying_cause", _CLASS)


class Metric(NamedTuple):
    """A metric of Kueue. The keys of `METRICS` are the names without the prefix `kueue_`, and without the ending
    `_total` of a counter. Each metric has the label replica_role in addition to its own labels. `words`: the help
    text."""

    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    words: str


METRICS: Final[Mapping[str, Metric]] = {
    "pending_workloads": Metric(
        "gauge", (*_OF_CQ, "status"), "Pending Workloads; inadmissible: the scheduler found that they do not fit now."
    ),
    "reserving_active_workloads": Metric("gauge", _OF_CQ, "Workloads with reserved quota."),
    "admitted_active_workloads": Metric("gauge", _OF_CQ, "Workloads that are admitted and not finished."),
    "finished_workloads": Metric("gauge", _OF_CQ, "Finished Workloads that still exist."),
    "cluster_queue_status": Metric(
        "gauge", (*_OF_CQ, "status"), "1 for the present status: pending, active or terminating."
    ),
    "cluster_queue_resource_reservation": Metric("gauge", _OF_QUOTA, "Reserved amount, in cores, bytes or units."),
    "cluster_queue_resource_usage": Metric("gauge", _OF_QUOTA, "Amount used by admitted Workloads."),
    "cluster_queue_nominal_quota": Metric("gauge", _OF_QUOTA, "Nominal quota of the ClusterQueue."),
    "cluster_queue_borrowing_limit": Metric("gauge", _OF_QUOTA, "Borrowing limit; +Inf if there is no limit."),
    "cluster_queue_lending_limit": Metric("gauge", _OF_QUOTA, "Lending limit; +Inf if there is no limit."),
    "cluster_queue_weighted_share": Metric(
        "gauge", (_CQ, "cohort"), "Weighted share in thousandths, with fair sharing only; NaN if it is infinite."
    ),
    "cohort_weighted_share": Metric(
        "gauge", ("cohort",), "Weighted share in thousandths, with fair sharing only; NaN if it is infinite."
    ),
    "local_queue_pending_workloads": Metric("gauge", (*_OF_LOCAL, "status"), "Pending Workloads, by LocalQueue."),
    "local_queue_reserving_active_workloads": Metric(
        "gauge", _OF_LOCAL, "Workloads with reserved quota, by LocalQueue."
    ),
    "local_queue_admitted_active_workloads": Metric("gauge", _OF_LOCAL, "Admitted Workloads, by LocalQueue."),
    "local_queue_status": Metric(
        "gauge", (*_OF_LOCAL, "active"), "1 for the present status of the condition Active: True, False or Unknown."
    ),
    "local_queue_resource_reservation": Metric("gauge", _OF_USE, "Reserved amount, by LocalQueue."),
    "local_queue_resource_usage": Metric("gauge", _OF_USE, "Used amount, by LocalQueue."),
    "local_queue_admission_fair_sharing_usage": Metric(
        "gauge",
        (*_OF_LOCAL, _CQ),
        "Weighted sum of the consumed amounts, divided by the LocalQueue's weight; +Inf if the weight is 0.",
    ),
    "quota_reserved_workloads": Metric("counter", (_CQ, _CLASS), "Workloads that got quota."),
    "admitted_workloads": Metric("counter", (_CQ, _CLASS), "Workloads that were admitted."),
    "finished_workloads_total": Metric("counter", (_CQ, _CLASS), "Workloads that finished."),
    "evicted_workloads": Metric("counter", (_CQ, *_WHY), "Workloads that were evicted."),
    "evicted_workloads_once": Metric(
        "counter",
        (_CQ, "reason", "detailed_reason", _CLASS),
        "Workloads that were evicted for this reason for the first time.",
    ),
    "preempted_workloads": Metric("counter", ("preempting_cluster_queue", "reason"), "Workloads that were preempted."),
    "local_queue_quota_reserved_workloads": Metric(
        "counter", (*_OF_LOCAL, _CLASS), "Workloads that got quota, by LocalQueue."
    ),
    "local_queue_admitted_workloads": Metric(
        "counter", (*_OF_LOCAL, _CLASS), "Workloads that were admitted, by LocalQueue."
    ),
    "local_queue_finished_workloads": Metric(
        "counter", (*_OF_LOCAL, _CLASS), "Workloads that finished, by LocalQueue."
    ),
    "local_queue_evicted_workloads": Metric(
        "counter", (*_OF_LOCAL, *_WHY), "Workloads that were evicted, by LocalQueue."
    ),
    "quota_reserved_wait_time_seconds": Metric(
        "histogram", (_CQ, _CLASS), "Time from the queueing of a Workload until it gets quota."
    ),
    "admission_wait_time_seconds": Metric(
        "histogram", (_CQ, _CLASS), "Time from the queueing of a Workload until its admission."
    ),
    "admission_checks_wait_time_seconds": Metric(
        "histogram", (_CQ, _CLASS), "Time from the reservation of quota until the admission."
    ),
    "ready_wait_time_seconds": Metric(
        "histogram", (_CQ, _CLASS), "Time from the queueing of a Workload until its pods are ready."
    ),
    "admitted_until_ready_wait_time_seconds": Metric(
        "histogram", (_CQ, _CLASS), "Time from the admission of a Workload until its pods are ready."
    ),
}

Key = tuple[str, ...]


class _Happened(NamedTuple):
    """A write of a Workload's status. `old`, `new`: the conditions before and after this write. `queued_s`: when the
    Workload was queued."""

    cluster_queue: str
    local: Key
    priority_class: str
    old: Conditions
    new: Conditions
    queued_s: float | None


class KueueFigures:
    """The metrics of the Kueue dialect; they implement `frame.Figures`."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Key]] = {}
        self._waits: dict[str, dict[Key, Spread]] = {}
        self._gauges: dict[str, dict[Key, float]] = {}

    def families(self) -> Iterator[MetricFamily]:
        """Yield every metric with all its series."""
        for name, metric in METRICS.items():
            found: Mapping[Key, float | Spread]
            match metric.type:
                case "gauge":
                    found = self._gauges.get(name, {})
                case "counter":
                    found = self._counts.get(name, {})
                case "histogram":
                    found = self._waits.get(name, {})
            yield MetricFamily(
                name=f"kueue_{name.removesuffix('_total')}" if metric.type == "counter" else f"kueue_{name}",
                type=metric.type,
                words=metric.words,
                labels=(*metric.labels, _ROLE),
                series={(*key, ROLE): each for key, each in found.items()},
            )

    # --- counters -----------------------------------------------------------------------------------------------------

    def wrote(self, defined: KueueDefinitions, told: GangView, kind: Kind, before: Object, after: Object) -> None:
        """Update the counters after a write of a Workload's status: count each condition that this write has set to
        True."""
        queue = _queue_of(told, after)
        if kind != kinds.WORKLOADS or queue not in defined.cluster_queues:
            return
        name = str(told.options.get(kinds.PRIORITY_LABEL, ""))
        old, new = (Conditions((one.get("status") or {}).get("conditions") or (), "") for one in (before, after))
        queued = old.since("Requeued") or str(after["metadata"].get("creationTimestamp") or "")
        happened = _Happened(
            cluster_queue=queue,
            local=(str((after.get("spec") or {}).get("queueName") or ""), told.namespace),
            priority_class=name if name in defined.priorities else "",
            old=old,
            new=new,
            queued_s=_moment_s(queued),
        )
        self._started(happened)
        if _became(happened, "Finished"):
            self._count("finished_workloads_total", "local_queue_finished_workloads", happened)
        if _became(happened, "Evicted"):
            self._evicted(happened, before)
        if _became(happened, "Preempted"):
            by = told.evicted.preemptor if told.evicted is not None else None
            whose = kinds.cluster_queue_of(by.queue) if by is not None else queue
            self._add("preempted_workloads", (whose, new.reason("Preempted")))

    def _started(self, happened: _Happened) -> None:
        new = happened.new
        if _became(happened, "QuotaReserved"):
            self._count("quota_reserved_workloads", "local_queue_quota_reserved_workloads", happened)
            self._wait("quota_reserved_wait_time_seconds", happened, "QuotaReserved", happened.queued_s)
        if _became(happened, "Admitted"):
            self._count("admitted_workloads", "local_queue_admitted_workloads", happened)
            self._wait("admission_wait_time_seconds", happened, "Admitted", happened.queued_s)
            self._wait("admission_checks_wait_time_seconds", happened, "Admitted", _at_s(new, "QuotaReserved"))
        if _became(happened, "PodsReady") and new.is_true("Admitted"):
            self._wait("ready_wait_time_seconds", happened, "PodsReady", happened.queued_s)
            self._wait("admitted_until_ready_wait_time_seconds", happened, "PodsReady", _at_s(new, "Admitted"))

    def _evicted(self, happened: _Happened, before: Object) -> None:
        reason, _, cause = happened.new.reason("Evicted").partition("DueTo")
        self._count("evicted_workloads", "local_queue_evicted_workloads", happened, reason, cause)
        known = ((before.get("status") or {}).get("schedulingStats") or {}).get("evictions") or ()
        if not any((one.get("reason"), one.get("underlyingCause", "")) == (reason, cause) for one in known):
            self._add("evicted_workloads_once", (happened.cluster_queue, reason, cause, happened.priority_class))

    def _count(self, name: str, local: str, happened: _Happened, *why: str) -> None:
        self._add(name, (happened.cluster_queue, *why, happened.priority_class))
        self._add(local, (*happened.local, *why, happened.priority_class))

    def _add(self, name: str, key: Key) -> None:
        self._counts.setdefault(name, Counter())[key] += 1

    def _wait(self, name: str, happened: _Happened, until: str, since_s: float | None) -> None:
        key = (happened.cluster_queue, happened.priority_class)
        until_s = _at_s(happened.new, until)
        if since_s is not None and until_s is not None:
            self._waits.setdefault(name, {}).setdefault(key, Spread(WAIT_BOUNDS_S)).add(max(0.0, until_s - since_s))

    # --- gauges -------------------------------------------------------------------------------------------------------

    def look(self, defined: KueueDefinitions, everyone: Iterable[GangView], objects: Objects) -> None:
        """Compute the gauges from all gangs and from the existing objects. Remove the time series of deleted
        queues."""
        gangs = list(everyone)
        queues, locals_ = uses(defined, gangs)
        found: dict[str, dict[Key, float]] = {name: {} for name, metric in METRICS.items() if metric.type == "gauge"}
        self._gauges = found
        inadmissible, finished = _tally(defined, gangs, objects.get(kinds.WORKLOADS, {}))
        for name, each in defined.cluster_queues.items():
            use, obj = queues.get(name, FlavorUse()), objects.get(kinds.CLUSTER_QUEUES, {}).get(name) or {}
            held = use.pending if not each.active else min(use.pending, inadmissible[(name,)])
            _gauge_counts(found, "", (name,), use, held)
            found["finished_workloads"][name,] = finished[name]
            _gauge_queue(found, each, use, obj)
        of_queues, of_cohorts = shares(defined, {name: use.amounts for name, use in queues.items()})
        for name, share in of_queues.items():
            found["cluster_queue_weighted_share"][name, defined.cluster_queues[name].node.parent] = _shown(share)
        found["cohort_weighted_share"] = {(name,): _shown(share) for name, share in of_cohorts.items()}
        for key, local in defined.local_queues.items():
            own, use = (local.name, local.namespace), locals_.get(key, FlavorUse())
            above = defined.cluster_queues.get(local.cluster_queue)
            open_ = local.stop_policy == "None" and above is not None and above.active
            held = use.pending if not open_ else min(use.pending, inadmissible[own])
            _gauge_counts(found, "local_queue_", own, use, held)
            for word in ("True", "False", "Unknown"):
                found["local_queue_status"][*own, word] = float(word == str(open_))
            _gauge_amounts(found, "local_queue_", own, use, above.node.nominal if above is not None else {})
            status = (objects.get(kinds.LOCAL_QUEUES, {}).get(key) or {}).get("status") or {}
            if (used := consumed.usage(defined, local, status)) is not None:
                found["local_queue_admission_fair_sharing_usage"][*own, local.cluster_queue] = used
        self._forget(defined)

    def _forget(self, defined: KueueDefinitions) -> None:
        """Remove the time series of deleted queues."""
        local = {(each.name, each.namespace) for each in defined.local_queues.values()}
        for name in METRICS:
            series: dict[Key, Any] = self._counts.get(name) or self._waits.get(name) or {}
            of_local = name.startswith("local_queue_")
            for key in list(series):
                if (key[:2] not in local) if of_local else (key[0] not in defined.cluster_queues):
                    del series[key]


def _queue_of(told: GangView, workload: Object) -> str:
    """Return the ClusterQueue of a gang. For a finished gang, it is the ClusterQueue that admitted the gang."""
    admission = (workload.get("status") or {}).get("admission") or {}
    return kinds.cluster_queue_of(told.queue) or str(admission.get("clusterQueue") or "")


def _tally(
    defined: KueueDefinitions, gangs: Iterable[GangView], workloads: Mapping[str, Object]
) -> tuple[Counter[Key], Counter[str]]:
    """Return the number of inadmissible gangs of each ClusterQueue and LocalQueue, and the number of finished gangs of
    each ClusterQueue. A pending gang is *inadmissible* if the scheduler has found that it does not fit."""
    inadmissible: Counter[Key] = Counter()
    finished: Counter[str] = Counter()
    for told in gangs:
        if told.stage is GangStage.FINISHED:
            finished[_queue_of(told, workloads.get(key_of(defined, told)) or {})] += 1
        if waits_for_room(told) and not incomplete(told) and not deactivated(told):
            labels: Mapping[str, Any] = told.owners[0]["metadata"].get("labels") or {}
            inadmissible[(kinds.cluster_queue_of(told.queue),)] += 1
            inadmissible[str(labels.get(kinds.QUEUE_LABEL, "")), told.namespace] += 1
    return inadmissible, finished


def _gauge_counts(found: dict[str, dict[Key, float]], prefix: str, own: Key, use: FlavorUse, held: int) -> None:
    found[f"{prefix}pending_workloads"][*own, "active"] = use.pending - held
    found[f"{prefix}pending_workloads"][*own, "inadmissible"] = held
    found[f"{prefix}reserving_active_workloads"][own] = use.reserving
    found[f"{prefix}admitted_active_workloads"][own] = use.admitting


def _gauge_amounts(
    found: dict[str, dict[Key, float]], prefix: str, own: Key, use: FlavorUse, cells: Mapping[Cell, int]
) -> None:
    for cell in cells:
        found[f"{prefix}resource_reservation"][*own, *cell] = _plain(cell[1], use.amounts.get(cell, 0))
        found[f"{prefix}resource_usage"][*own, *cell] = _plain(cell[1], use.admitted.get(cell, 0))


def _gauge_queue(found: dict[str, dict[Key, float]], each: ClusterQueue, use: FlavorUse, obj: Object) -> None:
    node = each.node
    deleted = "deletionTimestamp" in (obj.get("metadata") or {})
    state = "terminating" if deleted else "active" if each.active else "pending"
    for word in ("pending", "active", "terminating"):
        found["cluster_queue_status"][node.name, word] = float(word == state)
    own = (node.parent, node.name)
    _gauge_amounts(found, "cluster_queue_", own, use, node.nominal)
    for cell, nominal in node.nominal.items():
        found["cluster_queue_nominal_quota"][*own, *cell] = _plain(cell[1], nominal)
        found["cluster_queue_borrowing_limit"][*own, *cell] = _plain(cell[1], node.borrowing.get(cell))
        found["cluster_queue_lending_limit"][*own, *cell] = _plain(cell[1], node.lending.get(cell))


def _shown(share: int) -> float:
    return nan if share == INFINITE else float(share)


def _plain(resource: str, amount: int | None) -> float:
    """Return an amount in the units of Prometheus (cores, bytes, pieces). None means no limit and becomes +Inf."""
    if amount is None:
        return inf
    return amount / 1000 if resource == CPU else float(amount)


def _became(happened: _Happened, kind: str) -> bool:
    return happened.new.is_true(kind) and not happened.old.is_true(kind)


def _at_s(said: Conditions, kind: str) -> float | None:
    """Return the last transition time of a condition (seconds since the epoch)."""
    return _moment_s(said.since(kind))


def _moment_s(text: str) -> float | None:
    """Return the time that the text states, in seconds since the epoch. Return None for an invalid text, because other
    programs may write conditions too."""
    try:
        return read_moment(text)
    except MomentError:
        return None
