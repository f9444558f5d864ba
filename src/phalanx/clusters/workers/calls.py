"""Calls to workers. Each worker gets few calls at a time, so a slow worker does not delay jobs of other workers.

A job that cannot call its worker yet waits in the line of that worker. When a call ends, the first job of the line is
looked at again. So every job can call its worker at some time, however many jobs wait for a slow worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice

from phalanx.client.connection import ApiUnknown, Connection
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.workers.worker import Worker

AT_ONE = 6  # calls to one worker that are not answered
CALL_S = 15.0  # the longest time of a call


class WorkerBusy(Exception):
    """Too many calls to the worker are not answered. The job is in the line for that worker now."""


class WorkerAway(Exception):
    """There is no connection to the worker now."""


class WorkerCalls:
    """The calls of one manager that are not answered. `look_again`: called with the next job of a line. `open`: the
    number of calls, by worker."""

    def __init__(self, look_again: Callable[[Key], None]) -> None:
        self.open = Counter[str]()
        self._look_again = look_again
        self._lines: dict[str, dict[Key, None]] = {}  # worker -> the jobs that wait for a call, the first one first

    @asynccontextmanager
    async def to(self, worker: Worker, key: Key) -> AsyncIterator[Connection]:
        """Yield the connection to a worker for one call about a job. Raises WorkerBusy; WorkerAway; ApiUnknown if the
        call takes too long."""
        if worker.link is None:
            raise WorkerAway
        line = self._lines.setdefault(worker.name, {})
        if len(line) >= self._free(worker.name) and key not in self._next(worker.name):
            self._join(worker.name, key)
            raise WorkerBusy
        line.pop(key, None)
        self.open[worker.name] += 1
        try:
            async with asyncio.timeout(CALL_S):
                yield worker.link
        except TimeoutError:
            raise ApiUnknown(f"cluster {worker.name} did not answer within {CALL_S:g} s") from None
        finally:
            self.open[worker.name] -= 1
            self._call_up(worker.name)

    def leave(self, key: Key) -> None:
        """Note that the job waits for no call any more."""
        for name, line in self._lines.items():
            if key in line:
                del line[key]
                self._call_up(name)

    def _join(self, name: str, key: Key) -> None:
        """Let the job wait for a call to this worker, and to no other."""
        for other, line in self._lines.items():
            if other != name and key in line:
                del line[key]
                self._call_up(other)
        self._lines[name].setdefault(key)

    def _call_up(self, name: str) -> None:
        for key in self._next(name):
            self._look_again(key)

    def _next(self, name: str) -> list[Key]:
        """Return the jobs that may call the worker now."""
        return list(islice(self._lines.get(name, ()), self._free(name)))

    def _free(self, name: str) -> int:
        return max(0, AT_ONE - self.open[name])
