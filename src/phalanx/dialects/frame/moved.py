"""What an object of another scheduler's becomes here, as `phalanx migrate` says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from phalanx.dialects.frame.dialect import Object

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An object, what it becomes, and what will be different."""

    object: str
    becomes: str
    notes: tuple[str, ...] = ()


def each_moved(
    objects: Iterable[Object], define: Callable[[list[Object]], Read], becomes: Callable[[Object, Read], Moved | None]
) -> tuple[Moved, ...]:
    """Return what each of these objects becomes, in their order. `define`: reads the definitions among them all.
    `becomes`: None for an object that has nothing to do with the dialect, which is left out."""
    found = [obj for obj in objects if isinstance(obj.get("metadata"), Mapping)]
    defined = define(found)
    return tuple(one for obj in found if (one := becomes(obj, defined)) is not None)
