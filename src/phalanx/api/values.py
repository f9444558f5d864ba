"""The values that the functions of the Python interface return. The values are immutable, and are printed as text, or
as HTML in notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Generic, Protocol, TypeVar, overload

# Exported for the policy files of `phalanx simulate --policy NAME.py`.
from phalanx.model.policy import WaitingJob as WaitingJob


class Row(Protocol):
    """A value that can be shown as a row of a table."""

    def cells(self) -> Mapping[str, str]:
        """Return the texts of this row, one for each column."""


Value = TypeVar("Value", bound=Row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that is pending, runs, or has ended. `pods`: the number of its pods. `placed`: the number of its pods that
    have a node. `reason`: why it is pending; `message`: how it failed, or why it is stuck. `record`: its entry in
    `phalanx jobs --json` (docs/guide/command-line.md)."""

    namespace: str
    name: str
    kind: str
    queue: str
    state: str
    pods: int
    placed: int
    reason: str = ""
    message: str = ""
    record: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def id(self) -> str:
        """Return NAMESPACE/NAME, which every function accepts as the name of the job."""
        return f"{self.namespace}/{self.name}"

    def cells(self) -> Mapping[str, str]:
        why = self.reason or self.message
        return {
            "job": self.id,
            "queue": self.queue,
            "state": self.state,
            "pods": f"{self.placed}/{self.pods}",
            "why": why,
        }

    def _repr_html_(self) -> str:
        return as_html([self.cells()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue. `share`: its dominant share; None if it is infinite. `record`: its entry in `phalanx queues --json`."""

    name: str
    parent: str
    state: str
    running: int
    pending: int
    share: float | None
    record: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    def cells(self) -> Mapping[str, str]:
        share = "" if self.share is None else f"{self.share:.2f}"
        numbers = {"running": str(self.running), "pending": str(self.pending), "share": share}
        return {"queue": self.name, "parent": self.parent, "state": self.state, **numbers}

    def _repr_html_(self) -> str:
        return as_html([self.cells()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of `wait`. `state`: complete, failed or deleted; or running, if `wait` was called with `running`.
    `why`: the cause of a failure."""

    job: str
    state: str
    exit_code: int | None
    why: str = ""

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0

    def cells(self) -> Mapping[str, str]:
        code = "" if self.exit_code is None else str(self.exit_code)
        return {"job": self.job, "state": self.state, "exit code": code, "why": self.why}

    def _repr_html_(self) -> str:
        return as_html([self.cells()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The page of `phalanx explain` about a job (`text`). `record`: the same data as in the output of `phalanx explain
    --json`."""

    job: str
    text: str
    record: Mapping[str, object] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The result of a simulation. `measures`: name of a measure (docs/guide/simulate.md) -> its value."""

    trace: str
    policy: str
    estimates: str
    measures: Mapping[str, Any] = field(repr=False)

    def cells(self) -> Mapping[str, str]:
        return {
            name: f"{value:,.4g}" if isinstance(value, float) else str(value) for name, value in self.measures.items()
        }

    def _repr_html_(self) -> str:
        return as_html([self.cells()])


class Table(Sequence[Value], Generic[Value]):
    """A list of values. A notebook shows this list as a table with one row for each value."""

    def __init__(self, items: Sequence[Value]) -> None:
        self._items = tuple(items)

    @overload
    def __getitem__(self, at: int) -> Value: ...
    @overload
    def __getitem__(self, at: slice) -> Table[Value]: ...
    def __getitem__(self, at: int | slice) -> Value | Table[Value]:
        return Table(self._items[at]) if isinstance(at, slice) else self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self._items))}]"

    def _repr_html_(self) -> str:
        return as_html([item.cells() for item in self._items])


def as_html(rows: Sequence[Mapping[str, str]]) -> str:
    """Return an HTML table. The names in the first row are the column headings. All text is escaped, because it
    contains names that users choose."""
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(row.get(name, ''))}</td>" for name in rows[0]) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
