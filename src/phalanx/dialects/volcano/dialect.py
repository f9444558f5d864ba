"""Volcano, as one dialect of the frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame import Answer, Claim, Definitions, Object, Objects, Said, Told
from phalanx.dialects.volcano import kinds
from phalanx.dialects.volcano.admission import POLICIES
from phalanx.dialects.volcano.tables import notes


class Volcano:
    """`frame.Dialect` of Volcano."""

    name: Final = kinds.NAME
    scheduler_names: Final = frozenset({kinds.SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (
        kinds.QUEUES,
        kinds.POD_GROUPS,
        kinds.JOBS,
        kinds.JOB_FLOWS,
        kinds.HYPER_NODES,
        kinds.COLOCATIONS,
    )
    by_status: Final[frozenset[Kind]] = frozenset()
    answer_kinds: Final[tuple[Kind, ...]] = ()
    crds: Final = "volcano/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = POLICIES

    def define(self, objects: Objects) -> Definitions:
        return Definitions()

    def words(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return {}

    def claim(self, defined: Definitions, said: Said, objects: Objects) -> Claim | None:
        return None

    def gang_of(self, answer: Object) -> str:
        return ""

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        return notes(kind, obj)

    def answer(self, defined: Definitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return ()

    def statuses(self, defined: Definitions, everyone: Iterable[Told], objects: Objects, now: str) -> Iterable[Answer]:
        return ()


VOLCANO: Final = Volcano()
