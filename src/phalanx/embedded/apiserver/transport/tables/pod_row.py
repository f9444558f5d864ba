"""The row of a pod in `kubectl get pods`: its ready containers, its status and its restarts.

The phase does not show why a pod does not run. So the status cell shows the most useful reason that a container
reports. While init containers delay the start of the pod, it shows the reason of an init container, and afterwards the
reason of a container. If several containers have a reason, the cell shows the reason of the first one. Source of the
rules: k8s.io/kubernetes/pkg/printers/internalversion/printers.go, printPod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.apiserver.transport.tables.printer import seconds_of, since

Object = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class _Summary:
    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def add_restarts(self, container: Object) -> None:
        self.restarts += container.get("restartCount") or 0
        ended = (container.get("lastState", {}).get("terminated") or {}).get("finishedAt") or ""
        if ended and (not self.last_restart or seconds_of(ended) > seconds_of(self.last_restart)):
            self.last_restart = ended


def pod_cells(pod: Object, now_s: float) -> list[object]:
    """Return the cells Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node and Readiness Gates."""
    spec, status, metadata = pod.get("spec", {}), pod.get("status", {}), pod["metadata"]
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    summary = _summary(spec, status, sidecars)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts += f" ({since(summary.last_restart, now_s)} ago)"
    return [
        metadata["name"],
        f"{summary.ready}/{len(spec.get('containers') or ()) + len(sidecars)}",
        _deleted_reason(metadata, status) or summary.reason,
        restarts,
        since(metadata.get("creationTimestamp"), now_s),
        _first((ip.get("ip") for ip in status.get("podIPs") or ()), "<none>"),
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _readiness_gates(spec, status),
    ]


def pod_conditions(pod: Object) -> list[Object]:
    """Return the conditions of a row: `Completed` for a pod that has ended. Clients may show such rows in grey."""
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = pod.get("status", {}).get("phase")
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


def _summary(spec: Object, status: Object, sidecars: set[str]) -> _Summary:
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    summary = _Summary(reason=status.get("reason") or status.get("phase") or "")
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    initializing = _sum_init_containers(summary, spec, status, sidecars)
    if not initializing or conditions.get("Initialized", {}).get("status") == "True":
        _sum_containers(summary, status, sidecars, ready=conditions.get("Ready", {}).get("status") == "True")
    return summary


def _sum_init_containers(summary: _Summary, spec: Object, status: Object, sidecars: set[str]) -> bool:
    """Add the init containers to the summary. Return True if one of them delays the start of the pod. The summary then
    has the state of this init container as its reason."""
    for place, container in enumerate(status.get("initContainerStatuses") or ()):
        summary.add_restarts(container)
        state = container.get("state", {})
        ended, waits = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container["name"] in sidecars and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            summary.reason = "Init:" + _ended(ended)
        elif waits and waits != "PodInitializing":
            summary.reason = "Init:" + waits
        else:
            summary.reason = f"Init:{place}/{len(spec.get('initContainers') or ())}"
        return True
    return False


def _sum_containers(summary: _Summary, status: Object, sidecars: set[str], *, ready: bool) -> None:
    summary.restarts, summary.last_restart, running = 0, "", False
    for container in status.get("initContainerStatuses") or ():
        if container["name"] in sidecars:
            summary.add_restarts(container)
    for container in reversed(status.get("containerStatuses") or ()):
        summary.add_restarts(container)
        state = container.get("state", {})
        if (state.get("waiting") or {}).get("reason"):
            summary.reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            summary.reason = _ended(state["terminated"])
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed" and running:
        summary.reason = "Running" if ready else "NotReady"


def _ended(state: Object) -> str:
    """Return the text for a container that has ended: its reason, its signal or its exit code."""
    if state.get("reason"):
        return str(state["reason"])
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _deleted_reason(metadata: Object, status: Object) -> str:
    if not metadata.get("deletionTimestamp"):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates") or ()]
    if not gates:
        return "<none>"
    true = {one["type"] for one in status.get("conditions") or () if one.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _first(values: Iterable[str | None], otherwise: str) -> str:
    return next((value for value in values if value), otherwise)
