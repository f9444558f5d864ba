"""Kubernetes' own gangs, as one dialect of the frame.

Its objects are built into Kubernetes: if the API server does not serve them (feature gate GenericWorkload), nothing is
read. It adds no scheduler name: Phalanx schedules pods that name `phalanx`, and pods of the default scheduler if no
other scheduler binds those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from phalanx.dialects.frame.dialect import Definitions, Dialect, Object, of_pods
from phalanx.dialects.frame.fields import unused
from phalanx.dialects.kube_scheduler.kubernetes import groups, kinds
from phalanx.dialects.kube_scheduler.kubernetes.tables import POD_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDefinitions(Definitions):
    """The definitions of this dialect. `workloads`: `namespace/name` -> Workload as Kubernetes 1.35 serves it."""

    workloads: Mapping[str, Object] = field(default_factory=dict)


_USUAL: Final = ("podGroupTemplateRef", "workloadRef", "disruptionMode")  # set on every PodGroup, so they need no note


def _notes(kind: str, obj: Object) -> Iterable[str]:
    if kind == kinds.POD_GROUPS_1_36.name:
        said = {key: value for key, value in (obj.get("spec") or {}).items() if key not in _USUAL}
        yield from unused(said, POD_GROUP)


KUBERNETES: Final = Dialect(
    name=kinds.NAME,
    definition_kinds=(kinds.WORKLOADS_1_35,),
    answer_kinds=kinds.POD_GROUPS,
    define=lambda objects: WorkloadDefinitions(workloads=dict(objects.get(kinds.WORKLOADS_1_35, {}))),
    options_of=of_pods(groups.options_of),
    claim=lambda defined, said, objects: groups.claim(said, objects, defined.workloads),
    notes=_notes,
    gang_of=groups.gang_of,
    answer=lambda defined, told, objects, now: groups.answer(told, objects, now),
)
