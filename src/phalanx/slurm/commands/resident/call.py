"""One call, in a fork of the service: become the caller, read its request, run the command, end.

Nothing of a request is read before the fork is a process of the caller's. So a wrong request can do no more than its
sender could do anyway.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import msgspec

from phalanx.slurm.commands.resident.caller import GO, PID, SEPARATOR
from phalanx.slurm.commands.resident.identity import CallerProcess, Declined, become

MAX_BYTES = 4 << 20  # the most bytes of a request; execve(2) accepts half of that by default
MAX_HANDLE = 4096  # the highest number of a descriptor in the service
HANDLES = 4  # standard input, output and error, and the current directory
_PATIENCE_S = 5.0  # how long to wait for the request, and for GO
_NUMBER_BYTES = 4
Run = Callable[[str], int]  # runs the command of that name with sys.argv, and returns its exit code


class CommandRequest(msgspec.Struct, frozen=True):
    """A request of the caller. `identity`: the identity of its installation. `errors`: the error handler of
    its standard output. `parent`: its parent process. `ignored` and `blocked`: numbers of signals."""

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
    """Run the call of this connection in this process, and end the process. `identity`: the identity of this
    installation. `names`: the commands that the service runs. Raises Declined, OSError; then no command has run."""
    become(peer)
    connection.settimeout(_PATIENCE_S)
    body, handles = _received(connection)
    request = _parsed(body)
    if request.identity != identity or request.name not in names:
        raise Declined("the caller is of another Phalanx, or its command is not served")
    os.fchdir(handles[3])  # raises, before anything has run, if the caller may not enter the directory
    connection.sendall(PID + os.getpid().to_bytes(_NUMBER_BYTES, "big"))
    if connection.recv(1) != GO:
        raise Declined("the caller has gone")
    _take_over(request, handles)
    _end(run, request.name)


def _received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return the request and the descriptors that came with its first byte. Raises Declined, OSError."""
    data, handles, flags, _ = socket.recv_fds(connection, 1 << 16, HANDLES)
    if len(handles) != HANDLES or flags & socket.MSG_CTRUNC:
        raise Declined(f"a request comes with {HANDLES} descriptors")
    found = bytearray(data)
    while len(found) < _NUMBER_BYTES or len(found) < _NUMBER_BYTES + int.from_bytes(found[:_NUMBER_BYTES], "big"):
        if len(found) >= _NUMBER_BYTES and int.from_bytes(found[:_NUMBER_BYTES], "big") > MAX_BYTES:
            raise Declined("the request is too long")
        if not (part := connection.recv(1 << 16)):
            raise Declined("the request is incomplete")
        found += part
    return bytes(found[_NUMBER_BYTES:]), handles


def _parsed(body: bytes) -> CommandRequest:
    """Raises Declined."""
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
    """Take the caller's descriptors, environment and signals."""
    for target, source in enumerate(handles[:3]):
        os.dup2(source, target)
    os.closerange(3, MAX_HANDLE)
    os.umask(request.umask)
    os.environ.clear()
    os.environb.update(request.environment)
    time.tzset()
    sys.argv = [request.name, *request.words]
    sys.executable = request.executable
    os.getppid = lambda: request.parent  # the commands mean the shell that called
    _take_streams(request.errors)
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, _handler(number, request.ignored))
    signal.pthread_sigmask(signal.SIG_SETMASK, request.blocked)


def _handler(number: int, ignored: tuple[int, ...]) -> signal.Handlers | Callable[..., None]:
    """Return the handler that Python sets for the signal when it starts."""
    if number in ignored:
        return signal.SIG_IGN
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL


def _take_streams(errors: str) -> None:
    """Open standard input, output and error as Python does at its start."""

    def opened(handle: int, mode: str, errors: str, *, prompt: bool) -> io.TextIOWrapper:
        raw = open(handle, mode, closefd=False)  # noqa: SIM115 - open until the process ends
        return io.TextIOWrapper(raw, "utf-8", errors, newline="\n" if mode == "wb" else None, line_buffering=prompt)

    sys.stdin = opened(0, "rb", errors, prompt=os.isatty(0))
    sys.stdout = opened(1, "wb", errors, prompt=os.isatty(1))
    sys.stderr = opened(2, "wb", "backslashreplace", prompt=True)


def _end(run: Run, name: str) -> NoReturn:
    """Run the command and end this process with its exit code; threads that it left are waited for."""
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
