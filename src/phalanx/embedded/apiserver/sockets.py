"""Listen on a port, and keep the connections of clients: accept them, close idle ones, and end them when the server
stops."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import time
from collections.abc import Callable

from phalanx.embedded.apimachinery.connections import Connections
from phalanx.embedded.apiserver.app.api import Api
from phalanx.embedded.apiserver.transport.http import HttpLimits, ServerConnection
from phalanx.errors import PhalanxError

_BACKLOG = 512
_CONNECTIONS = 16_384
_GRACE_S = 5.0
_SWEEP_S = 5.0
_HANDSHAKE_S = 10.0
# how many files the server may open other than client connections: the database, logs, webhooks, nodes
_OWN_FILES = 64


class Sockets:
    """The listening socket, and the connections that it has accepted."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._open: Connections[ServerConnection] = Connections(_most_connections())
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Ask the server to stop. The method may be called several times, and from a signal handler of the event
        loop."""
        self._stopped.set()

    async def run(self, listener: socket.socket, tls: ssl.SSLContext, ready: Callable[[], object]) -> None:
        loop, limits = asyncio.get_running_loop(), HttpLimits(body_bytes=self._api.settings.body_limit_bytes)

        server = await loop.create_server(
            lambda: ServerConnection(self._api, self._open, limits),
            sock=listener,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=_HANDSHAKE_S,
        )
        sweep = asyncio.ensure_future(self._sweep())
        try:
            ready()
            await self._stopped.wait()
        finally:
            sweep.cancel()
            server.close()
            await self._finish()

    async def _sweep(self) -> None:
        """Close connections that are idle, and connections with a client that neither sends nor reads data."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = time.monotonic()
            for connection in tuple(self._open):
                connection.expire(now_s)

    async def _finish(self) -> None:
        """End the streams, give running requests some seconds to finish, and close the remaining connections."""
        self._api.engine.hub.end_all()
        tasks = [task for one in tuple(self._open) if (task := one.finish()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE_S)
        for connection in tuple(self._open):
            connection.abort()


def _most_connections() -> int:
    """Raise the process's limit of open files to the hard limit. Return how many connections this limit allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(_CONNECTIONS, max(_OWN_FILES, hard - _OWN_FILES))


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise PhalanxError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Name another port with --port N "
            "(0 stands for any free port), or stop the program that uses this port."
        ) from error
    return listener
