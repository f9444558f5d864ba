"""List the Phalanx equivalents of another scheduler's objects. The command `phalanx migrate` prints this list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An object and its Phalanx equivalent. `object`: the kind and name of the object. `becomes`: the equivalent, as a
    text. `notes`: one sentence for each part of the object that has no effect."""

    object: str
    becomes: str
    notes: tuple[str, ...] = ()


def by_kind(objects: Iterable[Object], wanted: Iterable[Kind]) -> dict[Kind, dict[str, Object]]:
    """Return the objects of the wanted kinds, by kind and by `namespace/name` (or `name`, if the kind has no
    namespaces). The namespace of an object that names none is `default`."""
    kinds = {(kind.api_version, kind.name): kind for kind in wanted}
    found: dict[Kind, dict[str, Object]] = {}
    for obj in objects:
        if (kind := kinds.get((str(obj.get("apiVersion")), str(obj.get("kind"))))) is not None:
            meta = obj["metadata"]
            key = f"{meta.get('namespace', 'default')}/{meta.get('name')}" if kind.namespaced else str(meta.get("name"))
            found.setdefault(kind, {})[key] = obj
    return found


def each_moved(
    objects: Iterable[Object], define: Callable[[list[Object]], Read], becomes: Callable[[Object, Read], Moved | None]
) -> tuple[Moved, ...]:
    """Return the equivalents of the objects in the order of the objects. `define`: a function that reads the
    definitions among all objects. `becomes`: a function that returns the equivalent of one object, or None if the
    object has nothing to do with the dialect, so that it is left out."""
    found = [obj for obj in objects if isinstance(obj.get("metadata"), Mapping)]
    defined = define(found)
    return tuple(one for obj in found if (one := becomes(obj, defined)) is not None)
