"""Start the server on a data directory, and stop it.

`serve` creates or checks the files of the data directory, locks the directory, opens the database, and listens until it
is cancelled or stopped. A problem with the directory, the port or the database raises a `PhalanxError`, which names a
remedy, before the server accepts the first request.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import resource
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from phalanx.embedded.apimachinery.connections import Connections
from phalanx.embedded.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.app import Api
from phalanx.embedded.apiserver.auth import authority
from phalanx.embedded.apiserver.auth.account_tokens import AccountTokens
from phalanx.embedded.apiserver.auth.authentication import Tokens, ensure_user, token_of, write_tokens
from phalanx.embedded.apiserver.auth.authority import write_private
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.embedded.apiserver.auth.reviews import REVIEWS
from phalanx.embedded.apiserver.endpoints.reconcilers import bootstrap
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import AGGREGATED, OF_NUMBERS
from phalanx.embedded.apiserver.registry.builtin import emulating
from phalanx.embedded.apiserver.registry.metrics import METRICS
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.storage.journal import Journal
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Store
from phalanx.embedded.apiserver.transport.http import HttpLimits, ServerConnection
from phalanx.errors import PhalanxError

ADMIN = "admin"
CONTROL_PLANE = "system:phalanx"  # the user of the scheduler, of the controllers and of the node of `phalanx up`
_BACKLOG = 512
_CONNECTIONS = 16_384
_GRACE_S = 5.0
_SWEEP_S = 5.0
_HANDSHAKE_S = 10.0
# how many files the server may open other than client connections: the database, logs, webhooks, nodes
_OWN_FILES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A running server: its address, and the function that stops it."""

    url: str
    api: Api
    stop: Callable[[], None]


async def serve(settings: StoreSettings, ready: Callable[[RunningServer], None] | None = None) -> None:
    """Serve until cancelled, or until the caller calls `stop` of the RunningServer. `ready`: called with the
    RunningServer when the server listens. Raises `PhalanxError`."""
    with contextlib.ExitStack() as held:
        _make_directory(settings.data_dir)
        held.enter_context(_lock(settings.lock))
        listener = held.enter_context(_listen(settings.host, settings.port))
        port = listener.getsockname()[1]
        tls = _credentials(settings, port)
        api = await open_api(settings)
        sockets = _Sockets(api)
        running = RunningServer(url=f"https://{settings.host}:{port}", api=api, stop=sockets.stop)
        try:
            await sockets.run(listener, tls, lambda: ready and ready(running))
        finally:
            await api.shutdown()


async def open_api(settings: StoreSettings) -> Api:
    """Return the server without a socket. Its database is open, and the objects of a new cluster exist."""
    journal = Journal(settings.database, accept_loss=settings.accept_loss)
    fresh = journal.fact("furnished", 0) == 0
    store = Store(journal, settings.retention)
    registry = Registry((*emulating(settings.emulated_version), *REVIEWS, *AGGREGATED, *OF_NUMBERS, *METRICS))
    accounts = AccountTokens(settings.account_key, store)
    api = Api(store, registry, Tokens(settings.tokens, accounts.user), accounts, settings)
    try:
        await bootstrap.furnish(api.writer, registry, store)
    except ApiError as error:
        raise PhalanxError(f"the API server cannot make its first objects in {settings.data_dir}: {error}") from error
    api.definitions.start()
    api.type_checking.start()
    api.quota_usage.start()
    if fresh:
        store.forget_past()
        journal.note("furnished", 1)
    return api


class _Sockets:
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
        """Close connections that are idle, or whose client neither sends nor reads data."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = time.monotonic()
            for connection in tuple(self._open):
                connection.expire(now_s)

    async def _finish(self) -> None:
        """End the streams, give running requests some seconds to finish, and close the remaining connections."""
        self._api.hub.end_all()
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


# --- the data directory ------------------------------------------------------------------------------------------


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        # An administrator or an earlier version created the directory readable by others; it holds secrets.
        if path.stat().st_mode & 0o077:
            path.chmod(0o700)
        probe = path / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise PhalanxError(
            f"cannot write to the data directory {path}: {error.strerror or error}. The API server keeps its objects "
            "there; name another with --data DIR, or make this one writable."
        ) from error


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[IO[str]]:
    """Lock the data directory while this context is open. The kernel releases the lock when the process ends, even
    after a crash."""
    with open(path, "a+", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise PhalanxError(
                f"the data directory {path.parent} is in use by another API server (process {owner}). Two servers "
                "on one database would destroy it; stop the other one, or name another directory with --data DIR."
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file


def _listen(host: str, port: int) -> socket.socket:
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
            "(0 takes any free one), or stop whoever holds this one."
        ) from error
    return listener


def _credentials(settings: StoreSettings, port: int) -> ssl.SSLContext:
    """Create the missing certificates, tokens and kubeconfig files. Existing files are kept."""
    authority.ensure(settings.pki, settings.host)
    try:
        if not settings.tokens.exists():
            write_tokens(settings.tokens, [(ADMIN, ADMIN, (MASTERS,))])
        ensure_user(settings.tokens, CONTROL_PLANE, (MASTERS,))
        if not settings.kubelet_token.exists():
            write_private(settings.kubelet_token, secrets.token_urlsafe(32) + "\n")
        host = "127.0.0.1" if settings.host in ("0.0.0.0", "") else settings.host  # noqa: S104 (compared, not bound)
        for file, user in ((settings.kubeconfig, ADMIN), (settings.control_plane_kubeconfig, CONTROL_PLANE)):
            authority.write_kubeconfig(
                file,
                server=f"https://{host}:{port}",
                ca_certificate=settings.ca_certificate,
                user=user,
                token=token_of(settings.tokens, user),
            )
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_cert_chain(settings.pki / "server.crt", settings.pki / "server.key")
    except OSError as error:
        cure = "Make the directory readable and writable for this user"
        if isinstance(error, ssl.SSLError):
            cure = "They are damaged: restore a backup, or remove pki/ and tokens.csv, and all users log in anew"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            cure = "The disk is full: free some space there"
        raise PhalanxError(
            f"cannot make or read the credentials in {settings.data_dir}: {error}. Nothing was started. {cure}."
        ) from error
    return tls
