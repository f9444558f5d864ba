"""Start the server on a data directory, and stop it.

`serve` creates or checks the files of the data directory, locks the directory, opens the database, and listens until it
is cancelled or stopped. A problem with the directory, the port or the database raises a `PhalanxError`, which names a
remedy, before the server accepts the first request.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.app.api import Api
from phalanx.embedded.apiserver.auth.account_tokens import AccountTokens
from phalanx.embedded.apiserver.auth.authentication import Tokens
from phalanx.embedded.apiserver.auth.credentials import create_credentials
from phalanx.embedded.apiserver.auth.reviews import REVIEWS
from phalanx.embedded.apiserver.endpoints.reconcilers import bootstrap
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import AGGREGATED, OF_NUMBERS
from phalanx.embedded.apiserver.registry.builtin import emulating
from phalanx.embedded.apiserver.registry.metrics import METRICS
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.sockets import Sockets, listen
from phalanx.embedded.apiserver.storage.journal import Journal
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Store
from phalanx.errors import PhalanxError


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
        listener = held.enter_context(listen(settings.host, settings.port))
        port = listener.getsockname()[1]
        tls = create_credentials(settings, port)
        api = await open_api(settings)
        sockets = Sockets(api)
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
        await bootstrap.furnish(api.engine.writer, registry, store)
    except StatusError as error:
        raise PhalanxError(f"the API server cannot make its first objects in {settings.data_dir}: {error}") from error
    api.engine.start()
    if fresh:
        store.forget_past()
        journal.note("furnished", 1)
    return api


# --- the data directory ------------------------------------------------------------------------------------------


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The directory holds secrets, but other users may read it, if an administrator or an earlier version created
        # it.
        if path.stat().st_mode & 0o077:
            path.chmod(0o700)
        probe = path / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise PhalanxError(
            f"cannot write to the data directory {path}: {error.strerror or error}. The API server keeps its objects "
            "there; name another directory with --data DIR, or make this one writable."
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
