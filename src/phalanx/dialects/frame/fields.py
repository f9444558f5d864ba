"""The use of another API's fields: a table lists each field, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Becomes:
    """A field that becomes `field` of Phalanx's model. `how`: the difference, if any."""

    field: str
    how: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A field without effect in Phalanx. `why`: the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A field that Phalanx writes as the other scheduler would. `how`: the difference, if any."""

    how: str = ""


Use: TypeAlias = Becomes | Ignored | Answered


def unused(values: Mapping[str, Any], table: Mapping[str, Use], path: str = "spec") -> Iterable[str]:
    """Yield a sentence for each field of `values` without effect, with the reason. In paths, `[]` stands for each entry
    of a list."""
    for name, value in values.items():
        here = f"{path}.{name}" if path else name
        match table.get(here):
            case Becomes() | Answered():
                yield from _inside(value, table, here)
            case Ignored(why):
                yield f"{here} has no effect: {why}"
            case None if any(known.startswith((f"{here}.", f"{here}[].")) for known in table):
                yield from _inside(value, table, here)
            case None:
                yield f"{here} is not known here, and has no effect"


def _inside(value: Any, table: Mapping[str, Use], path: str) -> Iterable[str]:
    if not isinstance(value, (Mapping, list)):
        return  # most values are scalars, and searching the table costs time
    if not any(known.startswith((f"{path}.", f"{path}[].")) for known in table):
        return
    if isinstance(value, Mapping):
        yield from unused(value, table, path)
    else:
        for one in value:
            if isinstance(one, Mapping):
                yield from unused(one, table, f"{path}[]")
