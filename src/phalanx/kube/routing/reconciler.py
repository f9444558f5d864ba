"""The gangs to reconcile: first the starts of an earlier process, then each gang that is marked or whose time has come.
A burst of changes marks a gang once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.lifecycle.restart import recover
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.read.records import RecordKey

log = logging.getLogger(__name__)


class GangReconciler:
    """The marked gangs. `gangs`: all gangs, by id. `key` signs the records of starts. `wake`: called when a gang is
    marked. `settled`: called with each marked gang, after it was reconciled; with None if it does not exist any more.
    The generators yield after each gang, so that other tasks can run in between."""

    def __init__(
        self,
        gangs: dict[str, GangLifecycle],
        clock: Callable[[], float],
        key: RecordKey | None,
        wake: Callable[[], None],
        settled: Callable[[str, GangLifecycle | None], None],
    ) -> None:
        self._gangs, self._clock, self._key, self._wake, self._settled = gangs, clock, key, wake, settled
        self._timers = GangTimers()
        self._marked: dict[str, None] = {}
        self._recovered = False

    def __len__(self) -> int:
        return len(self._marked)

    def mark(self, gang: str) -> None:
        """Reconcile the gang next."""
        self._marked[gang] = None
        self._wake()

    def mark_due(self, gangs: Iterable[str]) -> None:
        """Mark these gangs, and those whose time has come, without a call of `wake`."""
        self._marked.update(dict.fromkeys((*self._timers.due(self._clock()), *gangs)))

    @property
    def next_s(self) -> float | None:
        """Return the time at which the next gang is due, in seconds since the epoch; None: no gang is."""
        return self._timers.next_s

    def recover(self, defaults: Callable[[], GangDefaults]) -> Iterator[None]:
        """Report the state of an earlier process to the core, once."""
        if not self._recovered:
            self._recovered = True
            yield from recover(list(self._gangs.values()), defaults(), self._key)

    def reconcile(self, defaults: Callable[[], GangDefaults]) -> Iterator[None]:
        """Reconcile the marked gangs, one after the other. An ended gang may still report ended pods, until they are
        deleted. An exception about a gang concerns that gang alone."""
        marked, self._marked = self._marked, {}
        for name in marked:
            yield
            gang = self._gangs.get(name)
            try:
                if gang is not None:
                    advance(gang, defaults())
                    self._timers.set(name, gang.wake_s)
                self._settled(name, gang)
            except Exception:  # other gangs go on after any error
                log.exception("the gang %s could not be looked at: it is again when something of it changes", name)


class GangTimers:
    """The timers: each gang has at most one. A new time replaces the earlier time. Times are in seconds since the
    epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._due_s: dict[str, float] = {}  # gang -> the time in its valid entry

    def set(self, gang: str, at_s: float) -> None:
        """Set the gang's timer to `at_s` (seconds since the epoch); 0 leaves the timer unchanged."""
        if at_s and self._due_s.get(gang) != at_s:
            self._due_s[gang] = at_s
            heappush(self._heap, (at_s, gang))

    @property
    def next_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> Iterator[str]:
        """Yield the gangs whose time has come, each once."""
        while self._heap and self._heap[0][0] <= now_s:
            at_s, gang = heappop(self._heap)
            if self._due_s.get(gang) == at_s:
                del self._due_s[gang]
                yield gang
