"""AppWrapper, as one dialect of the frame: its queues are MCAD's trees of quotas; gangs are read as Jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.appwrapper import kinds, quota_trees
from phalanx.dialects.appwrapper.admission import POLICIES
from phalanx.dialects.appwrapper.generic_items import is_mcad
from phalanx.dialects.appwrapper.quota_trees import QuotaTrees
from phalanx.dialects.appwrapper.tables import APP_WRAPPER, MCAD, QUOTA_SUBTREE, WORDS
from phalanx.dialects.frame.dialect import (
    Answer,
    Claim,
    Ignored,
    Object,
    Objects,
    Said,
    Told,
    unused,
)


class AppWrapper:
    """`frame.Dialect` of AppWrapper."""

    name: Final = kinds.NAME
    scheduler_names: Final[frozenset[str]] = frozenset()
    definition_kinds: Final[tuple[Kind, ...]] = (kinds.QUOTA_SUBTREES, kinds.IBM_QUOTA_SUBTREES)
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {}
    answer_kinds: Final[tuple[Kind, ...]] = ()
    crds: Final = "appwrapper/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = POLICIES

    def define(self, objects: Objects) -> QuotaTrees:
        return quota_trees.define(objects)

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return {}

    def claim(self, defined: QuotaTrees, said: Said, objects: Objects) -> Claim | None:
        return quota_trees.claim(defined, said)

    def gang_of(self, answer: Object) -> str:
        return ""

    def answer(self, defined: QuotaTrees, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return ()

    def statuses(self, defined: QuotaTrees, everyone: Iterable[Told], objects: Objects, now: str) -> Iterable[Answer]:
        return ()

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        if kind == kinds.QUOTA_SUBTREES.name:
            yield from unused(obj.get("spec") or {}, QUOTA_SUBTREE)
        if kind != kinds.APP_WRAPPERS.name:
            return
        spec = obj.get("spec") or {}
        yield from unused(spec, MCAD if is_mcad(spec) else APP_WRAPPER)
        meta = obj.get("metadata") or {}
        for key in (*(meta.get("annotations") or {}), *({kinds.INSTANCES} & (meta.get("labels") or {}).keys())):
            match WORDS.get(key):
                case Ignored(why):
                    yield f"{key} has no effect: {why}"
                case None if key.startswith(kinds.PREFIX):
                    yield f"{key} is not known here, and has no effect"
                case _:
                    pass


APP_WRAPPER_DIALECT: Final = AppWrapper()
