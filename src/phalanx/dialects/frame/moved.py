"""The Phalanx equivalent of another scheduler's object, for `phalanx migrate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from phalanx.dialects.frame.dialect import Object

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An object, its Phalanx equivalent, and the differences."""

    object: str
    becomes: str
    notes: tuple[str, ...] = ()


def each_moved(
    objects: Iterable[Object], define: Callable[[list[Object]], Read], becomes: Callable[[Object, Read], Moved | None]
) -> tuple[Moved, ...]:
    """Return the equivalent of each object, in order. `define`: reads the definitions among all objects. `becomes`:
    returns None for an object without relation to the dialect; it is left out."""
    found = [obj for obj in objects if isinstance(obj.get("metadata"), Mapping)]
    defined = define(found)
    return tuple(one for obj in found if (one := becomes(obj, defined)) is not None)
