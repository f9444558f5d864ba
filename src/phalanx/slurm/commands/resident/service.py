"""The service: a process with all commands imported, which forks for each call.

A service of root serves every user, and each call runs as its caller (`identity`). A service of another user serves
that user alone. The listening process reads nothing that a caller sends: the fork reads it after it has become the
caller. A user has a limited number of calls at a time. A caller that the service declines runs the command itself.

The main process only waits: for connections, for the ends of forks, and for callers that have gone, whose commands it
kills as their own end would have.
"""

from __future__ import annotations

import errno
import gc
import os
import resource
import select
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import msgspec

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.resident import caller
from phalanx.slurm.commands.resident.call import MAX_HANDLE, Run, carry_out, peer_of, user_of

# They start programs of the user, which belong into the caller's session and control group.
NOT_SERVED = frozenset({"srun", "salloc"})
_IMPORTED_LATER = (
    "ssl", "phalanx.slurm.submission.expected", "phalanx.slurm.control.reservations", "phalanx.slurm.jobs.ended",
    "phalanx.slurm.jobs.nodes", "phalanx.slurm.jobs.view", "phalanx.slurm.jobs.pages", "threading", "_strptime",
    "encodings.idna",
)  # fmt: skip
_CALLS_OF_A_USER, _CALLS = 64, 512  # the most calls at a time
_QUEUE = 256  # connections that wait to be taken
_FAREWELL_S = 5.0  # how long to wait for running calls when the service stops
_WAKE_MS = 60_000


class _Call(msgspec.Struct):
    connection: socket.socket
    user: int
    pid: int


class Service:
    """`names`: the commands that it runs, by `run`."""

    def __init__(self, listener: socket.socket, names: Iterable[str], run: Run) -> None:
        self._listener, self._names, self._run = listener, frozenset(names) - NOT_SERVED, run
        self._identity = caller.identity(str(caller.__file__))
        self._calls: dict[int, _Call] = {}  # descriptor of the connection -> call
        self._of_user: Counter[int] = Counter()
        self._stopping = False
        self._poll = select.poll()

    def serve(self) -> None:
        """Serve calls until SIGTERM or SIGINT."""
        wake = _waking()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self._poll.register(wake, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        while not self._stopping:
            self._turn(wake, _WAKE_MS)
        self._listener.close()
        until_s = time.monotonic() + _FAREWELL_S
        while self._calls and (left_s := until_s - time.monotonic()) > 0:
            self._turn(wake, int(1000 * left_s) + 1)
        for call in self._calls.values():
            os.kill(call.pid, signal.SIGTERM)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _turn(self, wake: int, patience_ms: int) -> None:
        for handle, _ in self._poll.poll(patience_ms):
            if handle == wake:
                with suppress(BlockingIOError):
                    os.read(wake, 4096)
                self._reap()
            elif handle in self._calls:
                self._abandon(handle)
            elif not self._stopping:
                self._take()

    def _take(self) -> None:
        """Accept a connection and fork for it. Close it if there are too many calls, of this user or of all users."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the caller has disconnected
            return
        try:
            user = user_of(connection)
            if len(self._calls) >= _CALLS or self._of_user[user] >= _CALLS_OF_A_USER:
                connection.close()
                return
            pid = os.fork()
        except OSError:  # the fork failed: the caller runs its command itself
            connection.close()
            return
        if pid == 0:
            self._child(connection)
        self._calls[connection.fileno()] = _Call(connection, user, pid)
        self._of_user[user] += 1
        self._poll.register(connection, select.POLLRDHUP)

    def _child(self, connection: socket.socket) -> NoReturn:
        """Run the call. First close the other connections, and leave the service's terminal. A declined call is not
        logged, so no user fills the disk with them."""
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            own = connection.fileno()
            os.closerange(3, own)
            os.closerange(own + 1, MAX_HANDLE)
            carry_out(connection, peer_of(connection), self._identity, self._names, self._run)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        """Tell callers of commands that have ended how they ended."""
        ended = dict(_ended())
        for handle, call in list(self._calls.items()):
            if (status := ended.get(call.pid)) is None:
                continue
            with suppress(KeyError):  # unregistered already, because the caller has gone
                self._poll.unregister(handle)
            with suppress(OSError):
                call.connection.send(caller.STATUS + status.to_bytes(4, "big"), socket.MSG_DONTWAIT)
            call.connection.close()
            del self._calls[handle]
            self._of_user[call.user] -= 1
            if not self._of_user[call.user]:
                del self._of_user[call.user]

    def _abandon(self, handle: int) -> None:
        """Kill the command whose caller has gone. The process is not reaped yet, so no other process has its
        number."""
        self._poll.unregister(handle)
        os.kill(self._calls[handle].pid, signal.SIGKILL)


def _ended() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def _waking() -> int:
    """Return a descriptor that becomes readable when a signal comes."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def serve(path: Path, modules: Iterable[str], names: Iterable[str], run: Run, ready: Callable[[], None]) -> None:
    """Serve calls at this socket until SIGTERM. `modules`: the modules of the commands. Raises PhalanxError."""
    while (handle := os.open(os.devnull, os.O_RDWR)) < 3:  # reserve the descriptors 0 to 2
        pass
    os.close(handle)
    _warm_up(modules)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = MAX_HANDLE if hard == resource.RLIM_INFINITY else min(MAX_HANDLE, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    gc.collect()
    gc.freeze()  # so the garbage collector of a fork copies no memory of the imports
    gc.disable()
    with _listening(path) as listener:
        os.environ.clear()  # each call has the environment of its caller alone
        os.chdir("/")
        ready()
        Service(listener, names, run).serve()


def _warm_up(modules: Iterable[str]) -> None:
    """Import the commands. Call libraries that do expensive work at their first use."""
    for name in (*modules, *_IMPORTED_LATER):
        import_module(name)
    from phalanx.slurm.jobs.ask import ASK, read_ask
    from phalanx.slurm.jobs.nodes import nodes
    from phalanx.slurm.jobs.view import jobs

    empty = _Empty(KubeconfigCluster(server="https://localhost"), KubeconfigUser())
    empty.endpoint()
    site.parse({})
    read_ask({ASK: "{}"})
    nodes(empty)
    jobs(empty)


class _Empty(Api):
    """An API server without objects, and without a connection: reading its answers prepares their decoders."""

    def call(self, *_: object, **__: object) -> bytes:
        return b'{"items":[]}'


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Listen at `path`. Root's socket is every user's. Raises PhalanxError."""
    path = path.absolute()
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        _replace_left_over(path)
        mask = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        if os.geteuid() == 0:
            path.chmod(0o666)
        listener.listen(_QUEUE)
    except OSError as error:
        raise PhalanxError(
            f"Slurm's commands cannot be served at {path}: {error.strerror or error}. They work without the service. "
            "Name another socket with --socket FILE."
        ) from error
    made = path.stat()
    try:
        yield listener
    finally:
        with suppress(OSError):
            if os.path.samestat(path.stat(), made):  # unless a later service has replaced it
                path.unlink()


def _replace_left_over(path: Path) -> None:
    """Remove a socket at which no process listens. Raises OSError: a process does."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, "another service listens there")
