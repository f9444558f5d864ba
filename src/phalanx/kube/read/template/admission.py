"""Predict how the API server changes a pod when it is created, and apply these changes to a pod template, so that the
template can be read like the pods that are created from it.

The changes follow from the LimitRanges of the namespace, the RuntimeClasses and the PriorityClasses. The caller passes
these objects as maps by `namespace/name`, and keeps the maps up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from phalanx.client.connection import Object
from phalanx.kube.read.labels import OURS
from phalanx.kube.read.template.pod_shape import (
    PodRequirements,
    ShapeCache,
    volume_claims,
    with_limit_ranges,
    with_runtime_class,
)
from phalanx.kube.read.template.volumes import VolumeClaims, with_claims

_NO_META: Mapping[str, Any] = {}
Words: TypeAlias = Callable[
    [str, Mapping[str, Any], str], Mapping[str, str]
]  # (kind, metadata, scheduler name) -> Phalanx's options
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionDefaults:
    shapes: ShapeCache = field(default_factory=ShapeCache)
    limit_ranges: Mapping[str, Object] = field(default_factory=dict)
    runtime_classes: Mapping[str, Object] = field(default_factory=dict)
    priority_classes: Mapping[str, Object] = field(default_factory=dict)
    answers_to: frozenset[str] = OURS  # the scheduler names for which Phalanx binds pods
    # A function of a pod's spec. It returns True if the pod names the default scheduler, but Phalanx must bind the pod.
    alone: Callable[[Mapping[str, Any]], bool] = lambda spec: False
    sole: bool = False  # True if no other scheduler runs, so that Phalanx binds all pods of gangs
    volumes: VolumeClaims | None = None  # None if Phalanx may not list claims and volumes
    # A function that translates the labels and annotations of other schedulers on an object.
    words: Words = lambda kind, meta, scheduler: _NO_META

    def requirements(
        self, namespace: str, spec: Mapping[str, Any], meta: Mapping[str, object] = _NO_META
    ) -> PodRequirements:
        """Return the requirements of a pod that is created from the template with this spec and this metadata."""
        runtime_class = self.runtime_classes.get(spec.get("runtimeClassName") or "")
        whole = {**meta, "namespace": namespace}
        ask = self.shapes.of_template(spec, self._ranges(namespace), runtime_class, whole)
        if not ask.claims:
            return ask
        found = self.volumes.look(namespace, volume_claims(spec)) if self.volumes is not None else None
        return with_claims(ask, found, ours=spec.get("schedulerName") in self.answers_to)

    def admitted(self, namespace: str, spec: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the spec that pods of this template will have. Only the fields that ResourceQuotas depend on are
        correct."""
        runtime_class = self.runtime_classes.get(spec.get("runtimeClassName") or "")
        full = with_runtime_class(with_limit_ranges(spec, self._ranges(namespace)), runtime_class)
        defaults = (obj["metadata"]["name"] for obj in self.priority_classes.values() if obj.get("globalDefault"))
        return {**full, "priorityClassName": spec.get("priorityClassName") or next(defaults, "")}

    def _ranges(self, namespace: str) -> list[Object]:
        return [obj for obj in self.limit_ranges.values() if obj["metadata"]["namespace"] == namespace]

    def priority_and_preemption(self, spec: Mapping[str, object]) -> tuple[int, bool]:
        """Return the priority of the pod, and whether the pod may preempt other pods."""
        return self.priority(spec), self.preempts(spec)

    def preempts(self, spec: Mapping[str, Any]) -> bool:
        """Return whether the pod may preempt other pods. As in the Priority admission plug-in, the pod's own
        preemptionPolicy decides, then the policy of its priority class, then the policy of the default class."""
        said = spec.get("preemptionPolicy")
        if said is None and (name := spec.get("priorityClassName")):
            said = self.priority_classes.get(name, {}).get("preemptionPolicy")
        elif said is None:
            defaults = [obj for obj in self.priority_classes.values() if obj.get("globalDefault")]
            said = next((obj.get("preemptionPolicy") for obj in defaults), None)
        return said != "Never"

    def priority(self, spec: Mapping[str, Any]) -> int:
        """Return the priority of the pod. As in the Priority admission plug-in, this is the priority of the class that
        the pod names, or else of the global default class, or else 0."""
        name = spec.get("priorityClassName")
        if name in _SYSTEM_PRIORITIES:
            return _SYSTEM_PRIORITIES[name]
        if name:
            return int(self.priority_classes.get(name, {}).get("value", 0))
        if spec.get("priority") is not None:
            return int(spec["priority"])
        defaults = [int(obj.get("value", 0)) for obj in self.priority_classes.values() if obj.get("globalDefault")]
        return min(defaults, default=0)
