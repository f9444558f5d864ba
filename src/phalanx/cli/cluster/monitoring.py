"""The HTTP endpoints for the monitoring of Phalanx's processes, in the first place schedulers: metrics, health and
readiness.

*Ready* means that the API server has answered the process within the last seconds. Leaders and standbys both call it
every two seconds, for the Lease. *Healthy* means that the event loop answers and that the process does not lead with an
expired Lease. A process with an expired Lease is ending; if it does not end soon, it must be killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import socket
from typing import TYPE_CHECKING

from phalanx.cli.terminal.output import note
from phalanx.client.connection import Connection
from phalanx.client.tally import Tally
from phalanx.kube.leader import Lease
from phalanx.metrics.address import opened, url

if TYPE_CHECKING:  # a server, which is imported only where metrics are served
    from prometheus_client.registry import Collector

    from phalanx.metrics.collector import Scheduler
    from phalanx.metrics.serving import Verdict

START_S = 1.0  # within this time a scheduler usually sends its first bindings
SILENT_S = 15.0  # an API server that has not answered for this time counts as unreachable


@asynccontextmanager
async def monitored(
    connection: Connection, lease: Lease, where: tuple[str, int] | None
) -> AsyncIterator[Scheduler | None]:
    """Serve the metrics of this process at the address `where` as long as the context is open. None: no metrics are
    served or counted."""
    if where is None:
        yield None
        return
    from phalanx.metrics.collector import Scheduler

    found = Scheduler(connection.tally, lambda: lease.fence() - asyncio.get_running_loop().time())
    door = opened(where, "--metrics-address")  # a port in use is an error before anything is scheduled
    note(f"metrics at {url((where[0], door.getsockname()[1]))}")
    answering = asyncio.ensure_future(_answer(door, found, connection.tally))
    try:
        yield found
    finally:
        answering.cancel()
        await asyncio.wait({answering})
        door.close()


async def _answer(door: socket, found: Scheduler, tally: Tally) -> None:
    """Serve the pages on the socket until cancelled. Requests wait until the server is imported: that takes a tenth of
    a second, for which the first bindings do not wait."""
    await asyncio.sleep(START_S)
    from phalanx.metrics.collector import registry
    from phalanx.metrics.serving import serving

    def reached() -> str:
        return unreachable(tally, time.monotonic())

    async with serving(door, registry(found), lambda: overdue(found), reached):
        await asyncio.Event().wait()


@asynccontextmanager
async def shown(where: tuple[str, int] | None, own: Collector, ready: Verdict) -> AsyncIterator[None]:
    """Serve the metrics of a process that does not schedule, at the address `where`, as long as the context is open.
    None: no metrics are served."""
    if where is None:
        yield
        return
    from phalanx.metrics.collector import registry
    from phalanx.metrics.serving import serving

    async with serving(where, registry(own), lambda: "", ready) as port:
        note(f"metrics at {url((where[0], port))}")
        yield


def unreachable(tally: Tally, now_s: float) -> str:
    if tally.answered_s is None:
        return "the API server has not answered yet"
    silent_s = now_s - tally.answered_s
    return f"the API server has not answered for {silent_s:.0f} s" if silent_s > SILENT_S else ""


def overdue(scheduler: Scheduler) -> str:
    """Return whether the scheduler began to lead, and may not write any more."""
    return "the lease has run out" if scheduler.leader is not None and not scheduler.leads else ""
