"""What a template needs from its surroundings to be read as the pods that it will become.

LimitRanges of the namespace, RuntimeClasses, PriorityClasses: few and rarely changed objects, looked up in caches that
somebody else keeps (any mapping from `namespace/name` to objects will do).
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
    answers_to: frozenset[str] = OURS  # the scheduler names of pods that Phalanx binds
    alone: Callable[[Mapping[str, Any]], bool] = lambda spec: False  # pods of the default scheduler that Phalanx binds
    sole: bool = False  # no other scheduler runs: Phalanx binds all pods of gangs
    volumes: VolumeClaims | None = None  # None: Phalanx may not list claims and volumes
    # A function that translates an object's labels and annotations for the dialects.
    words: Words = lambda kind, meta, scheduler: _NO_META

    def requirements(
        self, namespace: str, spec: Mapping[str, Any], meta: Mapping[str, Any] = _NO_META
    ) -> PodRequirements:
        """Return the requests of a pod of this template (with that metadata)."""
        runtime_class = self.runtime_classes.get(spec.get("runtimeClassName") or "")
        whole = {**meta, "namespace": namespace}
        ask = self.shapes.of_template(spec, self._ranges(namespace), runtime_class, whole)
        if not ask.claims:
            return ask
        found = self.volumes.look(namespace, volume_claims(spec)) if self.volumes is not None else None
        return with_claims(ask, found, ours=spec.get("schedulerName") in self.answers_to)

    def admitted(self, namespace: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the spec that pods of this template will have, in the fields that quotas read."""
        runtime_class = self.runtime_classes.get(spec.get("runtimeClassName") or "")
        full = with_runtime_class(with_limit_ranges(spec, self._ranges(namespace)), runtime_class)
        defaults = (obj["metadata"]["name"] for obj in self.priority_classes.values() if obj.get("globalDefault"))
        return {**full, "priorityClassName": spec.get("priorityClassName") or next(defaults, "")}

    def _ranges(self, namespace: str) -> list[Object]:
        return [obj for obj in self.limit_ranges.values() if obj["metadata"]["namespace"] == namespace]

    def preempts(self, spec: Mapping[str, Any]) -> bool:
        """Return whether the pod may preempt, as the Priority admission plug-in does: by the pod's field, else by its
        class, else by the default class."""
        said = spec.get("preemptionPolicy")
        if said is None and (name := spec.get("priorityClassName")):
            said = self.priority_classes.get(name, {}).get("preemptionPolicy")
        elif said is None:
            defaults = [obj for obj in self.priority_classes.values() if obj.get("globalDefault")]
            said = next((obj.get("preemptionPolicy") for obj in defaults), None)
        return said != "Never"

    def priority(self, spec: Mapping[str, Any]) -> int:
        """Return the priority, as the Priority admission plug-in does: of the named class, else of the global default,
        else 0."""
        name = spec.get("priorityClassName")
        if name in _SYSTEM_PRIORITIES:
            return _SYSTEM_PRIORITIES[name]
        if name:
            return int(self.priority_classes.get(name, {}).get("value", 0))
        if spec.get("priority") is not None:
            return int(spec["priority"])
        defaults = [int(obj.get("value", 0)) for obj in self.priority_classes.values() if obj.get("globalDefault")]
        return min(defaults, default=0)
