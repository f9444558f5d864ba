"""Serve the HTTP endpoints for monitoring the processes of Phalanx, mainly the scheduler: metrics, health and
readiness.

*Ready* means that the API server has answered the process within the last `SILENT_S` seconds. A leader or a standby
calls the API server at least every two seconds, because of the Lease. *Healthy* means that the event loop responds, and
that the process is not a leader whose Lease has expired. A leader with an expired Lease ends itself. If it does not
end, its health check fails, and the kubelet kills it.
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

if TYPE_CHECKING:  # the HTTP server is imported only if metrics are served
    from prometheus_client.registry import Collector

    from phalanx.metrics.collector import Scheduler
    from phalanx.metrics.serving import Verdict

START_S = 1.0  # the time in which a new leader usually sends its first bindings
SILENT_S = 15.0  # an API server counts as unreachable if it has not answered for this time


@asynccontextmanager
async def monitored(
    connection: Connection, lease: Lease, where: tuple[str, int] | None
) -> AsyncIterator[Scheduler | None]:
    """Serve the metrics of a scheduler at the address `where` while the context is open, and yield the object that
    counts the scheduler's decisions. If `where` is None, count and serve no metrics, and yield None."""
    if where is None:
        yield None
        return
    from phalanx.metrics.collector import Scheduler

    found = Scheduler(connection.tally, lambda: lease.fence() - asyncio.get_running_loop().time())
    door = opened(where, "--metrics-address")  # fails if the port is in use, before any job is scheduled
    note(f"metrics at {url((where[0], door.getsockname()[1]))}")
    answering = asyncio.ensure_future(_answer(door, found, connection.tally))
    try:
        yield found
    finally:
        answering.cancel()
        await asyncio.wait({answering})
        door.close()


async def _answer(door: socket, found: Scheduler, tally: Tally) -> None:
    """Serve the endpoints on the socket until cancelled. The import of the server takes a tenth of a second. It begins
    only after `START_S`, so that it does not delay the first bindings; requests wait until then."""
    await asyncio.sleep(START_S)
    from phalanx.metrics.collector import registry
    from phalanx.metrics.serving import serving

    def reached() -> str:
        return unreachable(tally, time.monotonic())

    async with serving(door, registry(found), lambda: overdue(found), reached):
        await asyncio.Event().wait()


@asynccontextmanager
async def shown(where: tuple[str, int] | None, own: Collector, ready: Verdict) -> AsyncIterator[None]:
    """Serve the metrics of a process that is not a scheduler at the address `where`, while the context is open. If
    `where` is None, serve no metrics."""
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
    """Return an error text if the scheduler is the leader but its Lease has expired, so that it may not write any more;
    otherwise ""."""
    return "the lease has run out" if scheduler.leader is not None and not scheduler.leads else ""
