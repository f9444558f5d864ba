"""Describe how Phalanx uses the fields of another scheduler's API. Each dialect has a table with every field of its
API, and for each field an instance of one of the classes below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Becomes:
    """A field whose value Phalanx translates to the field `field` of its own model. `how`: a text for users about how
    Phalanx uses the value."""

    field: str
    how: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A field that has no effect in Phalanx. `why`: a text for users with the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A field that Phalanx writes as the other scheduler would write it. `how`: a text for users about the values that
    Phalanx writes, or about the difference from the other scheduler."""

    how: str = ""


Use: TypeAlias = Becomes | Ignored | Answered


def unused(values: Mapping[str, object], table: Mapping[str, Use], path: str = "spec") -> Iterable[str]:
    """Yield one sentence for each field of `values` that has no effect; the sentence contains the reason. `table`: the
    use of each field by its path. `path`: the path of `values` in its object. In paths, `[]` stands for each entry of a
    list."""
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
                yield f"{here} is unknown to Phalanx, and has no effect"


def _inside(value: object, table: Mapping[str, Use], path: str) -> Iterable[str]:
    if not isinstance(value, (Mapping, list)):
        return  # scalars have no fields; this case is common, and a search of the table costs time
    if not any(known.startswith((f"{path}.", f"{path}[].")) for known in table):
        return
    if isinstance(value, Mapping):
        yield from unused(value, table, path)
    else:
        for one in value:
            if isinstance(one, Mapping):
                yield from unused(one, table, f"{path}[]")
