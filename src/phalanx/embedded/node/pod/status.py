"""Compute the status of a pod like the kubelet, from the known state of its containers. The functions have no side
effects.

Phases and conditions follow pkg/kubelet/kubelet_pods.go (getPhase) and pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from phalanx.embedded.node.container.attempt import Exited, Planned, RunningAttempt
from phalanx.embedded.node.pod.admission import is_sidecar
from phalanx.embedded.node.pod.lifecycle import BackOff, Known, restarts, start_due_s

Object = Mapping[str, Any]
TERMINAL = ("Succeeded", "Failed")
_NO_TRACE = "The container could not be located when the pod was terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatusFacts:
    """The facts in the status of a pod that are not about single containers. `failure`: (reason, message) for which the
    node ended the pod; None if the node did not end it. `cause`: a message that explains why the containers failed, if
    the pod failed by itself. `disrupted`: the message of the condition DisruptionTarget; "" if the pod was not ended
    for a reason outside of it."""

    pod_ip: str
    host_ip: str
    start_time: str
    failure: tuple[str, str] | None = None
    cause: str = ""
    disrupted: str = ""
    back_off: BackOff = field(default_factory=BackOff)


def at(seconds: float) -> str:
    """Return a Unix time in the format of the API."""
    return _at(int(seconds))


@lru_cache(maxsize=1024)
def _at(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_status(
    pod: Object, known: Mapping[str, Known], place: PodStatusFacts, now_s: float, *, over: bool
) -> dict[str, Any]:
    """Return the fields of the status to write by PATCH. `over`: True if no container runs or will run again."""
    spec = pod["spec"]
    init, main = spec.get("initContainers") or [], spec["containers"]
    before = (pod.get("status") or {}).get("phase")
    phase = before if before in TERMINAL else _phase(spec, known, place, over)  # a final phase never changes
    context = _Context(pod=pod, known=known, place=place, over=phase in TERMINAL, now_s=now_s)
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": place.start_time,
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "podIP": place.pod_ip,
        "podIPs": [{"ip": place.pod_ip}],
        "containerStatuses": [context.container(one) for one in main],
    }
    if init:
        status["initContainerStatuses"] = [context.container(one) for one in init]
    if late := spec.get("ephemeralContainers"):
        status["ephemeralContainerStatuses"] = [context.ephemeral(one) for one in late]
    if place.failure:
        status["reason"], status["message"] = place.failure
    elif phase == "Failed" and place.cause:  # keep a reason that another component has written
        status["message"] = (pod.get("status") or {}).get("message") or place.cause
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    status["conditions"] = _conditions(pod, phase, known, now_s)
    if place.disrupted:
        why = ("TerminationByKubelet", place.disrupted)
        status["conditions"].append(_condition(pod, "DisruptionTarget", True, why, now_s))
    return status


def rejected(pod: Object, reason: str, message: str, now_s: float) -> dict[str, object]:
    """Return the status of a pod that the node rejects. The phase is Failed, which is final."""
    status: dict[str, Any] = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    status["startTime"] = at(now_s)
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    return status


# --- phase ------------------------------------------------------------------------------------------------------------


def _phase(spec: Object, known: Mapping[str, Known], place: PodStatusFacts, over: bool) -> str:
    main = [known[one["name"]].state for one in spec["containers"]]
    policy = spec.get("restartPolicy") or "Always"
    if over:
        clean = all(isinstance(state, Exited) and state.exit_code == 0 for state in main)
        return "Succeeded" if clean and place.failure is None else "Failed"
    if not _initialized(spec, known) or any(state is None or isinstance(state, Planned) for state in main):
        return "Pending"
    if any(isinstance(state, RunningAttempt) or restarts(state, policy) for state in main):
        return "Running"
    # No main container will run again, but sidecars are still terminating.
    return "Running" if _sidecar_up(spec, known) else "Pending"


def _sidecar_up(spec: Object, known: Mapping[str, Known]) -> bool:
    sidecars = [one for one in spec.get("initContainers") or () if is_sidecar(one)]
    return any(isinstance(known[one["name"]].state, RunningAttempt) for one in sidecars)


def _initialized(spec: Object, known: Mapping[str, Known]) -> bool:
    """Return True if every init container has succeeded (or has started, if it is a sidecar). After the start of a main
    container, always return True."""
    if any(known[one["name"]].state is not None for one in spec["containers"]):
        return True
    return not _uninitialized(spec, known)


def _uninitialized(spec: Object, known: Mapping[str, Known]) -> list[str]:
    return [one["name"] for one in spec.get("initContainers") or () if not _is_through(one, known[one["name"]])]


def _is_through(container: Object, one: Known) -> bool:
    if is_sidecar(container):
        return one.started
    return isinstance(one.state, Exited) and one.state.exit_code == 0


# --- conditions -------------------------------------------------------------------------------------------------------


def _conditions(pod: Object, phase: str, known: Mapping[str, Known], now_s: float) -> list[dict[str, object]]:
    spec, over = pod["spec"], phase in TERMINAL
    initialized = _initialized(spec, known)
    unready = [one["name"] for one in spec["containers"] if not known[one["name"]].ready]
    sidecars = [one["name"] for one in spec.get("initContainers") or () if is_sidecar(one)]
    unready += [name for name in sidecars if not known[name].ready]
    why: tuple[str, str] = ("", "")
    if over:
        why = ("PodCompleted" if phase == "Succeeded" else "PodFailed", "")
    elif unready:
        why = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    ready = not over and initialized and not unready
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    missing = [name for name in gates if _old(pod, name).get("status") != "True"]
    pod_why = why if why[0] or not missing else ("ReadinessGatesNotReady", _gates_message(missing))
    init_why = ("PodCompleted", "") if phase == "Succeeded" else ("", "")
    if not initialized:
        names = " ".join(_uninitialized(spec, known))
        init_why = ("ContainersNotInitialized", f"containers with incomplete status: [{names}]")
    begun = not over and any(one.state is not None for one in known.values())
    return [
        _condition(pod, "PodReadyToStartContainers", begun, ("", ""), now_s),
        _condition(pod, "Initialized", initialized, init_why, now_s),
        _condition(pod, "Ready", ready and not missing, pod_why, now_s),
        _condition(pod, "ContainersReady", ready, why, now_s),
        _condition(pod, "PodScheduled", True, ("", ""), now_s),
    ]


def _gates_message(missing: Sequence[str]) -> str:
    return "".join(f'corresponding condition of pod readiness gate "{name}" does not exist.' for name in missing)


def _old(pod: Object, kind: str) -> Object:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


def _condition(pod: Object, kind: str, value: bool, why: tuple[str, str], now_s: float) -> dict[str, object]:
    """Return the condition. Its transition time changes only if its status has changed. A null value removes an old
    reason in a strategic merge patch."""
    old, status = _old(pod, kind), "True" if value else "False"
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since or at(now_s),
        "reason": why[0] or None,
        "message": why[1] or None,
    }


# --- containers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    pod: Object
    known: Mapping[str, Known]
    place: PodStatusFacts
    over: bool
    now_s: float

    def container(self, container: Object) -> dict[str, Any]:
        one = self.known[container["name"]]
        up = isinstance(one.state, RunningAttempt)
        status: dict[str, Any] = {
            "name": container["name"],
            "image": container["image"],
            "imageID": (one.image_id or container["image"]) if one.state is not None else "",
            "restartCount": one.number,
            "ready": (up and one.ready) or (not self._is_main(container) and _is_through(container, one)),
            "started": up and one.started,
            "state": self._state(container, one),
            "lastState": {},
        }
        if one.state is not None:
            status["containerID"] = container_id(self._uid, container["name"], one.number)
        last = one.state if isinstance(one.state, Exited) and "waiting" in status["state"] else one.previous
        if last is not None:
            number = one.number if last is one.state else one.number - 1
            status["lastState"] = self._ended(container, last, number)
        return status

    def ephemeral(self, container: Object) -> dict[str, object]:
        """Return the status of an ephemeral container. Such a container runs only once, and is never ready."""
        status = self.container(container)
        status["ready"] = False
        del status["started"]
        return status

    @property
    def _uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    def _is_main(self, container: Object) -> bool:
        return any(one["name"] == container["name"] for one in self.pod["spec"]["containers"])

    def _state(self, container: Object, one: Known) -> dict[str, object]:
        match one.state:
            case RunningAttempt(started_s=started_s):
                return {"running": {"startedAt": at(started_s)}}
            case Exited() as ended if self.over or not self._comes_again(container, ended):
                return self._ended(container, ended, one.number)
            case Exited() if one.waiting is None:
                pause_s = self.place.back_off.pause_s(one.failures)
                if start_due_s(one, self.place.back_off) <= self.now_s:
                    return self._ended(container, one.state, one.number)
                meta = self.pod["metadata"]
                who = f"container={container['name']} pod={meta['name']}_{meta['namespace']}({meta['uid']})"
                text = f"back-off {_go_duration(pause_s)} restarting failed {who}"
                return {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        if self.over:
            return {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": _NO_TRACE}}
        if one.waiting is not None:
            return {"waiting": {"reason": one.waiting.reason, "message": one.waiting.message}}
        has_init = bool(self.pod["spec"].get("initContainers"))
        return {"waiting": {"reason": "PodInitializing" if has_init else "ContainerCreating"}}

    def _comes_again(self, container: Object, ended: Exited) -> bool:
        if container in (self.pod["spec"].get("ephemeralContainers") or ()):
            return False
        policy = self.pod["spec"].get("restartPolicy") or "Always"
        if is_sidecar(container) and not self._is_main(container):
            policy = "Always"
        elif not self._is_main(container):
            policy = "Never" if policy == "Never" else "OnFailure"
        return restarts(ended, policy)

    def _ended(self, container: Object, ended: Exited, number: int) -> dict[str, object]:
        found: dict[str, Any] = {
            "exitCode": ended.exit_code,
            "reason": ended.reason or ("Completed" if ended.exit_code == 0 else "Error"),
            "startedAt": at(ended.started_s),
            "finishedAt": at(ended.finished_s),
            **({"signal": ended.signal} if ended.signal else {}),
            "containerID": container_id(self._uid, container["name"], number),
        }
        if ended.message:
            found["message"] = ended.message
        return {"terminated": found}


def container_id(uid: str, name: str, number: int) -> str:
    """Return the id of an attempt. The id does not change with a restart of the agent."""
    return f"phalanx://{hashlib.sha256(f'{uid}/{name}/{number}'.encode()).hexdigest()}"


def _go_duration(seconds: float) -> str:
    """Return the duration in Go's notation: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
