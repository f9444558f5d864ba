"""What talking to an API server costs, counted where it happens and read by whoever shows it.

Counting is a few additions to plain numbers (about 2 µs a call, which itself takes a hundred): no lock, no registry.
Names of objects never get in, so that what is kept is bounded by the kinds and verbs that a program uses.

Verbs and resources are called as in the server's own audit and RBAC: `create pods/binding`, `patch jobs` in the group
`batch`, `list nodes`.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

CALL_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ROOTS = {"api": 3, "apis": 4}  # first part of a path -> where in it the resource stands
_READS = frozenset({"get", "list", "watch"})


class Call(NamedTuple):
    """The key that a call is counted under. `resource`: its plural, with the subresource behind a slash; empty for a
    path that names none. `group` is empty for the core group."""

    verb: str
    group: str
    resource: str


class Spread:
    """A histogram: how many values were at most each bound, and their sum. `counts` has one more for those above."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric as it is shown. `name`: without the suffix `_total` of a counter. `series`: by the values of its
    labels."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    words: str
    labels: tuple[str, ...]
    series: Mapping[tuple[str, ...], float | Spread]


class Attempt:
    """A call under way, counted when it is left. `code`: the HTTP status that answered it, 0 for none."""

    __slots__ = ("_began_s", "_call", "_tally", "code")

    def __init__(self, tally: Tally, call: Call) -> None:
        self._tally, self._call, self.code = tally, call, 0

    def __enter__(self) -> Self:
        self._tally.in_flight += 1
        self._began_s = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._tally.in_flight -= 1
        self._tally.ended(self._call, self.code, time.perf_counter() - self._began_s)


class Tally:
    """Of one connection. `answered_s`: when the server answered last, on the monotonic clock."""

    def __init__(self) -> None:
        self.calls: dict[Call, Counter[int]] = {}  # -> status (0: no answer) -> how many
        self.seconds: dict[Call, Spread] = {}  # watches are not timed: they last as long as they may
        self.in_flight = 0
        self.fills: Counter[Call] = Counter()  # times that a cache was filled from a list
        self.answered_s: float | None = None

    def attempt(self, method: str, path: str) -> Attempt:
        """Count one call; its `code` is set inside as soon as it is known."""
        return Attempt(self, named(method, path))

    def ended(self, call: Call, code: int, took_s: float) -> None:
        spread = self.seconds.get(call)
        if spread is None:
            spread = self.seconds[call] = Spread(CALL_BOUNDS_S)
        spread.add(took_s)
        self._answered(call, code)

    def watched(self, path: str, code: int) -> None:
        """A watch was answered with its head."""
        self._answered(named("GET", path)._replace(verb="watch"), code)

    def filled(self, path: str) -> None:
        """A cache took in a whole list."""
        self.fills[named("GET", path)] += 1

    @property
    def writes(self) -> int:
        """Calls that may have changed something."""
        return sum(counts.total() for call, counts in self.calls.items() if call.verb not in _READS)

    def _answered(self, call: Call, code: int) -> None:
        codes = self.calls.get(call)
        if codes is None:
            codes = self.calls[call] = Counter()
        codes[code] += 1
        if code:
            self.answered_s = time.monotonic()


def named(method: str, path: str) -> Call:
    """/api/VERSION/… or /apis/GROUP/VERSION/…, then [namespaces/NAME/]PLURAL[/NAME[/SUBRESOURCE]]."""
    parts = path.split("/")
    at = _ROOTS.get(parts[1], len(parts))
    group = parts[2] if at == 4 and len(parts) > 4 else ""
    if parts[at : at + 1] == ["namespaces"] and len(parts) > at + 2:
        at += 2
    resource = parts[at] if at < len(parts) else ""
    if len(parts) > at + 2:
        resource = f"{resource}/{parts[at + 2]}"
    verb = _VERBS.get(method) or ("get" if len(parts) > at + 1 else "list")
    return Call(verb, group, resource)
