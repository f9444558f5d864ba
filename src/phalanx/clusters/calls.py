"""Calls to workers, few at a time to each, so that a slow worker holds up no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from phalanx.client.connection import ApiUnknown, Connection
from phalanx.clusters.worker import Worker

AT_ONE = 6  # calls to one worker that are not answered
CALL_S = 15.0  # the longest time of a call


class WorkerBusy(Exception):
    """Too many calls to the worker are not answered."""


class WorkerCalls:
    """The calls of one manager that are not answered. `open`: their number, by worker."""

    def __init__(self) -> None:
        self.open = Counter[str]()

    @asynccontextmanager
    async def to(self, worker: Worker) -> AsyncIterator[Connection]:
        """Yield the connection to a worker for one call. Raises WorkerBusy; ApiUnknown if the call takes too long."""
        if worker.link is None or self.open[worker.name] >= AT_ONE:
            raise WorkerBusy
        self.open[worker.name] += 1
        try:
            async with asyncio.timeout(CALL_S):
                yield worker.link
        except TimeoutError:
            raise ApiUnknown(f"cluster {worker.name} did not answer within {CALL_S:g} s") from None
        finally:
            self.open[worker.name] -= 1
