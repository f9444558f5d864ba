"""Run one call in a child process of the service. The child first switches to the user and the rights of its caller.
Then the child reads the request, runs the command, and ends.

The child reads no part of a request before it has the rights of the caller. So a malicious request can do no more than
its sender can do without the service.

The child switches to the user, the groups, the resource limits and the niceness of the caller. It has no other rights.
The kernel reports the user and the groups that the caller had when it connected (SO_PEERCRED, SO_PEERGROUPS: unix(7)).
The request itself does not contain the user and the groups. The child declines a call if it cannot get exactly the
rights of the caller; the caller then runs the command itself. The child declines the calls of these callers:

- a caller with other rights than a login of its user, because it is a set-user-ID program, has fewer capabilities, or
  uses seccomp or PR_SET_NO_NEW_PRIVS;
- a caller in another namespace (a container, a pod), in which paths and addresses have other meanings;
- a caller of another user, if the service does not run as root."""

from __future__ import annotations

import array
import gc
import io
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import msgspec

from phalanx.slurm.commands.resident.caller import GO, PID, SEPARATOR

_SO_PEERGROUPS, _SO_PEERPIDFD = 59, 77  # asm-generic/socket.h; SO_PEERPIDFD exists since Linux 6.5
_MAX_GROUPS = 256  # Python's getsockopt reads at most 1,024 bytes
_NAMESPACES = ("mnt", "net", "pid", "user", "uts", "cgroup")
_RIGHTS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp")  # proc(5), status
_OVERFLOW = 65534  # the kernel reports this id for users that the user namespace does not map
_LIMITS = tuple(value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_"))
_MEMORY_BYTES = 4 << 30  # a limit, so that a call cannot use up the memory of the machine
_FIRST_TO_GO = b"1000"  # oom_score_adj (proc(5)): if memory runs out, the kernel kills calls before the service


class Declined(Exception):
    """The error if the service declines a call. The caller then runs the command itself. The text is the reason."""


class CallerProcess(msgspec.Struct, frozen=True):
    """The process at the other end of a connection. `handle`: a file descriptor that refers to the process
    (pidfd_open(2)). It never refers to a later process with the same process id."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    handle: int


def user_of(connection: socket.socket) -> int:
    """Return the user id of the process that connected. Raises OSError."""
    return _credentials(connection)[1]


def peer_of(connection: socket.socket) -> CallerProcess:
    """Return the process that connected. Raises Declined, OSError."""
    pid, uid, gid = _credentials(connection)
    found = array.array("I", connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MAX_GROUPS))
    if pid <= 0 or _OVERFLOW in (uid, gid, *found):
        raise Declined("the caller is in another user namespace")
    return CallerProcess(pid, uid, gid, tuple(found), _handle(connection, pid))


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    size = struct.calcsize("iII")
    pid, uid, gid = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid, gid


def _handle(connection: socket.socket, pid: int) -> int:
    try:
        seen = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:  # Linux before 6.5
        return os.pidfd_open(pid)
    os.set_inheritable(seen, False)
    return seen


def become(peer: CallerProcess) -> None:
    """Give this process the user, the groups and the limits of the caller. Raises Declined, OSError."""
    if os.geteuid() != 0 and os.geteuid() != peer.uid:
        raise Declined(f"user {peer.uid} is not the user of the service")
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(_FIRST_TO_GO)
    if os.geteuid() == 0:
        os.setgroups(peer.groups)
        os.setresgid(peer.gid, peer.gid, peer.gid)
        os.setresuid(peer.uid, peer.uid, peer.uid)
    _require_equal(peer)
    _take_limits(peer.pid)


def _take_limits(pid: int) -> None:
    """Set the caller's resource limits and niceness for this process. Limits stay within the hard limits of the
    service."""
    for kind in _LIMITS:
        soft, hard = resource.prlimit(pid, kind)
        most = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (_lower(soft, most), _lower(hard, most)))
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_lower(soft, _MEMORY_BYTES), hard))
    with suppress(PermissionError):  # refused if the caller has a higher priority than the service
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, pid))


def _lower(limit: int, other: int) -> int:
    if resource.RLIM_INFINITY in (limit, other):
        return other if limit == resource.RLIM_INFINITY else limit
    return min(limit, other)


def _require_equal(peer: CallerProcess) -> None:
    """Raise Declined if this process and the caller differ in their rights, their namespaces or their root
    directory."""
    for name in _NAMESPACES:
        if not os.path.samestat(os.stat(f"/proc/{peer.pid}/ns/{name}"), os.stat(f"/proc/self/ns/{name}")):
            raise Declined(f"the caller is in another namespace ({name})")
    if not os.path.samestat(os.stat(f"/proc/{peer.pid}/root"), os.stat("/")):
        raise Declined("the caller has another root directory")
    own, other = _rights("self"), _rights(str(peer.pid))
    for name in _RIGHTS:
        if own.get(name) != other.get(name):
            raise Declined(f"the caller has other rights ({name})")
    if select.select([peer.handle], [], [], 0)[0]:
        raise Declined("the caller has ended")  # its process id may belong to another process now


def _rights(process: str) -> dict[str, list[str]]:
    with open(f"/proc/{process}/status") as file:
        pairs = (line.partition(":") for line in file)
        return {name: value.split() for name, _, value in pairs if name in _RIGHTS}


MAX_BYTES = 4 << 20  # the maximum size of a request; execve(2) accepts half of that by default
MAX_HANDLE = 4096  # the highest file descriptor number in the service
HANDLES = 4  # a request has four descriptors: standard input, output and error, and the current directory
_PATIENCE_S = 5.0  # how long the child waits for the request, and then for GO
_NUMBER_BYTES = 4
Run = Callable[[str], int]  # runs the command with this name and the words of sys.argv, and returns its exit code


class CommandRequest(msgspec.Struct, frozen=True):
    """A request of the caller. `identity`: the identity of the caller's installation (`caller.identity`). `name`,
    `words`: the command and its arguments. `executable`: the path of the caller's interpreter. `errors`: the error
    handler of its standard output. `parent`: the id of its parent process. `ignored`, `blocked`: the numbers of the
    signals that it ignores and blocks."""

    identity: bytes
    name: str
    executable: str
    errors: str
    umask: int
    parent: int
    ignored: tuple[int, ...]
    blocked: tuple[int, ...]
    words: tuple[str, ...]
    environment: tuple[tuple[bytes, bytes], ...]


def carry_out(
    connection: socket.socket, peer: CallerProcess, identity: bytes, names: frozenset[str], run: Run
) -> NoReturn:
    """Run the call of this connection in this process, and end the process. `peer`: the caller. `identity`: the
    identity of this installation. `names`: the commands that the service runs. `run`: a function that runs a command.
    Raises Declined, OSError; in both cases no command was run."""
    become(peer)
    connection.settimeout(_PATIENCE_S)
    body, handles = _received(connection)
    request = _parsed(body)
    if request.identity != identity or request.name not in names:
        raise Declined("the caller belongs to another installation, or the service does not run its command")
    os.fchdir(handles[3])  # raises OSError, before the command runs, if the caller may not enter the directory
    connection.sendall(PID + os.getpid().to_bytes(_NUMBER_BYTES, "big"))
    if connection.recv(1) != GO:
        raise Declined("the caller has ended")
    _take_over(request, handles)
    _end(run, request.name)


def _received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return the request and the descriptors that came with its first byte. Raises Declined, OSError."""
    data, handles, flags, _ = socket.recv_fds(connection, 1 << 16, HANDLES)
    if len(handles) != HANDLES or flags & socket.MSG_CTRUNC:
        raise Declined(f"the request does not have {HANDLES} descriptors")
    found = bytearray(data)
    while len(found) < _NUMBER_BYTES or len(found) < _NUMBER_BYTES + int.from_bytes(found[:_NUMBER_BYTES], "big"):
        if len(found) >= _NUMBER_BYTES and int.from_bytes(found[:_NUMBER_BYTES], "big") > MAX_BYTES:
            raise Declined("the request is too long")
        if not (part := connection.recv(1 << 16)):
            raise Declined("the request is incomplete")
        found += part
    return bytes(found[_NUMBER_BYTES:]), handles


def _parsed(body: bytes) -> CommandRequest:
    """Return the request that the bytes describe. Raises Declined."""
    try:
        identity, name, executable, errors, umask, parent, ignored, blocked, count, *rest = body.split(SEPARATOR)
        words, around = rest[: int(count)], rest[int(count) :]
        pairs = [one.partition(b"=") for one in around]
        return CommandRequest(
            identity=identity,
            name=name.decode(),
            executable=os.fsdecode(executable),
            errors={b"strict": "strict", b"surrogateescape": "surrogateescape"}[errors],
            umask=int(umask) & 0o777,
            parent=int(parent),
            ignored=tuple(map(int, ignored.split())),
            blocked=tuple(map(int, blocked.split())),
            words=tuple(map(os.fsdecode, words)),
            environment=tuple((name, value) for name, _, value in pairs if name),
        )
    except (ValueError, KeyError) as error:
        raise Declined(f"the request cannot be read: {error!r}") from None


def _take_over(request: CommandRequest, handles: list[int]) -> None:
    """Set the descriptors, the umask, the environment and the signal handlers of this process to those of the
    caller."""
    for target, source in enumerate(handles[:3]):
        os.dup2(source, target)
    os.closerange(3, MAX_HANDLE)
    os.umask(request.umask)
    os.environ.clear()
    os.environb.update(request.environment)
    time.tzset()
    sys.argv = [request.name, *request.words]
    sys.executable = request.executable
    os.getppid = lambda: request.parent  # commands read the process id of the shell that started the caller
    _take_streams(request.errors)
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, _handler(number, request.ignored))
    signal.pthread_sigmask(signal.SIG_SETMASK, request.blocked)


def _handler(number: int, ignored: tuple[int, ...]) -> signal.Handlers | Callable[..., None]:
    """Return the handler that Python sets for the signal when the interpreter starts."""
    if number in ignored:
        return signal.SIG_IGN
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL


def _take_streams(errors: str) -> None:
    """Open standard input, output and error as Python does when the interpreter starts. `errors`: the error handler."""

    def opened(handle: int, mode: str, errors: str, *, prompt: bool) -> io.TextIOWrapper:
        raw = open(handle, mode, closefd=False)  # noqa: SIM115 - open until the process ends
        return io.TextIOWrapper(raw, "utf-8", errors, newline="\n" if mode == "wb" else None, line_buffering=prompt)

    sys.stdin = opened(0, "rb", errors, prompt=os.isatty(0))
    sys.stdout = opened(1, "wb", errors, prompt=os.isatty(1))
    sys.stderr = opened(2, "wb", "backslashreplace", prompt=True)


def _end(run: Run, name: str) -> NoReturn:
    """Run the command, wait for the threads that it has started, and end this process with its exit code."""
    status = 1
    gc.enable()
    try:
        status = run(name)
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # print the traceback, as the interpreter does at its end
        sys.excepthook(*sys.exc_info())
    os._exit(status)
