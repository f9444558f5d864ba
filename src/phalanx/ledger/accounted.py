"""Write the jobs of a world (a cluster, as the scheduler's loop sees it) to the ledger before the jobs start.

`Accounted` wraps a world, so all events and plans pass through it.

- A thread writes the entries in the order in which they changed. All entries that change during one write are written
  together in the next transaction.
- A plan that starts jobs waits until their entries are stored. So every job that ran is in the ledger, even if this
  process is killed. The next process reads from the objects how the job ended; at worst only the time of its end is
  unknown.
- The plan waits at most `_WAIT_S` seconds, because a failing database must not stop the cluster. After this time, the
  jobs start anyway, one warning is logged, and the writer tries again.
- The first events also contain the run times of ended jobs (`past_runs`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from phalanx.ledger.accountant import Accountant, Look
from phalanx.ledger.entry import JobEntry
from phalanx.ledger.store import Ledger, LedgerError, UnstorableError
from phalanx.ledger.usage import MOST, past_runs, with_past_runs
from phalanx.model.event import Event
from phalanx.model.plan import Plan

log = logging.getLogger(__name__)

_WAIT_S = 1.0  # the longest time for which the start of a job waits for the ledger
_AGAIN_S = (0.2, 1.0, 5.0)
_STOP_S = 5.0  # the time limit for the last write


class AccountedWorld(Protocol):
    """The interface of a world. It has the same methods as `loop.World`, because this package may not import `loop`."""

    def events(self) -> Sequence[Event]: ...
    def apply(self, plan: Plan) -> None: ...
    async def wait(self, timeout_s: float | None) -> None: ...


class LedgerWriter:
    """Write entries in a thread until `close`. A newer entry of a job replaces an older one that is not yet written."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._change = threading.Condition()
        self._waiting: dict[str, JobEntry] = {}
        self._given = self._written = 0  # the numbers of the last queued and the last written batch
        self._failing = self._closing = False
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def give(self, entries: Sequence[JobEntry]) -> int:
        """Queue the entries for writing, and return the number of their batch."""
        with self._change:
            if entries:
                self._waiting.update((entry.uid, entry) for entry in entries)
                self._given += 1
                self._change.notify_all()
            return self._given

    def durable(self, batch: int, timeout_s: float) -> bool:
        """Wait until the batch is written, but not longer than `timeout_s` seconds. Return True if it is written. As
        long as writes to the database fail, return False without waiting."""
        with self._change:
            return self._change.wait_for(lambda: self._written >= batch or self._failing, timeout_s) and (
                self._written >= batch
            )

    def close(self) -> None:
        """Write the remaining entries, unless the database fails, and end the thread."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        failures = 0
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closing)
                entries, self._waiting, given = self._waiting, {}, self._given
            if not entries:
                return
            try:
                self._write(list(entries.values()))
            except LedgerError as error:
                if not self._failed(entries, failures, error):
                    return
                failures += 1
                continue
            failures = 0
            with self._change:
                if self._failing:
                    log.warning("the ledger can be written again; no entry is missing")
                self._written, self._failing = given, False
                self._change.notify_all()

    def _write(self, entries: Sequence[JobEntry]) -> None:
        """Write the entries. Leave out entries that the database cannot store, because one such entry would block the
        write of all others. Raises LedgerError."""
        try:
            self._ledger.put(entries)
        except UnstorableError as error:
            if len(entries) == 1:
                log.warning("the ledger cannot store the job %s, and leaves it out: %s", entries[0].job, error)
                return
            for entry in entries:
                self._write([entry])

    def _failed(self, entries: dict[str, JobEntry], failures: int, error: LedgerError) -> bool:
        """Keep the entries for the next attempt and pause; return False if the writer is being closed."""
        with self._change:
            if not self._failing:
                log.warning("%s. Jobs start anyway; the entries are kept and written later", error)
            self._failing = True
            self._waiting = {**entries, **self._waiting}
            self._change.notify_all()
            pause_s = _AGAIN_S[min(failures, len(_AGAIN_S) - 1)]
            return not self._change.wait_for(lambda: self._closing, pause_s)


class Accounted:
    """A world that records the jobs of `world` in the ledger. `look`: a function that returns the facts in the objects
    of a job."""

    def __init__(
        self, world: AccountedWorld, ledger: Ledger, look: Look, now_s: Callable[[], float] = time.time
    ) -> None:
        """Read the entries of live jobs, and the run times of the last ended jobs, from the ledger. Raises
        LedgerError."""
        self._world = world
        self.accountant = Accountant(look, now_s, ledger.live())
        self._runs = list(past_runs(ledger.ended(MOST)))
        self._writer = LedgerWriter(ledger)
        self._settled = False

    def events(self) -> Sequence[Event]:
        found = self._world.events()
        self.accountant.heard(found)
        if not self._settled:
            self._settled = True
            self.accountant.settle()
            found, self._runs = with_past_runs(found, self._runs), []
        self._writer.give(self.accountant.take())
        return found

    def apply(self, plan: Plan) -> None:
        starts = self.accountant.planned(plan.actions, _first(plan))
        batch = self._writer.give(self.accountant.take())
        if starts:
            self._writer.durable(batch, _WAIT_S)
        self._world.apply(plan)

    async def wait(self, timeout_s: float | None) -> None:
        await self._world.wait(timeout_s)

    def close(self) -> None:
        """Write the remaining entries."""
        self._writer.close()


def _first(plan: Plan) -> str:
    """Return the job with the first reservation; empty if no job has one."""
    first = plan.reserved
    return first.job if first is not None and first.slot is None else ""
