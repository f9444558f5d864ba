"""Serve /metrics, /healthz and /readyz over plain HTTP for Prometheus and the kubelet.

No token is required. The pages name queues, resources, kinds and codes, but no jobs or users, and they are read-only.
Nothing is served unless an address is set. An administrator who sets an address that other hosts can reach should
restrict access (deploy/ has a NetworkPolicy).

The scheduler's own event loop serves the pages, so a response proves that the scheduler is not stuck.

Addresses to listen on, as users write them, and the sockets of servers that start later."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, create_server, socket
from ssl import SSLContext

from aiohttp import web
from prometheus_client import exposition
from prometheus_client.registry import CollectorRegistry

from phalanx.errors import PhalanxError


def address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as `127.0.0.1:9090` or `[::1]:9090`. Brackets are optional, because
    `$(POD_IP):9090` has none in a cluster with IPv6. Raises PhalanxError."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in bare and not _is_ipv6(bare)) or not port.isdecimal() or int(port) > 65535:
        raise PhalanxError(f"{text!r} is no address to listen on: write HOST:PORT, for instance 127.0.0.1:9090")
    return bare, int(port)


def url(where: tuple[str, int]) -> str:
    """Return the URL of the metrics page at an address."""
    return f"http://{place(where)}/metrics"


def place(where: tuple[str, int]) -> str:
    """Return the address as it is written in a URL."""
    host, port = where
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).version == 6
    except ValueError:
        return False


def opened(where: tuple[str, int], option: str) -> socket:
    """Return a socket that listens at the address (port 0 takes any free one). Raises PhalanxError if the port is in
    use."""
    try:
        return create_server(where, family=AF_INET6 if ":" in where[0] else AF_INET, backlog=128)
    except OSError as error:
        raise taken(where, option, error) from error


def taken(where: tuple[str, int], option: str, error: OSError) -> PhalanxError:
    """Return the error for a port that cannot be opened."""
    host, port = where
    return PhalanxError(
        f"cannot listen on {host} port {port}: {error.strerror or error}. Name another address with "
        f"{option} HOST:PORT, or stop whoever holds this one."
    )


Verdict = Callable[[], str]  # returns the problem in one line; empty if there is none


@asynccontextmanager
async def serving(
    where: tuple[str, int] | socket, registry: CollectorRegistry, healthy: Verdict, ready: Verdict
) -> AsyncIterator[int]:
    """Serve the three pages inside the context; yield the port. `where`: the address (port 0 takes any free one), or a
    socket that listens. Raises PhalanxError if the port is in use."""

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
    """Run `runner` at the address or on the socket `where` inside the context; yield the port. `option`: the command
    line option that sets the address, for the error message. Raises PhalanxError if the port is in use."""
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
