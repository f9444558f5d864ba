"""KAI, as one dialect of the frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.client.kind import PRIORITY_CLASSES, Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Object, Objects, Said, Told
from phalanx.dialects.kai import kinds, queues, status
from phalanx.dialects.kai.admission import POLICIES
from phalanx.dialects.kai.fields import notes
from phalanx.dialects.kai.gang import grouper, pod_groups
from phalanx.dialects.kai.queues import KaiDefinitions


class Kai:
    """`frame.Dialect` of KAI. Its answer kinds include the owners of pods, which are only read."""

    name: Final = kinds.NAME
    scheduler_names: Final = frozenset({kinds.SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (kinds.QUEUES, PRIORITY_CLASSES, kinds.TOPOLOGIES, kinds.SHARDS)
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {}
    answer_kinds: Final[tuple[Kind, ...]] = (kinds.POD_GROUPS, kinds.QUEUES, *kinds.OWNERS, *kinds.ABOVE)
    crds: Final = "kai/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = POLICIES

    def define(self, objects: Objects) -> KaiDefinitions:
        return queues.define(objects)

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return grouper.options_of(meta, scheduler) if kind == "Pod" else {}

    def claim(self, defined: KaiDefinitions, said: Said, objects: Objects) -> Claim | None:
        return pod_groups.claim(defined, said, objects)

    def gang_of(self, answer: Object) -> str:
        return pod_groups.gang_of(answer)

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        return notes.notes(kind, obj)

    def answer(self, defined: KaiDefinitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        found = status.pod_group(defined, told, objects, now)
        return () if found is None else (found,)

    def statuses(
        self, defined: KaiDefinitions, everyone: Iterable[Told], objects: Objects, now: str
    ) -> Iterable[Answer]:
        return status.queues(defined, everyone, objects)


KAI: Final = Kai()
