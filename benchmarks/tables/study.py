"""What a table is made of: cells, each a simulation that gives some figures, and rows that set ours beside theirs.

A cell is a pure function of its description and of the code. Its figures are kept in a file under `out/tables`, named
by a digest of both, as soon as it is done: who stops in the middle loses the cells that were running and no others,
and who changes the code plays anew."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import phalanx

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = ROOT / "out" / "tables"
PLAYED = ("loop.py", "model", "core", "simulator")  # parts of the code that a simulation depends on

Figures = dict[str, float]


@dataclass(frozen=True)
class Cell:
    """`play(**said)` gives the figures. `traces`: the files it reads; `slow`: left out of a quick table."""

    study: str
    said: Mapping[str, Any]
    traces: tuple[str, ...]
    slow: bool = False

    @property
    def name(self) -> str:
        return "-".join(str(value) for value in self.said.values())


@dataclass(frozen=True)
class Row:
    """`within`: how far ours may be from what was published, in the row's unit; relative if `relative`."""

    what: str
    ours: float | None
    published: float | None = None
    within: float | None = None
    relative: bool = True
    digits: int = 2

    @property
    def difference(self) -> float | None:
        if self.ours is None or self.published is None:
            return None
        return self.ours / self.published - 1 if self.relative else self.ours - self.published

    @property
    def holds(self) -> bool | None:
        if self.difference is None or self.within is None:
            return None
        return abs(self.difference) <= self.within

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "ours": self.ours,
            "published": self.published,
            "difference": self.difference,
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Study:
    """`rows` makes the table of the figures by cell; a cell that was not played has none."""

    name: str
    title: str
    cells: Sequence[Cell]
    play: Callable[..., Figures]
    rows: Callable[[Callable[..., Figures | None]], Iterator[Row]]


class Missing(Exception):
    """A trace is not there."""


def trace(name: str) -> Path:
    """The file of that name, or of that name without `.gz`: in `TRACES`, else in `traces` or `benchmarks/traces`."""
    folders = [Path(os.environ["TRACES"])] if os.environ.get("TRACES") else []
    for folder in (*folders, ROOT / "traces", ROOT / "benchmarks" / "traces"):
        for file in (folder / name, folder / name.removesuffix(".gz")):
            if file.is_file():
                return file
    raise Missing(
        f"{name} is not in TRACES, traces or benchmarks/traces; benchmarks/traces/README.md says where it is from"
    )


@cache
def code() -> str:
    """A digest of the code that decides."""
    found, source = hashlib.sha256(), Path(phalanx.__file__).parent
    for part in PLAYED:
        at = source / part
        for file in [at] if at.is_file() else sorted(at.rglob("*.py")):
            found.update(file.read_bytes())
    for file in sorted(HERE.glob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:12]


def kept(cell: Cell) -> Path:
    return KEPT / cell.study / f"{cell.name}-{code()}.json"


def known(cell: Cell) -> Figures | None:
    try:
        found: Figures = json.loads(kept(cell).read_text())
    except (OSError, ValueError):
        return None
    return found


def keep(cell: Cell, figures: Figures) -> None:
    file = kept(cell)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(figures))
    draft.replace(file)
