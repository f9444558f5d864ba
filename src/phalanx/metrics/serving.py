"""/metrics, /healthz and /readyz over plain HTTP, as monitoring and the kubelet ask for them.

There is no token: what is served names queues, resources, kinds and codes, and nothing of jobs or users; nobody can
change anything by it. It is served nowhere unless an address is given, and who gives one that others can reach
narrows who may (deploy/ does, by a NetworkPolicy).

Served by the event loop of the scheduler itself: that it answers is the proof that the scheduler is not stuck.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address
from ssl import SSLContext

from aiohttp import web
from prometheus_client import exposition
from prometheus_client.registry import CollectorRegistry

from phalanx.errors import PhalanxError

Verdict = Callable[[], str]  # what is wrong, in a line; empty: nothing


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:9090`, `[::1]:9090`, and `$(POD_IP):9090` as it comes out where addresses are of IPv6: without
    brackets. Raises PhalanxError."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in bare and not _is_ipv6(bare)) or not port.isdecimal() or int(port) > 65535:
        raise PhalanxError(f"{text!r} is no address to listen on: write HOST:PORT, for instance 127.0.0.1:9090")
    return bare, int(port)


def url(where: tuple[str, int]) -> str:
    """Of its metrics."""
    return f"http://{place(where)}/metrics"


def place(where: tuple[str, int]) -> str:
    """An address as it stands in a URL."""
    host, port = where
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).version == 6
    except ValueError:
        return False


@asynccontextmanager
async def serving(
    where: tuple[str, int], registry: CollectorRegistry, healthy: Verdict, ready: Verdict
) -> AsyncIterator[int]:
    """Inside, it is served there; the port (0 in `where` takes any free one). Raises PhalanxError if it is taken."""

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
    runner: web.BaseRunner, where: tuple[str, int], option: str, tls: SSLContext | None = None
) -> AsyncIterator[int]:
    """Inside, the runner serves there; the port. `option`: that of the command that names the address. Raises
    PhalanxError if it is taken."""
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, *where, ssl_context=tls).start()
        except OSError as error:
            raise taken(where, option, error) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def taken(where: tuple[str, int], option: str, error: OSError) -> PhalanxError:
    """Return what is told where a port cannot be opened."""
    host, port = where
    return PhalanxError(
        f"cannot listen on {host} port {port}: {error.strerror or error}. Name another address with "
        f"{option} HOST:PORT, or stop whoever holds this one."
    )


def _judged(verdict: Verdict) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        wrong = verdict()
        return web.Response(status=503 if wrong else 200, text=f"{wrong or 'ok'}\n")

    return answer
