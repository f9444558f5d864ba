"""The service process. It imports all commands once, and forks a child process for each call.

A service that runs as root serves all users, and each call runs with the rights of its caller (`call`). A service of
another user serves only this user. The main process reads no data that a caller sends; the child process reads this
data after it has switched to the rights of the caller. The number of concurrent calls of each user is limited. If the
service declines a call, the caller runs the command itself.

The main process waits for connections and for the ends of child processes. If a caller ends before its command, the
main process kills the command.
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
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.resident import caller
from phalanx.slurm.commands.resident.call import MAX_HANDLE, Run, carry_out, peer_of, user_of

# The service does not run these commands. These commands start programs of the user, and such programs must be in the
# session and the cgroup of the caller.
NOT_SERVED = frozenset({"srun", "salloc"})
_IMPORTED_LATER = (
    "ssl", "phalanx.slurm.submission.expected", "phalanx.slurm.control.reservations", "phalanx.slurm.jobs.ended",
    "phalanx.slurm.jobs.nodes", "phalanx.slurm.jobs.view", "phalanx.slurm.jobs.pages", "threading", "_strptime",
    "encodings.idna",
)  # fmt: skip
_CALLS_OF_A_USER, _CALLS = 64, 512  # maximum numbers of concurrent calls: of one user, and of all
_QUEUE = 256  # the maximum number of connections that wait until the service accepts them (listen(2))
_FAREWELL_S = 5.0  # how long the service waits for running calls before it exits
_WAKE_MS = 60_000


class _Call(msgspec.Struct):
    connection: socket.socket
    user: int
    pid: int


class Service:
    """The service. `listener`: its socket. `names`: the names of the commands. `run`: a function that runs a
    command."""

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
        self._poll.unregister(self._listener)  # otherwise `poll` would return at once, because the socket is closed
        self._listener.close()
        until_s = time.monotonic() + _FAREWELL_S
        while self._calls and (left_s := until_s - time.monotonic()) > 0:
            self._turn(wake, int(1000 * left_s) + 1)
        for call in self._calls.values():
            os.kill(call.pid, signal.SIGTERM)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _turn(self, wake: int, patience_ms: int) -> None:
        """Wait for events, and handle them. New connections are accepted last: a new connection may reuse the file
        descriptor of a connection that was just closed, and the list of events may still contain an event of the closed
        connection."""
        events = {handle for handle, _ in self._poll.poll(patience_ms)}
        if wake in events:
            with suppress(BlockingIOError):
                os.read(wake, 4096)
            self._reap()
        for handle in events & self._calls.keys():
            self._abandon(handle)
        if self._listener.fileno() in events and not self._stopping:
            self._take()

    def _take(self) -> None:
        """Accept a connection and fork a child process for it. Close the connection if this user, or all users
        together, have too many calls."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the caller has disconnected already
            return
        try:
            user = user_of(connection)
            if len(self._calls) >= _CALLS or self._of_user[user] >= _CALLS_OF_A_USER:
                connection.close()
                return
            pid = os.fork()
        except OSError:  # the fork failed; the caller runs its command itself
            connection.close()
            return
        if pid == 0:
            self._child(connection)
        self._calls[connection.fileno()] = _Call(connection, user, pid)
        self._of_user[user] += 1
        self._poll.register(connection, select.POLLRDHUP)

    def _child(self, connection: socket.socket) -> NoReturn:
        """Run the call in this child process. First leave the session of the service, and close the connections of
        other calls. A declined call is not logged, because users could fill the disk with log lines."""
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
        """For each command that has ended, send the exit status to the caller and remove the call."""
        ended = dict(_ended())
        for handle, call in list(self._calls.items()):
            if (status := ended.get(call.pid)) is None:
                continue
            with suppress(KeyError):  # the caller has ended, so `_abandon` has unregistered the connection
                self._poll.unregister(handle)
            with suppress(OSError):
                call.connection.send(caller.STATUS + status.to_bytes(4, "big"), socket.MSG_DONTWAIT)
            call.connection.close()
            del self._calls[handle]
            self._of_user[call.user] -= 1
            if not self._of_user[call.user]:
                del self._of_user[call.user]

    def _abandon(self, handle: int) -> None:
        """Kill the command whose caller has ended. The process id is still valid, because the process has not been
        reaped."""
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
    """Return a file descriptor that becomes readable when a signal arrives."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def serve(path: Path, modules: Iterable[str], names: Iterable[str], run: Run, ready: Callable[[], None]) -> None:
    """Serve calls at the socket `path` until SIGTERM. `modules`, `names`: the modules and the names of the commands.
    `ready`: a function that is called when the socket exists. Raises PhalanxError."""
    while (handle := os.open(os.devnull, os.O_RDWR)) < 3:  # reserve the descriptors 0 to 2
        pass
    os.close(handle)
    _warm_up(modules)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = MAX_HANDLE if hard == resource.RLIM_INFINITY else min(MAX_HANDLE, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    gc.collect()
    gc.freeze()  # so that the garbage collector of a child does not copy the memory of the imported modules
    gc.disable()
    with _listening(path) as listener:
        os.environ.clear()  # a call must see only the environment of its caller
        os.chdir("/")
        ready()
        Service(listener, names, run).serve()


def _warm_up(modules: Iterable[str]) -> None:
    """Import the commands, and call those functions whose first call is slow."""
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


class _Empty(ApiClient):
    """A client whose API server has no objects; it opens no connection. The service parses its responses once, so that
    the JSON decoders exist before the first call."""

    def call(self, *_: object, **__: object) -> bytes:
        return b'{"items":[]}'


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Listen at the socket `path` inside the `with` block. If the service runs as root, all users may connect;
    otherwise only the user of the service may. Raises PhalanxError."""
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
            f"the service cannot listen at {path}: {error.strerror or error}. Slurm's commands also work without it. "
            "Name another socket with --socket FILE."
        ) from error
    made = path.stat()
    try:
        yield listener
    finally:
        with suppress(OSError):
            if os.path.samestat(path.stat(), made):  # False if a later service has replaced the socket
                path.unlink()


def _replace_left_over(path: Path) -> None:
    """Remove the socket `path` if no process listens at it. Raises OSError if a process listens."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, "another service listens at it")
