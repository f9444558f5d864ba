"""Report pods whose scheduler seems not to run.

A pod may name a scheduler that does not run. For example, the manifests of scheduler-plugins contain scheduler names
that their authors chose freely. Such a pod waits without a condition and without an Event. A scheduler that runs writes
the condition PodScheduled when it tries to place a pod. So Phalanx writes an Event about a pod that still has no such
condition after `AFTER_S` seconds. It writes one Event for each group of pods (`_group_of`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from phalanx.client.connection import Object
from phalanx.client.kind import PODS, Kind
from phalanx.dialects.kube_scheduler.scheduler_plugins.kinds import GROUP_LABELS
from phalanx.dialects.kube_scheduler.scheduler_plugins.kinds import NAME as SCHEDULER_PLUGINS
from phalanx.kube.read import labels
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.routing.settings import KubeSettings

Report: TypeAlias = Callable[[Kind, Object, str, str], None]
AFTER_S = 60.0
_EVERY_S = 30.0
_MOST_REMEMBERED = 10_000
REASON = "SchedulerUnknown"


def unattended_pods(
    settings: KubeSettings, pods: Callable[[], Mapping[str, Object]], report: Report, now_s: Callable[[], float]
) -> UnattendedPods:
    """Create the object that checks the pods of a cluster. If Phalanx is meant to be the only scheduler in the cluster,
    all pods are checked. Otherwise only pods in PodGroups of scheduler-plugins are checked, provided that this dialect
    is enabled."""
    grouped = frozenset(GROUP_LABELS) if SCHEDULER_PLUGINS in settings.dialects else frozenset[str]()

    def concerns(meta: Object) -> bool:
        return settings.sole or not grouped.isdisjoint(meta.get("labels") or ())

    return UnattendedPods(pods, settings.answers_to, concerns, report, now_s)


class UnattendedPods:
    """Report pods of other schedulers if no scheduler seems to place them. `pods`: a function that returns the existing
    pods. `answers_to`: the scheduler names whose pods Phalanx schedules. `concerns`: a function that returns whether a
    pod with this metadata must be checked. `report`: a function that records an Event."""

    def __init__(
        self,
        pods: Callable[[], Mapping[str, Object]],
        answers_to: frozenset[str],
        concerns: Callable[[Object], bool],
        report: Report,
        now_s: Callable[[], float],
    ) -> None:
        self._pods, self._answers_to, self._concerns = pods, answers_to, concerns
        self._report, self._now_s = report, now_s
        self._reported: dict[tuple[str, str, str], None] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self.check()

    def check(self) -> None:
        """Report the first pod of each group that is not reported yet."""
        for pod in list(self._unattended(self._now_s() - AFTER_S)):
            meta, scheduler = pod["metadata"], str(pod["spec"]["schedulerName"])
            group = meta["namespace"], scheduler, _group_of(meta)
            if group in self._reported:
                continue
            if len(self._reported) >= _MOST_REMEMBERED:
                self._reported.clear()
            self._reported[group] = None
            names = ", ".join(sorted(self._answers_to))
            text = f"no scheduler named {scheduler} has tried this pod for {AFTER_S:.0f} s"
            self._report(
                PODS, meta, REASON, f"{text}: start that scheduler, or set spec.schedulerName to one of {names}"
            )

    def _unattended(self, before_s: float) -> Iterator[Object]:
        for pod in self._pods().values():
            spec, status = pod["spec"], pod.get("status") or {}
            scheduler = spec.get("schedulerName", labels.DEFAULT_SCHEDULER)
            if "nodeName" in spec or scheduler == labels.DEFAULT_SCHEDULER or scheduler in self._answers_to:
                continue  # this applies to nearly every pod
            if spec.get("schedulingGates"):
                continue
            meta = pod["metadata"]
            waits = status.get("phase", "Pending") == "Pending" and "deletionTimestamp" not in meta
            is_late = epoch_s(meta.get("creationTimestamp")) <= before_s
            if waits and is_late and not _was_tried(status) and self._concerns(meta):
                yield pod


def _was_tried(status: Mapping[str, Any]) -> bool:
    return any(one.get("type") == "PodScheduled" for one in status.get("conditions") or ())


def _group_of(meta: Object) -> str:
    """Return the name of the pod's controller or of its group, or else its own name."""
    owner = next((one["name"] for one in meta.get("ownerReferences") or () if one.get("controller")), "")
    said = meta.get("labels") or {}
    return str(owner or next((said[key] for key in sorted(said) if "pod-group" in key), meta["name"]))
