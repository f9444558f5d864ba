"""Count the calls to an API server, with their status codes and durations. The metrics and tests read the counters.

The counters are plain numbers without a lock or a registry, so counting a call takes about 2 µs; the call itself takes
about 100 µs. The keys contain no object names, so the number of keys is limited by the kinds and verbs that the program
uses.

Verbs and resources have the same names as in the server's audit log and in RBAC: `create pods/binding`, `patch jobs` in
the group `batch`, `list nodes`.
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
_ROOTS = {"api": 3, "apis": 4}  # first part of a path -> the index of the part that names the resource
_READS = frozenset({"get", "list", "watch"})


class Call(NamedTuple):
    """The key of the counters. `group`: empty for the core group. `resource`: the plural name, followed by a slash and
    the subresource if there is one; empty for a path without a resource."""

    verb: str
    group: str
    resource: str


class Spread:
    """A histogram. `counts`: the number of values in each bucket; the last bucket has the values above all `bounds`.
    `total`: the sum of the values."""

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
class MetricFamily:
    """A metric to be exported. `name`: without the suffix `_total` of a counter. `words`: the help text. `series`:
    label values -> the value of the metric."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    words: str
    labels: tuple[str, ...]
    series: Mapping[tuple[str, ...], float | Spread]


class CallAttempt:
    """A context that counts one call when it ends. `code`: the HTTP status of the response; 0 if there was none."""

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
    """Counters of one API connection. `answered_s`: the monotonic time of the server's last response."""

    def __init__(self) -> None:
        self.calls: dict[Call, Counter[int]] = {}  # call -> status (0: no response) -> count
        self.seconds: dict[Call, Spread] = {}  # call -> a histogram of its durations, without watches
        self.in_flight = 0
        self.fills: Counter[Call] = Counter()  # call -> the number of lists that filled a cache
        self.answered_s: float | None = None

    def attempt(self, method: str, path: str) -> CallAttempt:
        """Return a context that counts one call. Set its `code` inside the context."""
        return CallAttempt(self, named(method, path))

    def ended(self, call: Call, code: int, took_s: float) -> None:
        spread = self.seconds.get(call)
        if spread is None:
            spread = self.seconds[call] = Spread(CALL_BOUNDS_S)
        spread.add(took_s)
        self._answered(call, code)

    def watched(self, path: str, code: int) -> None:
        """Count a watch whose response headers have arrived."""
        self._answered(named("GET", path)._replace(verb="watch"), code)

    def filled(self, path: str) -> None:
        """Count a request for a complete list of objects that filled the cache of an informer."""
        self.fills[named("GET", path)] += 1

    @property
    def writes(self) -> int:
        """Return the number of calls that may have changed an object."""
        return sum(counts.total() for call, counts in self.calls.items() if call.verb not in _READS)

    def _answered(self, call: Call, code: int) -> None:
        codes = self.calls.get(call)
        if codes is None:
            codes = self.calls[call] = Counter()
        codes[code] += 1
        if code:
            self.answered_s = time.monotonic()


def named(method: str, path: str) -> Call:
    """Return the key of a call to a path: /api/VERSION/… or /apis/GROUP/VERSION/…, followed by
    [namespaces/NAME/]PLURAL[/NAME[/SUBRESOURCE]]."""
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
