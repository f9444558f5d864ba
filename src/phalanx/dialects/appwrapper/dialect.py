"""AppWrapper, as one dialect of the frame: it has no queues, and what it says of gangs is read as Jobs are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.client.kind import Kind
from phalanx.dialects.appwrapper import kinds
from phalanx.dialects.appwrapper.admission import POLICIES
from phalanx.dialects.appwrapper.tables import APP_WRAPPER, WORDS
from phalanx.dialects.frame import (
    Ignored,
    Object,
    ServedOnly,
    unused,
)


class AppWrapper(ServedOnly):
    """`frame.Dialect` of AppWrapper."""

    name: Final = kinds.NAME
    scheduler_names: Final[frozenset[str]] = frozenset()
    definition_kinds: Final[tuple[Kind, ...]] = ()
    by_status: Final[frozenset[Kind]] = frozenset()
    answer_kinds: Final[tuple[Kind, ...]] = ()
    crds: Final = "appwrapper/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = POLICIES

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        if kind != kinds.APP_WRAPPERS.name:
            return
        yield from unused(obj.get("spec") or {}, APP_WRAPPER)
        for key in (obj.get("metadata") or {}).get("annotations") or {}:
            match WORDS.get(key):
                case Ignored(why):
                    yield f"{key} has no effect: {why}"
                case None if key.startswith(kinds.PREFIX):
                    yield f"{key} is not known here, and has no effect"
                case _:
                    pass


APP_WRAPPER_DIALECT: Final = AppWrapper()
