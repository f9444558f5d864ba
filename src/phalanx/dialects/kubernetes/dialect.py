"""Kubernetes' own gangs, as one dialect of the frame.

Its objects are built into Kubernetes: if the API server does not serve them (feature gate GenericWorkload), nothing is
read. It adds no scheduler name: Phalanx schedules pods that name `phalanx`, and pods of the default scheduler if no
other scheduler binds those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Definitions, Object, Objects, Said, Told, unused
from phalanx.dialects.kubernetes import groups, kinds
from phalanx.dialects.kubernetes.tables import POD_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDefinitions(Definitions):
    """The definitions of this dialect. `workloads`: `namespace/name` -> Workload as Kubernetes 1.35 serves it."""

    workloads: Mapping[str, Object] = field(default_factory=dict)


class Kubernetes:
    """`frame.Dialect` of scheduling.k8s.io."""

    name: Final = kinds.NAME
    scheduler_names: Final[frozenset[str]] = frozenset()
    definition_kinds: Final[tuple[Kind, ...]] = (kinds.WORKLOADS_1_35,)
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {}
    answer_kinds: Final[tuple[Kind, ...]] = kinds.POD_GROUPS
    crds: Final = ""
    policies: Final[tuple[tuple[Kind, Object], ...]] = ()

    def define(self, objects: Objects) -> WorkloadDefinitions:
        return WorkloadDefinitions(workloads=dict(objects.get(kinds.WORKLOADS_1_35, {})))

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return groups.options_of(meta, scheduler) if kind == "Pod" else {}

    def claim(self, defined: WorkloadDefinitions, said: Said, objects: Objects) -> Claim | None:
        return groups.claim(said, objects, defined.workloads)

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        if kind == kinds.POD_GROUPS_1_36.name:
            said = {key: value for key, value in (obj.get("spec") or {}).items() if key not in _USUAL}
            yield from unused(said, POD_GROUP)

    def gang_of(self, answer: Object) -> str:
        return groups.gang_of(answer)

    def answer(self, defined: WorkloadDefinitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return groups.answer(told, objects, now)

    def statuses(
        self, defined: WorkloadDefinitions, everyone: Iterable[Told], objects: Objects, now: str
    ) -> Iterable[Answer]:
        return ()


_USUAL: Final = ("podGroupTemplateRef", "workloadRef", "disruptionMode")  # set on every PodGroup, so they need no note
KUBERNETES: Final = Kubernetes()
