"""Combine the parts of the dialect for Kubernetes' own gangs into one `frame.Dialect`.

The kinds of this dialect are a part of Kubernetes. If the API server does not serve them (feature gate
GenericWorkload), Phalanx reads nothing. The dialect adds no scheduler name. Phalanx schedules pods whose scheduler name
is `phalanx`, and pods of the default scheduler if no other scheduler binds them.
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
    """The definitions of this dialect. `workloads`: the Workloads of Kubernetes 1.35, by `namespace/name`."""

    workloads: Mapping[str, Object] = field(default_factory=dict)


_USUAL: Final = ("podGroupTemplateRef", "workloadRef", "disruptionMode")  # set on every PodGroup, so no note is needed


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
