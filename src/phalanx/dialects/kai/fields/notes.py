"""The parts of KAI's objects, and of pods with its labels, that have no effect in Phalanx, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Ignored, unused
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.fields.tables import TABLES, WORDS
from phalanx.dialects.kai.queues import RESOURCES


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield a sentence for each field, label and annotation without effect."""
    if kind in TABLES:
        spec = obj.get("spec") or {}
        yield from unused(spec, TABLES[kind])
        if kind == kinds.QUEUES.name:
            yield from _no_room(spec.get("resources") or {})
        return
    meta = obj["metadata"]
    said: Mapping[str, object] = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    for key in said:
        match WORDS.get(key):
            case Ignored(why):
                yield f"{key} has no effect: {why}"
            case None if key.startswith(kinds.PREFIX):
                yield f"{key} is not known here, and has no effect"
            case _:
                pass


def _no_room(resources: Mapping[str, Mapping[str, object] | None]) -> Iterator[str]:
    """Yield a note for a queue without a limit, which runs no pods, as in KAI. (In KAI only the pods show this.)"""
    closed = [name for name in RESOURCES if not (resources.get(name) or {}).get("limit")]
    if closed:
        names = ", ".join(f"spec.resources.{name}.limit" for name in closed)
        yield f"{names}: absent or 0 is no room at all for pods that ask for it; write -1 for no limit"
