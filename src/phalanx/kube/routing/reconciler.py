"""Reconcile gangs: first those that an earlier process has started, then each gang that is marked or whose timer has
expired. A gang with many changes at once is reconciled only once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.lifecycle.restart import recover
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.read.fault_log import FaultLog, fault_text
from phalanx.kube.read.records import RecordKey

log = logging.getLogger(__name__)


class GangReconciler:
    """The reconciliation of gangs. A gang is *marked* when it must be reconciled in the next round. `gangs`: all gangs,
    by id. `key`: the key that signs the records of starts. `wake`: a function that is called when a gang is marked.
    `settled`: a function that is called after each reconciliation, with the gang's id and the gang (None if the gang no
    longer exists). `reconcile` yields between gangs, so that other tasks can run in between."""

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
        self._faults = FaultLog()
        self._marked: dict[str, None] = {}
        self._recovered = False

    def __len__(self) -> int:
        return len(self._marked)

    def mark(self, gang: str) -> None:
        """Mark the gang, so that it is reconciled in the next round."""
        self._marked[gang] = None
        self._wake()

    def mark_known(self, gang: str) -> None:
        """Mark the gang if it exists."""
        if gang in self._gangs:
            self.mark(gang)

    @property
    def next_s(self) -> float | None:
        """Return the time at which the next timer of a gang expires, in seconds since the epoch; None if no timer is
        set."""
        return self._timers.next_s

    def reconcile(self, defaults: GangDefaults, unblocked: Iterable[str] = ()) -> Iterator[None]:
        """In the first call, report the starts of an earlier process to the core. Then reconcile the marked gangs, the
        gangs whose timers have expired, and the gangs `unblocked`, one after the other. An exception while a gang is
        reconciled affects only that gang."""
        if not self._recovered:
            self._recovered = True
            yield from recover(list(self._gangs.values()), defaults, self._key)
        marked, self._marked = self._marked, {}
        marked.update(dict.fromkeys((*self._timers.due(self._clock()), *unblocked)))
        for name in marked:
            yield
            gang = self._gangs.get(name)
            try:
                if gang is not None:
                    advance(gang, defaults)
                    self._timers.set(name, gang.wake_s)
                self._settled(name, gang)
                self._faults.pop(name, None)
            except Exception as error:  # whatever the error is, other gangs must still be reconciled
                if self._faults.is_new(name, fault_text(error)):
                    log.exception(
                        "the gang %s could not be reconciled; the next change of the gang triggers another attempt",
                        name,
                    )


class GangTimers:
    """The timers of gangs. Each gang has at most one timer, and a new time replaces the earlier time. Times are in
    seconds since the epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._due_s: dict[str, float] = {}  # gang -> the time of its timer; other entries of the heap are outdated

    def set(self, gang: str, at_s: float) -> None:
        """Set the gang's timer to `at_s` (seconds since the epoch); 0 leaves the timer unchanged."""
        if at_s and self._due_s.get(gang) != at_s:
            self._due_s[gang] = at_s
            heappush(self._heap, (at_s, gang))

    @property
    def next_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> Iterator[str]:
        """Yield each gang whose timer has expired, and remove the timer."""
        while self._heap and self._heap[0][0] <= now_s:
            at_s, gang = heappop(self._heap)
            if self._due_s.get(gang) == at_s:
                del self._due_s[gang]
                yield gang
