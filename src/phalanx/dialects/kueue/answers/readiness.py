"""The conditions PodsReady and WaitingForReplacementPods of a Workload.

Sources: generatePodsReadyCondition of pkg/controller/jobframework/reconciler.go, pkg/controller/jobs/pod of 0.20.
"""

from __future__ import annotations

from phalanx.dialects.frame.dialect import Object, Stage, Told
from phalanx.dialects.kueue import gangs
from phalanx.dialects.kueue.answers.conditions import Conditions

_READY, _REPLACED = "PodsReady", "WaitingForReplacementPods"
_RECOVERS = "WaitForRecovery"


def waits(said: Conditions) -> None:
    """Set PodsReady for a gang that has not started, or must start again."""
    said.set(_READY, False, "WaitForStart", "Not all pods are ready or succeeded")


def lost(said: Conditions) -> None:
    """Set PodsReady for a gang whose pods were ready and no longer are."""
    if said.is_true(_READY) or said.reason(_READY) == _RECOVERS:
        said.set(_READY, False, _RECOVERS, "At least one pod has failed, waiting for recovery")


def pods_ready(told: Told, said: Conditions) -> None:
    """Set PodsReady for an admitted gang."""
    ready = told.stage is Stage.RUNNING and all(each.ready + each.succeeded >= each.placed for each in told.pod_sets)
    if ready and not said.is_true(_READY):
        reason = "Recovered" if said.reason(_READY) == _RECOVERS else "Started"
        said.set(_READY, True, reason, "All pods reached readiness and the workload is running")
    elif not ready and (said.is_true(_READY) or said.reason(_READY) == _RECOVERS):
        lost(said)
    elif not ready:
        waits(said)


def replaced(told: Told, said: Conditions) -> None:
    """Set WaitingForReplacementPods for a pod group with lost or failed pods. A set replaces its pods itself."""
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
    """Return whether the pod runs, can still run, or has succeeded."""
    lost = "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
    return not lost and (pod.get("status") or {}).get("phase") != "Failed"
