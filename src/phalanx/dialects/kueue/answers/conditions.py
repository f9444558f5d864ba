"""Set the conditions in an object's status. The transition time of a condition changes only when the condition's status
changes.

Further functions set the conditions PodsReady and WaitingForReplacementPods of a Workload.

Sources: generatePodsReadyCondition of pkg/controller/jobframework/reconciler.go, pkg/controller/jobs/pod of 0.20."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from phalanx.dialects.frame.dialect import GangStage, GangView, Object
from phalanx.dialects.kueue import gangs

Condition = dict[str, Any]


class Conditions:
    """The conditions of a status, in the order in which the status lists them. `now`: the present time as a
    metav1.Time."""

    def __init__(self, old: Iterable[Condition], now: str, generation: int = 0) -> None:
        self._by_type = {str(one.get("type")): dict(one) for one in old}
        self._now, self._generation = now, generation

    def set(self, kind: str, truth: bool, reason: str, message: str) -> None:
        """Set a condition. Its transition time stays the same if its status does not change."""
        status, old = "True" if truth else "False", self._by_type.get(kind, {})
        since = old["lastTransitionTime"] if old.get("status") == status and old.get("lastTransitionTime") else None
        said = {"type": kind, "status": status, "reason": reason, "message": message[:32768]}
        generation = {"observedGeneration": self._generation} if self._generation else {}
        self._by_type[kind] = {**said, "lastTransitionTime": since or self._now, **generation}

    def is_true(self, kind: str) -> bool:
        return self._by_type.get(kind, {}).get("status") == "True"

    def reason(self, kind: str) -> str:
        """Return the reason of a condition; empty if the condition does not exist."""
        return str(self._by_type.get(kind, {}).get("reason") or "")

    def message(self, kind: str) -> str:
        """Return the message of a condition; empty if the condition does not exist."""
        return str(self._by_type.get(kind, {}).get("message") or "")

    def since(self, kind: str) -> str:
        """Return the last transition time of a condition as a metav1.Time; empty if the condition does not exist."""
        return str(self._by_type.get(kind, {}).get("lastTransitionTime") or "")

    def __contains__(self, kind: str) -> bool:
        return kind in self._by_type

    def all(self) -> list[Condition]:
        return list(self._by_type.values())


_READY, _REPLACED = "PodsReady", "WaitingForReplacementPods"
_RECOVERS = "WaitForRecovery"


def waits(said: Conditions) -> None:
    """Set PodsReady for a gang that has not started yet or must start again."""
    said.set(_READY, False, "WaitForStart", "Not all pods are ready or succeeded")


def lost(said: Conditions) -> None:
    """Set PodsReady for a gang whose pods were all ready and are no longer all ready."""
    if said.is_true(_READY) or said.reason(_READY) == _RECOVERS:
        said.set(_READY, False, _RECOVERS, "At least one pod has failed, waiting for recovery")


def pods_ready(told: GangView, said: Conditions) -> None:
    """Set PodsReady for an admitted gang."""
    ready = told.stage is GangStage.RUNNING and all(
        each.ready + each.succeeded >= each.placed for each in told.pod_sets
    )
    if ready and not said.is_true(_READY):
        reason = "Recovered" if said.reason(_READY) == _RECOVERS else "Started"
        said.set(_READY, True, reason, "All pods reached readiness and the workload is running")
    elif not ready and (said.is_true(_READY) or said.reason(_READY) == _RECOVERS):
        lost(said)
    elif not ready:
        waits(said)


def replaced(told: GangView, said: Conditions) -> None:
    """Set WaitingForReplacementPods for a pod group with lost or failed pods. It is not set for the pods of a
    StatefulSet or LeaderWorkerSet, because the set replaces its pods itself."""
    if told.kind != "PodGroup" or gangs.SET_NAME in told.options:
        return
    if sum(map(_is_active, told.owners)) >= sum(each.count for each in told.pod_sets):
        if said.is_true(_REPLACED):
            said.set(_REPLACED, False, _READY, "No pods need replacement")
    elif said.is_true("Evicted"):
        said.set(_REPLACED, True, said.reason("Evicted"), said.message("Evicted"))
    else:
        said.set(_REPLACED, True, "PodsFailed", "Some Failed pods need replacement")


def _is_active(pod: Object) -> bool:
    """Return whether the pod is running, may still run, or has succeeded."""
    lost = "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
    return not lost and (pod.get("status") or {}).get("phase") != "Failed"
