"""Serve /metrics, /healthz and /readyz over plain HTTP for Prometheus and the kubelet.

The pages need no token. The pages are read-only, and contain names of queues, resources, kinds and codes, but no names
of jobs or users. The pages are served only if an address is set. An administrator who sets an address that other hosts
can reach should restrict the access to it (deploy/ has a NetworkPolicy).

The event loop of the scheduler itself serves the pages, so a response shows that this loop is not blocked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from socket import socket
from ssl import SSLContext

from aiohttp import web
from prometheus_client import exposition
from prometheus_client.registry import CollectorRegistry

from phalanx.metrics.address import taken

Verdict = Callable[[], str]  # a function that returns a line about a problem, or "" if there is none


@asynccontextmanager
async def serving(
    where: tuple[str, int] | socket, registry: CollectorRegistry, healthy: Verdict, ready: Verdict
) -> AsyncIterator[int]:
    """Serve the three pages inside the `async with` block, and yield the port. `where`: the address (port 0 stands for
    any free port), or a socket that listens. `healthy`, `ready`: functions that return the problem that /healthz and
    /readyz report; "" if there is none. Raises PhalanxError if the port is in use."""

    async def metrics(request: web.Request) -> web.Response:
        encode, media = exposition.choose_encoder(request.headers.get("accept", ""))
        return web.Response(body=encode(registry), headers={"content-type": media})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", _judged(healthy))
    app.router.add_get("/readyz", _judged(ready))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    async with listening(runner, where, "--metrics-address") as port:
        yield port


@asynccontextmanager
async def listening(
    runner: web.BaseRunner, where: tuple[str, int] | socket, option: str, tls: SSLContext | None = None
) -> AsyncIterator[int]:
    """Run the server `runner` at the address or on the socket `where` inside the `async with` block, and yield the
    port. `option`: the command line option that sets the address, for the error message. Raises PhalanxError if the
    port is in use."""
    await runner.setup()
    try:
        if isinstance(where, socket):
            await web.SockSite(runner, where, ssl_context=tls).start()
        else:
            try:
                await web.TCPSite(runner, *where, ssl_context=tls).start()
            except OSError as error:
                raise taken(where, option, error) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _judged(verdict: Verdict) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        wrong = verdict()
        return web.Response(status=503 if wrong else 200, text=f"{wrong or 'ok'}\n")

    return answer
