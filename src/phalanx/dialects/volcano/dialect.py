"""Volcano, as one dialect of the frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame import Object, ServedOnly
from phalanx.dialects.volcano import kinds
from phalanx.dialects.volcano.admission import POLICIES
from phalanx.dialects.volcano.tables import notes


class Volcano(ServedOnly):
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

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        return notes(kind, obj)


VOLCANO: Final = Volcano()
