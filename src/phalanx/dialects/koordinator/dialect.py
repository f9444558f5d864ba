"""Koordinator, as one dialect of the frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.client.kind import NODES, Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Object, Objects, Said, Told
from phalanx.dialects.koordinator import kinds
from phalanx.dialects.koordinator.definitions import groups
from phalanx.dialects.koordinator.definitions.defined import KoordinatorDefinitions, define
from phalanx.dialects.koordinator.fields import notes
from phalanx.dialects.koordinator.gang import claims, pod_groups
from phalanx.dialects.koordinator.quota import profiles, usage
from phalanx.dialects.koordinator.reservation import statuses
from phalanx.dialects.koordinator.webhooks.refusals import POLICIES


class Koordinator:
    """`frame.Dialect` of Koordinator."""

    name: Final = kinds.NAME
    scheduler_names: Final = frozenset({kinds.SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (
        kinds.POD_GROUPS,
        kinds.ELASTIC_QUOTAS,
        kinds.QUOTA_PROFILES,
        kinds.COLOCATION_PROFILES,
        kinds.RESERVATIONS,
        kinds.DEVICES,
        kinds.NODE_TOPOLOGIES,
        kinds.MIGRATION_JOBS,
        kinds.NETWORK_TOPOLOGIES,
        kinds.EXPLANATIONS,
    )
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {kinds.RESERVATIONS: ("phase", "nodeName")}
    # Nodes: their capacity is the amount that the quotas share.
    answer_kinds: Final[tuple[Kind, ...]] = (
        kinds.POD_GROUPS,
        kinds.ELASTIC_QUOTAS,
        kinds.QUOTA_PROFILES,
        kinds.RESERVATIONS,
        NODES,
    )
    crds: Final = "koordinator/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = POLICIES

    def define(self, objects: Objects) -> KoordinatorDefinitions:
        return define(objects)

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return claims.options_of(meta, scheduler) if kind == "Pod" else {}

    def claim(self, defined: KoordinatorDefinitions, said: Said, objects: Objects) -> Claim | None:
        return claims.claim(defined, said, objects)

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        return notes.notes(kind, obj)

    def gang_of(self, answer: Object) -> str:
        return groups.gang_of(answer)

    def answer(self, defined: KoordinatorDefinitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return pod_groups.answer(told, objects, now)

    def statuses(
        self, defined: KoordinatorDefinitions, everyone: Iterable[Told], objects: Objects, now: str
    ) -> Iterable[Answer]:
        told = list(everyone)
        yield from pod_groups.statuses(told, objects, now)
        yield from profiles.answers(defined, objects)
        yield from usage.answers(defined, told, objects)
        yield from statuses.statuses(told, objects, now)


KOORDINATOR: Final = Koordinator()
