"""Volcano, as one dialect of the frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.client.kind import NAMESPACES, NODES, PRIORITY_CLASSES, Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Object, Objects, Said, Told
from phalanx.dialects.volcano import gangs, kinds, settings
from phalanx.dialects.volcano.admission import POLICIES
from phalanx.dialects.volcano.answers import statuses
from phalanx.dialects.volcano.definitions import queues
from phalanx.dialects.volcano.definitions.configuration import CONFIGURATIONS
from phalanx.dialects.volcano.definitions.queues import VolcanoDefinitions
from phalanx.dialects.volcano.tables import notes


class Volcano:
    """`frame.Dialect` of Volcano."""

    name: Final = kinds.NAME
    scheduler_names: Final = frozenset({kinds.SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (
        NAMESPACES,
        PRIORITY_CLASSES,
        CONFIGURATIONS,
        kinds.QUEUES,
        kinds.JOBS,
        kinds.JOB_FLOWS,
        kinds.HYPER_NODES,
        kinds.NUMA_TOPOLOGIES,
        kinds.COLOCATIONS,
    )
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {kinds.QUEUES: ("state",)}
    # NODES: read to count the nodes of HyperNodes, and all that nodes have
    answer_kinds: Final[tuple[Kind, ...]] = (kinds.POD_GROUPS, kinds.QUEUES, kinds.HYPER_NODES, NODES)
    crds: Final = "volcano/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = POLICIES

    def define(self, objects: Objects) -> VolcanoDefinitions:
        return queues.define(objects)

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return gangs.options_of(meta, scheduler) if kind == "Pod" else {}

    def claim(self, defined: VolcanoDefinitions, said: Said, objects: Objects) -> Claim | None:
        return gangs.claim(defined, said, objects)

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        return settings.notes(obj) if kind == CONFIGURATIONS.name else notes(kind, obj)

    def gang_of(self, answer: Object) -> str:
        return gangs.gang_of(answer)

    def answer(self, defined: VolcanoDefinitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return statuses.answer(told, objects, now)

    def statuses(
        self, defined: VolcanoDefinitions, everyone: Iterable[Told], objects: Objects, now: str
    ) -> Iterable[Answer]:
        yield from statuses.statuses({queue.name: queue for queue in defined.queues}, everyone, objects, now)
        yield from statuses.hyper_nodes(defined.hyper_nodes, objects)


VOLCANO: Final = Volcano()
