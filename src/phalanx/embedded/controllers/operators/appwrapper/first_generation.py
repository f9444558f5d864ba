"""Compute the state of an AppWrapper of the first generation (MCAD, v1beta1). `step` has no side effects, like
`phases.step` for the second generation.

    Pending -> Running -> RunningHoldCompletion -> Completed
    Running -> Pending -> Running         too few pods have run for too long: all objects are created again
    Running -> Pending                    the AppWrapper was preempted, and waits again
    Running -> Failed                     its time limit since the first dispatch has passed, or an object cannot be
                                          created
    Running -> Deleted                    it reached its limit of retries

An item of an AppWrapper may name conditions that complete it. The AppWrapper is complete when each of these items has
one of its conditions, with any status, and the pods of the AppWrapper have ended. An AppWrapper whose items name no
conditions never completes, as in MCAD. An AppWrapper without pods is dispatched at once.

Source: pkg/controller/queuejob/queuejob_controller_ex.go of v1.40.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phalanx.client.connection import Object
from phalanx.client.moment import write_micro_moment
from phalanx.embedded.controllers.operators.appwrapper.phases import Do, ObservedComponents, PhaseStep
from phalanx.embedded.controllers.runtime.pod_state import phase, seconds

_BACKOFF_S: Final = 1.0  # only waits of at least this time are reported
_ENDED: Final = ("Completed", "Failed", "Deleted")
_SHORT: Final = "Insufficient resources to dispatch AppWrapper."


def step(
    status: Object, spec: Mapping[str, object], demand: Object, suspended: bool, seen: ObservedComponents, now_s: float
) -> PhaseStep:
    """Return the next step of an AppWrapper. `spec`: its spec. `demand`: the resource demand, in the form in which the
    status contains it."""
    at = PhaseStep(status={**status, "conditions": list(status.get("conditions") or ())}, now_s=now_s)
    state = str(status.get("state") or "")
    if not state:
        _begin(at, spec, demand)
        _count(at, seen)
    elif state in _ENDED:
        _count(at, seen)
        if state != "Completed":
            _remove(at, seen)
    elif suspended and seen.expected:
        _wait(at, state, seen)
    elif state == "Pending":
        _dispatch(at, seen)
    else:
        _run(at, spec, seen)
    return at


# --- states -----------------------------------------------------------------------------------------------------------


def _begin(at: PhaseStep, spec: Mapping[str, Any], demand: Object) -> None:
    scheduling = spec.get("schedulingSpec") or {}
    at.status |= demand | {
        "state": "Pending",
        "canrun": False,
        "isdispatched": False,
        "systempriority": spec.get("priority") or 0,
        "template": scheduling.get("minAvailable") or 0,
        "controllerfirsttimestamp": write_micro_moment(at.now_s),
    }
    _say(at, "Init")
    _say(at, "Queueing", "AwaitingHeadOfLine")
    at.wait(at.now_s + _BACKOFF_S)


def _wait(at: PhaseStep, state: str, seen: ObservedComponents) -> None:
    """Report that the AppWrapper waits, and remove the objects that were created for it."""
    if state != "Pending":
        at.status |= {"state": "Pending", "canrun": False, "isdispatched": False}
        _say(at, "Preempted", "PreemptionTriggered", "It was preempted, and waits.")
        at.look_s = at.now_s
    elif seen.there or seen.pods:
        _remove(at, seen)
    elif _last(at) not in ("Backoff", "Preempted") and at.wait(_since(at) + _BACKOFF_S):
        _say(at, "Backoff", "AppWrapperNotRunnable.", _SHORT)
    _count(at, seen)


def _dispatch(at: PhaseStep, seen: ObservedComponents) -> None:
    """Dispatch the AppWrapper, because all its pods have a node. Objects of an earlier, failed attempt are removed
    first."""
    if _last(at) == "PreemptCandidate" and (seen.there or seen.pods):
        _remove(at, seen)
        return
    _say(at, "HeadOfLine", "FrontOfQueue.")
    _say(at, "Dispatched", "AppWrapperRunnable")
    at.status |= {"state": "Running", "canrun": True, "isdispatched": True}
    at.status.setdefault("controllerfirstdispatchtimestamp", write_micro_moment(at.now_s))
    at.do = Do.CREATE


def _run(at: PhaseStep, spec: Mapping[str, object], seen: ObservedComponents) -> None:
    counts = _count(at, seen)
    completed = _completed(spec, seen)
    if seen.fault and seen.fatal:
        _end(at, "Failed", "Failed", "CreateFailed", seen.fault)
    elif _is_late(at, spec):
        _end(at, "Failed", "PreemptCandidate", "DispatchDeadlineExceeded", _late(spec))
    elif completed and not (counts["Running"] or counts["Pending"]):
        _end(at, "Completed", "Completed", "PodsCompleted")
    elif completed:
        at.status["state"] = "RunningHoldCompletion"
        if _last(at) != "RunningHoldCompletion":
            _say(at, "RunningHoldCompletion", "SomeItemsCompleted", "Some items completed, others still run.")
    else:
        if counts["Running"] and not seen.missing and _last(at) == "Dispatched":
            _say(at, "Running", "PodsRunning")
        _hold_to_minimum(at, spec, counts)
    if at.status["state"] == "Running" and _last(at) == "Dispatched" and seen.missing:
        at.do = Do.CREATE


def _hold_to_minimum(at: PhaseStep, spec: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    """Create all objects again if fewer pods than `minAvailable` have run for too long."""
    scheduling = spec.get("schedulingSpec") or {}
    least = int(scheduling.get("minAvailable") or 0)
    requeuing = scheduling.get("requeuing") or {}
    initial_s = int(requeuing.get("timeInSeconds", 300))
    patience_s = int(at.status.get("requeueingTimeInSeconds") or initial_s)
    if counts["Running"] + counts["Succeeded"] >= least or not at.wait(_since(at) + patience_s):
        return
    text = f"minimum={least}, running={counts['Running']}, completed={counts['Succeeded']}."
    text = f"Insufficient number of Running and Completed pods, {text}"
    tried = int(at.status.get("numberOfRequeueings") or 0)
    if 0 < int(requeuing.get("maxNumRequeuings") or 0) <= tried:
        _end(at, "Deleted", "PreemptCandidate", "MinPodsNotRunning", text)
        return
    match requeuing.get("growthType", "exponential"):
        case "exponential":
            patience_s *= 2
        case "linear":
            patience_s += int(requeuing.get("initialTimeInSeconds") or initial_s)
    if most_s := int(requeuing.get("maxTimeInSeconds") or 0):
        patience_s = min(patience_s, most_s)
    at.status |= {"numberOfRequeueings": tried + 1, "requeueingTimeInSeconds": patience_s, "state": "Pending"}
    at.status |= {"canrun": False, "isdispatched": False}
    _say(at, "PreemptCandidate", "MinPodsNotRunning", text)
    at.look_s = at.now_s


# --- internal ---------------------------------------------------------------------------------------------------------


def _completed(spec: Mapping[str, Any], seen: ObservedComponents) -> bool:
    """Return True if at least one item names conditions, and the object of every such item has one of the
    conditions."""
    items = (spec.get("resources") or {}).get("GenericItems") or ()
    items = [item for item in items if isinstance(item.get("generictemplate"), dict)]
    asked = [
        (str(item["completionstatus"]).lower().split(","), found)
        for item, found in zip(items, seen.components, strict=False)
        if item.get("completionstatus")
    ]
    return bool(asked) and all(
        any(word in str(one.get("type")).lower() for one in _conditions(found) for word in words)
        for words, found in asked
    )


def _conditions(found: Object | None) -> list[Object]:
    return list(((found or {}).get("status") or {}).get("conditions") or ())


def _is_late(at: PhaseStep, spec: Mapping[str, object]) -> bool:
    limit_s = _limit_s(spec)
    first = at.status.get("controllerfirstdispatchtimestamp")
    return bool(limit_s and first) and at.wait(seconds(str(first)) + limit_s)


def _limit_s(spec: Mapping[str, Any]) -> int:
    return int(((spec.get("schedulingSpec") or {}).get("dispatchDuration") or {}).get("limit") or 0)


def _late(spec: Mapping[str, object]) -> str:
    return f"Dispatch deadline exceeded. allowed to run for {_limit_s(spec)} seconds"


def _end(at: PhaseStep, state: str, kind: str, reason: str, message: str = "") -> None:
    _say(at, kind, reason, message)
    at.status |= {"state": state, "queuejobstate": state, "canrun": False}
    at.look_s = at.now_s


def _remove(at: PhaseStep, seen: ObservedComponents) -> None:
    if seen.there or seen.pods:
        at.do = Do.DELETE


def _count(at: PhaseStep, seen: ObservedComponents) -> dict[str, int]:
    phases = ("Pending", "Running", "Succeeded", "Failed")
    counts = {one: sum(phase(pod) == one for pod in seen.pods) for one in phases}
    at.status |= {one if one == "Succeeded" else one.lower(): count for one, count in counts.items()}
    return counts


def _say(at: PhaseStep, kind: str, reason: str = "", message: str = "") -> None:
    """Append a condition, and set the state to its type. The list may have several conditions of one type; its last
    condition is the present state."""
    now = write_micro_moment(at.now_s)
    said = {"type": kind, "status": "True", "lastUpdateMicroTime": now, "lastTransitionMicroTime": now}
    said |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    at.status["conditions"] = [*at.status["conditions"], said][-_MOST:]
    at.status["queuejobstate"] = kind


_MOST: Final = 32  # the maximum number of conditions in the list


def _last(at: PhaseStep) -> str:
    return str(at.status["conditions"][-1]["type"]) if at.status["conditions"] else ""


def _since(at: PhaseStep) -> float:
    return seconds(str(at.status["conditions"][-1]["lastTransitionMicroTime"]))
