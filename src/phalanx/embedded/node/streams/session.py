"""Run a command in the environment, mounts and control groups of a running container, with pipes or a terminal.

The process is created in the same way as for probes (`container.exec`). It is not created by asyncio, for the reasons
in that module. When the client disconnects, the agent ends the process and its process group.

`Feed` sends input to a running container. It writes to the named pipe that the container's supervisor reads
(`container.shim.streams`)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from phalanx.embedded.node.container.attempt import RunSpec
from phalanx.embedded.node.container.exec import entering
from phalanx.embedded.node.container.shim.streams import DATA, END, FRAME_MOST, RESIZE

_PIECE_BYTES = 64 * 1024
_END_OF_TRANSMISSION = b"\x04"
_LET_GO_S = 1.0


class Session:
    """A running command. The caller must call `close` in all cases."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: int, stdout: int, stderr: int, *, tty: bool) -> None:
        self._process, self._tty = process, tty
        self._stdin, self.stdout, self.stderr = stdin, stdout, stderr  # a stream that does not exist has -1

    @classmethod
    def start(cls, spec: RunSpec, pid: int, command: Sequence[str], *, tty: bool, stdin: bool) -> Session:
        """Run `command` in the container whose process is `pid`. Raises OSError."""
        env = dict(spec.env) | ({"TERM": "xterm"} if tty else {})
        own, its = _terminal() if tty else _pipes(stdin)
        try:
            with entering(spec, pid, [*_as_its_user(spec), *command], env) as entrance:
                process = subprocess.Popen(
                    entrance.argv,
                    executable=entrance.executable,
                    env=dict(entrance.env),
                    cwd=entrance.cwd,
                    pass_fds=entrance.handles,
                    stdin=its[0],
                    stdout=its[1],
                    stderr=its[2],
                    start_new_session=True,
                    preexec_fn=_joining(spec, tty),  # noqa: PLW1509 - the agent forks from one thread
                )
        except OSError:
            for one in {*own} - {-1}:
                os.close(one)
            raise
        finally:
            for one in {*its} - {subprocess.DEVNULL}:
                os.close(one)
        for one in {*own} - {-1}:
            os.set_blocking(one, False)
        return cls(process, *own, tty=tty)

    async def write(self, data: bytes) -> None:
        """Write to the command's input. If the command has closed its input, the data is dropped."""
        with suppress(BrokenPipeError, OSError):
            while data and self._stdin >= 0:
                try:
                    data = data[os.write(self._stdin, data) :]
                except BlockingIOError:
                    await writable(self._stdin)

    async def end_input(self) -> None:
        """End the input."""
        if self._tty:
            await self.write(_END_OF_TRANSMISSION)
        elif self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal, in characters."""
        if self._tty and 0 < width < 2**16 and 0 < height < 2**16:
            with suppress(OSError):
                fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def ended(self) -> int:
        """Wait for the end of the command, and return its exit code. If a signal ended the command, this is 128 plus
        the number of the signal."""
        handle = os.pidfd_open(self._process.pid)
        loop = asyncio.get_running_loop()
        try:
            await _ready(loop.add_reader, loop.remove_reader, handle)
        finally:
            os.close(handle)
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def close(self) -> None:
        """End the command with its process group, if it still runs."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LET_GO_S)
        for one in {self._stdin, self.stdout, self.stderr} - {-1}:
            os.close(one)
        self._stdin = self.stdout = self.stderr = -1


async def pieces(source: int) -> AsyncIterator[bytes]:
    """Yield the data of a non-blocking file descriptor until its end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = os.read(source, _PIECE_BYTES)
        except BlockingIOError:
            await _ready(loop.add_reader, loop.remove_reader, source)
            continue
        except OSError:  # no process has the other side of the terminal open any more
            return
        if not data:
            return
        yield data


async def writable(descriptor: int) -> None:
    """Wait until data can be written to the file descriptor."""
    loop = asyncio.get_running_loop()
    await _ready(loop.add_writer, loop.remove_writer, descriptor)


async def _ready(add: Callable[..., object], remove: Callable[[int], object], descriptor: int) -> None:
    event = asyncio.Event()
    add(descriptor, event.set)
    try:
        await event.wait()
    finally:
        remove(descriptor)


Three = tuple[int, int, int]


def _terminal() -> tuple[Three, Three]:
    """Open a terminal. Return two triples of file descriptors for input, output and errors: the ends of this process,
    and the ends of the command. The first triple has -1 for errors, because a terminal has no separate error output."""
    ours, its = pty.openpty()
    return (ours, ours, -1), (its, its, its)


def _pipes(stdin: bool) -> tuple[Three, Three]:
    output, errors = os.pipe(), os.pipe()
    if not stdin:
        return (-1, output[0], errors[0]), (subprocess.DEVNULL, output[1], errors[1])
    given = os.pipe()
    return (given[1], output[0], errors[0]), (given[0], output[1], errors[1])


def _as_its_user(spec: RunSpec) -> list[str]:
    """Return the call of setpriv(1) to put before the command, so that the command runs as the container's user; [] if
    the process already becomes this user when it enters the container."""
    if spec.user is None or spec.user_namespace or spec.root is not None or spec.confined:
        return []
    group = spec.user if spec.group is None else spec.group
    return ["setpriv", f"--reuid={spec.user}", f"--regid={group}", "--clear-groups", "--"]


def _joining(spec: RunSpec, tty: bool) -> Callable[[], None]:
    """Return the function that the new process runs first. It joins the container's control groups, and takes its
    terminal."""
    paths = tuple(spec.cgroup_procs)

    def join() -> None:
        for path in paths:
            with suppress(OSError), open(path, "w") as file:
                file.write("0")
        if tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    return join


class Feed:
    """Sends input to a container. Input that the container does not read any more is dropped. The caller must call
    `close` in all cases."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = -1
        with suppress(OSError):  # the container's supervisor has ended
            self._pipe = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    async def data(self, data: bytes) -> None:
        """Send input to the container."""
        for at in range(0, len(data), FRAME_MOST):
            await self._send(DATA, data[at : at + FRAME_MOST])

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal, in characters."""
        if 0 < width < 2**16 and 0 < height < 2**16:
            await self._send(RESIZE, struct.pack("HHHH", height, width, 0, 0))

    async def end(self) -> None:
        """End the input."""
        await self._send(END, b"")

    def close(self) -> None:
        """Close the pipe."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    async def _send(self, sort: int, content: bytes) -> None:
        frame = bytes((sort,)) + len(content).to_bytes(2, "little") + content
        while self._pipe >= 0:
            try:
                os.write(self._pipe, frame)  # the kernel writes the whole frame or nothing (pipe(7), PIPE_BUF)
                return
            except BlockingIOError:
                await writable(self._pipe)
            except OSError:  # the container's supervisor has ended
                self.close()
