"""Sets of completion indexes as the API writes them: `0,2-4,7`.

Two neighbours are written `3,4`, longer runs `3-5` (k8s.io/api/batch/v1, JobStatus.completedIndexes). A set is a sorted
tuple of closed runs, so that a Job of a million indexes costs what its gaps cost, not a million.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Indexes:
    """An immutable set of integers ≥ 0; `runs` are (first, last), sorted, with gaps between them."""

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, members: Iterable[int]) -> Indexes:
        return cls(tuple(_joined((member, member) for member in sorted(members))))

    @classmethod
    def parse(cls, text: str | None, below: int) -> Indexes:
        """Return the indexes in `text` that are < `below`. Parts that are no numbers are ignored, as in
        kube-controller-manager."""
        runs = []
        for part in (text or "").split(","):
            first, _, last = part.partition("-")
            if first.isdigit() and (not last or last.isdigit()) and int(first) <= min(int(last or first), below - 1):
                runs.append((int(first), min(int(last or first), below - 1)))
        return cls(tuple(_joined(sorted(runs))))

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(tuple(_joined(sorted(self.runs + other.runs)))) if other.runs else self

    def __contains__(self, member: int) -> bool:
        place = bisect_right(self.runs, (member, 1 << 62)) - 1
        return place >= 0 and self.runs[place][0] <= member <= self.runs[place][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __str__(self) -> str:
        return ",".join(_shown(first, last) for first, last in self.runs)

    def common(self, other: Indexes) -> int:
        """Return the number of indexes that are in both sets."""
        return sum(
            max(0, min(last, end) - max(first, start) + 1) for first, last in self.runs for start, end in other.runs
        )

    def missing(self, count: int, below: int) -> list[int]:
        """Return the lowest `count` numbers < `below` that are not in the set."""
        found: list[int] = []
        for number in self._gaps(below):
            if len(found) >= count:
                break
            found.append(number)
        return found

    def _gaps(self, below: int) -> Iterator[int]:
        start = 0
        for first, last in self.runs:
            yield from range(start, min(first, below))
            start = last + 1
        yield from range(start, below)


NO_INDEXES = Indexes()


def _joined(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield sorted runs, with runs that touch or overlap joined into one."""
    current: tuple[int, int] | None = None
    for first, last in runs:
        if current is None:
            current = (first, last)
        elif first <= current[1] + 1:
            current = (current[0], max(current[1], last))
        else:
            yield current
            current = (first, last)
    if current is not None:
        yield current


def _shown(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
