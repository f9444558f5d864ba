"""Compute the status of a Workload from the state of its job, with the conditions and reasons that Kueue would set.

Source: pkg/workload/workload.go of v0.19.2; reasons of QuotaReserved=False as of 0.20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phalanx.client.moment import read_moment, write_moment
from phalanx.dialects.frame.dialect import Eviction, GangStage, GangView, Object
from phalanx.dialects.frame.peer_reasons import Peer, word
from phalanx.dialects.frame.pod_requests import quantity
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers import conditions, topology
from phalanx.dialects.kueue.answers.conditions import Conditions
from phalanx.dialects.kueue.answers.names import key_of
from phalanx.dialects.kueue.answers.topology import topology_assignment
from phalanx.dialects.kueue.provisioning import requests as provisioned
from phalanx.dialects.kueue.provisioning.requests import PENDING, RETRY, request_name
from phalanx.dialects.kueue.tree import checks
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions, flavor_of
from phalanx.dialects.kueue.tree.workload import object_of, status_of
from phalanx.model.job import Outcome
from phalanx.model.pod import PODS, Amounts
from phalanx.model.reason import Reason, ReasonCode

TARGET = "DeactivationTarget"
_RESIZED = "resized"  # the cause of an eviction: a user changed the size of the running job
PAST = "accumulatedPastExecutionTimeSeconds"
_KEPT = ("admission", "admissionChecks", "reclaimablePods", "requeueState", "schedulingStats", PAST)
UNSPOKEN = frozenset({ReasonCode.BEHIND_HEAD, ReasonCode.WAITING_FOR_MEMBERS})
_HELD_AS = {"deactivated": "Deactivated", "gated": "AdmissionGated"}
# Reasons of jobs whose requests were not compared with the quota.
_UNWEIGHED = frozenset({ReasonCode.QUEUE_HELD, ReasonCode.QUEUE_UNKNOWN})


def workload_status(
    defined: KueueDefinitions, told: GangView, old: Mapping[str, Any], requests: Mapping[str, Object], now: str
) -> tuple[Object, float | None]:
    """Return the desired status, and the time (seconds since the epoch) at which the state of an AdmissionCheck may
    change without an event. `requests`: the existing ProvisioningRequests."""
    evicted = _lost(told, old)
    if evicted is not None and evicted.reason.numbers.get("by") == _RESIZED:
        evicted, old = None, {}  # in Kueue, the resized job gets a new Workload
    said = Conditions(old.get("conditions") or (), now, 1)
    status: Object = {key: old[key] for key in _KEPT if key in old}
    went, again_s = False, None
    if evicted is not None and not said.is_true("Evicted"):
        _evicted(told, evicted, said)
    if told.stage is not GangStage.LEAVING and said.is_true("Evicted") and said.is_true("QuotaReserved"):
        went = True
        status |= _left(old, said, now)
        status.pop("admission", None)
    if told.stage is not GangStage.LEAVING and not _held(told):
        _requeued(said)
    match told.stage:
        case GangStage.WAITING:
            status.pop("admission", None)
            status |= _waiting(defined, told, said)
        case GangStage.RESERVED:
            status["admission"] = _reserved(defined, told, status.get("admission"), said)
        case GangStage.STARTING | GangStage.RUNNING:
            status["admission"] = _admitted(defined, told, status.get("admission"), said)
            conditions.replaced(told, said)
            if given_back := _reclaimable(told, status):
                status["reclaimablePods"] = given_back
        case GangStage.FINISHED:
            _finished(told, said)
        case GangStage.LEAVING:
            conditions.replaced(told, said)
    if told.stage is not GangStage.FINISHED:
        status.pop("admissionChecks", None)
        lost = went or (told.stage is GangStage.WAITING and "admission" in old)
        known = checks.states(status_of(old)).items()
        before = {name: object_of(checks.reset(one, now) if lost else one) for name, one in known}
        if found := list(_checks(defined, told, before, status, requests, now)):
            status["admissionChecks"] = [one for one, _ in found]
            again_s = min((at_s for _, at_s in found if at_s is not None), default=None)
    if cluster := checks.cluster_of(told):
        # Remove the nominated clusters, because Kueue's schema forbids them if `clusterName` is set.
        status["clusterName"] = cluster
    elif nominated := old.get("nominatedClusterNames"):
        status["nominatedClusterNames"] = nominated
    return {"conditions": said.all(), **status}, again_s


def _lost(told: GangView, old: Mapping[str, object]) -> Eviction | None:
    """Return the eviction of the gang since its last state; None if it was not evicted. A gang that waited for nodes
    from an autoscaler, and is held now, has lost its quota. This counts as an eviction, because Kueue then evicts its
    Workload."""
    reason = told.reason
    if told.evicted is not None or told.stage is not GangStage.WAITING or reason is None or "admission" not in old:
        return told.evicted
    return Eviction(reason=reason) if reason.code in (ReasonCode.HELD, ReasonCode.QUEUE_HELD) else None


def _checks(
    defined: KueueDefinitions,
    told: GangView,
    before: Mapping[str, Object],
    status: Object,
    requests: Mapping[str, Object],
    now: str,
) -> Iterator[tuple[Object, float | None]]:
    """Yield the state of each AdmissionCheck of the ClusterQueue, each with the time at which this state may change
    without an event. If the Workload has flavors, only the checks of these flavors are yielded."""
    found = defined.cluster_queues.get(kinds.cluster_queue_of(told.queue))
    for name in found.checks_on(checks.flavors_of(status_of(status))) if found is not None else ():
        fresh = {"name": name, "state": PENDING, "message": "", "lastTransitionTime": now}
        one = before.get(name) or fresh
        again_s = None
        if (config := defined.provisioning.get(name)) is not None:
            space, _, workload_name = key_of(defined, told).partition("/")
            request = f"{space}/{request_name(workload_name, name, provisioned.attempt_of(one))}"
            one, state = provisioned.check_state(config, told, one, requests.get(request), now)
            again_s = state.again_s
        if name in defined.multi:
            one = checks.check_state(told, one, now)
        yield one, again_s


def _left(old: Mapping[str, Any], said: Conditions, now: str) -> Object:
    """Set the conditions of an evicted Workload after all its pods have ended, and return the other fields of its
    status. If a check has the state Retry, the status contains the time of the next attempt."""
    cause, text = said.reason("Evicted"), said.message("Evicted")
    counted, _, below = cause.partition("DueTo")
    ran_s = max(0, int(read_moment(now) - read_moment(said.since("Admitted") or now)))
    said.set("QuotaReserved", False, "PendingEvaluation", text)
    said.set("Admitted", False, "NoReservation", "The workload has no reservation")
    conditions.lost(said)
    said.set("Requeued", cause == "Preempted", cause, text)
    past_s = int(old.get(PAST) or 0) + ran_s
    found = {"schedulingStats": _counted(old, counted, below), **({PAST: past_s} if past_s else {})}
    retried = checks.in_state(status_of(old), RETRY)
    rest_s = max((float(one.get("requeueAfterSeconds") or 0) for one in retried), default=0)
    return found | ({"requeueState": {"requeueAt": write_moment(read_moment(now) + rest_s)}} if rest_s else {})


_AGAIN = {
    "AdmissionCheck": ("BackoffFinished", "The workload backoff was finished"),
    "ClusterQueueStopped": ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    "LocalQueueStopped": ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    "PodsReadyTimeout": ("BackoffFinished", "The workload backoff was finished"),
}


def _reclaimable(told: GangView, status: Object) -> list[Object]:
    """Return the number of reclaimable pods of each pod set. This number never decreases while the Workload is
    admitted."""
    before = {str(one["name"]): int(one["count"]) for one in status.get("reclaimablePods") or ()}
    over = {each.name: each.succeeded if told.kind == "PodGroup" else each.reclaimable for each in told.pod_sets}
    counts = {name: max(count, before.get(name, 0)) for name, count in over.items()}
    return [{"name": name, "count": count} for name, count in counts.items() if count]


def _held(told: GangView) -> bool:
    return told.stage is GangStage.WAITING and (
        told.reason is None or told.reason.code in (ReasonCode.HELD, ReasonCode.QUEUE_HELD, ReasonCode.BACKOFF)
    )


def _requeued(said: Conditions) -> None:
    """Set the condition Requeued when the cause of the eviction is over."""
    if "Requeued" in said and not said.is_true("Requeued"):
        cause = said.reason("Requeued")
        reactivated = ("Reactivated", "The workload was reactivated")
        said.set("Requeued", True, *_AGAIN.get(cause, reactivated))


def _waiting(defined: KueueDefinitions, told: GangView, said: Conditions) -> Object:
    found: Object = {}
    if told.reason is not None and told.reason.code not in UNSPOKEN:
        said.set("QuotaReserved", False, _why(defined, told, told.reason), told.reason.text)
        said.set("Admitted", False, "NoReservation", "The workload has no reservation")
        if told.reason.code not in _UNWEIGHED and str(told.reason.numbers.get("by")) not in _HELD_AS:
            found["resourceRequests"] = [
                {"name": each.name, "resources": _total(defined, told, each.request, each.count, pods=False)}
                for each in told.pod_sets
            ]
    conditions.waits(said)
    return found


def _why(defined: KueueDefinitions, told: GangView, reason: Reason) -> str:
    if reason.code is ReasonCode.HELD and (held := _HELD_AS.get(str(reason.numbers.get("by")))):
        return held
    found = word(reason.code, Peer.KUEUE)
    if found == "WaitingForQuota" and _exceeds(defined, told):
        return "ExceedsMaxQuota"
    return found if isinstance(found, str) else "PendingEvaluation"


def _exceeds(defined: KueueDefinitions, told: GangView) -> bool:
    """Return whether a job with partial admission can never start with all its pods: together they request more of each
    flavor than the queue could use."""
    queue = defined.cluster_queues.get(kinds.cluster_queue_of(told.queue))
    if queue is None or all(each.minimum == each.count for each in told.pod_sets):
        return False
    most, wanted = defined.capacity(queue.node), dict[str, int]()
    for each in told.pod_sets:
        for resource, each_pod in defined.configuration.counted(each.request, queue.resources):
            wanted[resource] = wanted.get(resource, 0) + each_pod * each.count
    return any(
        all(any(asked > most.get((flavor, name), asked) for name, asked in wanted.items()) for flavor in group)
        for group in queue.node.groups
    )


def _counted(old: Mapping[str, Any], cause: str, below: str) -> Object:
    """Return the scheduling statistics with one more eviction. `cause`: the reason of the eviction. `below`: its
    underlying cause."""
    evictions = [dict(one) for one in (old.get("schedulingStats") or {}).get("evictions") or ()]
    known = next((one for one in evictions if (one.get("reason"), one.get("underlyingCause")) == (cause, below)), None)
    if known is None:
        evictions.append({"reason": cause, "underlyingCause": below, "count": 1})
    else:
        known["count"] = int(known.get("count") or 0) + 1
    return {"evictions": evictions}


def _reserved(defined: KueueDefinitions, told: GangView, before: Object | None, said: Conditions) -> Object:
    """Return the field `admission`. It does not change if quota was reserved before and the job still has the same
    number of pods."""
    queue = kinds.cluster_queue_of(told.queue)
    for kind in ("Evicted", "Preempted"):
        if said.is_true(kind):
            said.set(kind, False, "QuotaReserved", f"Previously: {said.message(kind)}")
    begun = said.is_true("QuotaReserved")
    said.set("QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}")
    given = before["podSetAssignments"] if begun and before else ()
    counts = topology.counts(told, given)
    if begun and before and counts == {str(one["name"]): one["count"] for one in given}:
        return before
    return {"clusterQueue": queue, "podSetAssignments": list(_assignments(defined, told, counts))}


def _admitted(defined: KueueDefinitions, told: GangView, before: Object | None, said: Conditions) -> Object:
    found = _reserved(defined, told, before, said)
    said.set("Admitted", True, "Admitted", "The workload is admitted")
    conditions.pods_ready(told, said)
    return found


def _assignments(defined: KueueDefinitions, told: GangView, counts: Mapping[str, int]) -> Iterator[Object]:
    for each in told.pod_sets:
        usage = _total(defined, told, each.request, counts[each.name], pods=True)
        found = defined.cluster_queues.get(kinds.cluster_queue_of(told.queue))
        parts = kinds.flavors_of(each.flavor)
        levels = next((defined.levels[part] for part in parts if part in defined.levels), ())
        placed = topology_assignment(each, levels)
        yield {
            **({"topologyAssignment": placed} if placed is not None else {}),
            "name": each.name,
            "count": counts[each.name],
            "flavors": {name: flavor_of(found, each.flavor, name) for name in usage},
            "resourceUsage": usage,
        }


def _total(defined: KueueDefinitions, told: GangView, request: Amounts, count: int, *, pods: bool) -> dict[str, str]:
    """Return the amounts that are charged for `count` pods with the given request, as a quantity for each resource.
    `pods`: True if the result includes the resource `pods`, because a quota counts it."""
    found = defined.cluster_queues.get(kinds.cluster_queue_of(told.queue))
    covered = found.resources if found is not None else frozenset[str]()
    counted = defined.configuration.counted(request, covered)
    return {name: quantity(name, each * count) for name, each in counted if name != PODS or (pods and PODS in covered)}


def _evicted(told: GangView, eviction: Eviction, said: Conditions) -> None:
    by = eviction.reason.numbers.get("by")
    if eviction.reason.code is ReasonCode.HELD and by == "deactivated":
        cause = said.reason(TARGET) if said.is_true(TARGET) else ""
        text = "The workload is deactivated" + (f" due to {said.message(TARGET)}" if cause else "")
        said.set("Evicted", True, f"DeactivatedDueTo{cause}" if cause else "Deactivated", text)
        return
    if by == checks.FAILED_TO_START:
        said.set("Finished", True, checks.FAILED_TO_START, eviction.reason.text)
        return
    if by == checks.BY:
        said.set("Evicted", True, "AdmissionCheck", eviction.reason.text)
        return
    if eviction.reason.code is ReasonCode.QUEUE_HELD and not said.is_true("Admitted"):
        return  # a deactivated Workload that had reserved quota loses this quota without an eviction
    if eviction.reason.code is ReasonCode.QUEUE_HELD:
        which = "LocalQueue" if by == "local-queue" else "ClusterQueue"
        said.set("Evicted", True, f"{which}Stopped", f"The {which} is stopped")
        return
    if not eviction.preempted:
        said.set("Evicted", True, "PodsReadyTimeout", eviction.reason.text)
        return
    said.set("Evicted", True, "Preempted", eviction.reason.text)
    said.set("Preempted", True, _preempted_by(told, eviction), eviction.reason.text)


def _preempted_by(told: GangView, eviction: Eviction) -> str:
    """Return the reason of a preemption. It is the reason that the scheduler reported for the eviction. After a restart
    of the scheduler this reason is unknown, so it is derived from the queues of both gangs."""
    if known := str(eviction.reason.numbers.get("kueue") or ""):
        return known
    same = eviction.preemptor is None or eviction.preemptor.queue == told.queue
    return "InClusterQueue" if same else "InCohortReclamation"


def _finished(told: GangView, said: Conditions) -> None:
    if said.is_true("Finished"):
        return
    well = told.outcome is Outcome.SUCCEEDED
    text = "Job finished successfully" if well else "Job failed"
    said.set("Finished", True, "Succeeded" if well else "Failed", text)
