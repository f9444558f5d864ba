"""The gangs to reconcile: first the starts of an earlier process, then each gang that is marked or whose time has come.
A burst of changes marks a gang once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.lifecycle.restart import recover
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.read.records import RecordKey

log = logging.getLogger(__name__)


class GangReconciler:
    """The marked gangs. `gangs`: all gangs, by id. `key` signs the records of starts. `settled`: called with each gang
    after it was reconciled. `gone`: called with the id of a marked gang that does not exist any more. The generators
    yield after each gang, so that other tasks can run in between."""

    def __init__(
        self,
        gangs: dict[str, GangLifecycle],
        clock: Callable[[], float],
        key: RecordKey | None,
        defaults: Callable[[], GangDefaults],
        settled: Callable[[GangLifecycle], None],
        gone: Callable[[str], None],
    ) -> None:
        self._gangs, self._clock, self._key, self._defaults = gangs, clock, key, defaults
        self._settled, self._gone = settled, gone
        self._timers = GangTimers()
        self._marked: dict[str, None] = {}
        self._recovered = False

    def __len__(self) -> int:
        return len(self._marked)

    def mark(self, *gangs: str) -> None:
        """Reconcile these gangs next."""
        self._marked.update(dict.fromkeys(gangs))

    def mark_due(self) -> None:
        """Mark the gangs whose time has come."""
        self.mark(*self._timers.due(self._clock()))

    @property
    def next_s(self) -> float | None:
        """Return the time at which the next gang is due, in seconds since the epoch; None: no gang is."""
        return self._timers.next_s

    def recover(self) -> Iterator[None]:
        """Report the state of an earlier process to the core, once."""
        if not self._recovered:
            self._recovered = True
            yield from recover(list(self._gangs.values()), self._defaults(), self._key)

    def reconcile(self) -> Iterator[None]:
        """Reconcile the marked gangs, one after the other. An ended gang may still report ended pods, until they are
        deleted."""
        marked, self._marked = self._marked, {}
        for name in marked:
            yield
            if (gang := self._gangs.get(name)) is not None:
                self._advance(gang)
            else:
                self._gone(name)

    def _advance(self, gang: GangLifecycle) -> None:
        """Reconcile the gang; an exception concerns that gang alone."""
        try:
            advance(gang, self._defaults())
            self._timers.set(gang.id, gang.wake_s)
            self._settled(gang)
        except Exception:  # other gangs go on after any error
            log.exception("the gang %s could not be looked at: it is again when something of it changes", gang.id)


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
