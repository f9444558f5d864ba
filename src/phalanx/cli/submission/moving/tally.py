"""Count the objects that a move found, moved and left, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An object that stays. `name`: NAMESPACE/NAME, or NAME. `why`: the reason, and what to do."""

    kind: str
    name: str
    why: str


@dataclass(slots=True, kw_only=True)
class TallyRow:
    """The objects of a kind. `found`: how many the source has. `moved`: how many were created or changed at the target
    now. `there`: how many the target had already."""

    found: int = 0
    moved: int = 0
    there: int = 0


@dataclass(slots=True)
class MoveTally:
    """`rows`: kind -> its counts, in the order of the move. `notes`: what the user must know besides. `tick`: called
    with a number of finished steps."""

    rows: dict[str, TallyRow] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tick: Callable[[int], None] = lambda steps: None

    def row(self, kind: str) -> TallyRow:
        return self.rows.setdefault(kind, TallyRow())

    def leave(self, kind: str, name: str, why: str) -> None:
        self.left.append(Left(kind=kind, name=name, why=why))

    def json(self) -> dict[str, Any]:
        rows = [{"kind": kind, **asdict(row), "left": self._left(kind)} for kind, row in self.rows.items()]
        return {"kinds": rows, "left": [asdict(one) for one in self.left], "notes": self.notes}

    def table(self) -> list[tuple[str, ...]]:
        """Return the kinds that the source has anything of."""
        rows = ((kind, row.found, row.moved, row.there, self._left(kind)) for kind, row in self.rows.items())
        return [tuple(map(str, cells)) for cells in rows if cells[1]]

    def reasons(self) -> Iterator[tuple[str, str, str]]:
        """Yield (kind, names, why): objects of a kind that stay for the same reason share a line."""
        groups: dict[tuple[str, str], list[str]] = {}
        for one in self.left:
            groups.setdefault((one.kind, one.why), []).append(one.name)
        for (kind, why), names in groups.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield kind, f"{', '.join(names[:3])}{more}", why

    def _left(self, kind: str) -> int:
        return sum(one.kind == kind for one in self.left)
