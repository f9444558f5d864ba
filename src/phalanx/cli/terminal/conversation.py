"""Connect the standard input and output of this process with a command that runs in a pod.

`phalanx shell` and `phalanx run -it` call `converse`. At a terminal, the command gets every key, including Ctrl-C, and
the size of the terminal. `phalanx top` calls `pressed_keys`, which reads single keys. Both functions restore the
settings of the terminal at the end, also after an error."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

UP, DOWN, QUIT = "up", "down", "q"
_ARROWS = {b"\x1b[A": UP, b"\x1bOA": UP, b"\x1b[B": DOWN, b"\x1bOB": DOWN}
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
READ_BYTES = 1 << 16


def watch_input(loop: asyncio.AbstractEventLoop, file: int, give: Callable[[bytes], None]) -> None:
    """Call `give` with the input of a file descriptor as it arrives, and with b"" once at its end."""

    def read() -> None:
        try:
            data = os.read(file, READ_BYTES)
        except OSError:  # the terminal was closed
            data = b""
        if not data:
            loop.remove_reader(file)
        give(data)

    loop.add_reader(file, read)


@contextmanager
def pressed_keys(terminal: int) -> Iterator[asyncio.Queue[str]]:
    """Yield a queue that gets each pressed key: `up`, `down`, or a character. If the terminal is closed, the queue gets
    `q`. Ctrl-C still sends a signal. `terminal`: the file descriptor of the terminal."""
    loop, keys = asyncio.get_running_loop(), asyncio.Queue[str]()

    def put(data: bytes) -> None:
        for key in keys_in(data) or [QUIT] * (not data):
            keys.put_nowait(key)

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        watch_input(loop, terminal, put)
        yield keys
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def keys_in(data: bytes) -> list[str]:
    """Decode bytes from a terminal to keys. Characters outside of ASCII are left out, and so are all function keys
    except up and down."""
    found = [_ARROWS.get(part, part.decode("ascii", "ignore")) for part in _KEY.findall(data)]
    return [key for key in found if key in {UP, DOWN} or len(key) == 1]


Take = Callable[[bytes], None]


class TerminalSession(Protocol):
    """A connection with a command that runs in a pod."""

    async def write(self, data: bytes) -> None:
        """Send `data` to the standard input of the command."""
        ...

    async def end(self) -> None:
        """Report the end of the input to the command."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Send the size of the terminal, in characters, to the command."""
        ...

    async def run(self, out: Take, err: Take) -> int:
        """Call `out` and `err` with the output of the command until the command ends. Return its exit code."""
        ...


def is_at_terminal() -> bool:
    """Return True if standard input and standard output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def converse(session: TerminalSession, *, at_terminal: bool, screen: bytes = b"", first: bytes = b"") -> int:
    """Pass standard input to the command, and its output to standard output, until the command ends. Return its exit
    code.

    `screen`: the output of an earlier session, which is shown first. `first`: bytes that are sent before all other
    input; their echo is not shown."""
    with _raw() if at_terminal else _plain():
        _writer(sys.stdout.fileno())(screen)
        if at_terminal:  # send the size before the first input, because programs read it at their start
            await _send_size(session)
        if first:
            await session.write(first)
        return await _pass_on(session, at_terminal, echo=b"\r\n" if first and at_terminal else b"")


async def _pass_on(session: TerminalSession, at_terminal: bool, *, echo: bytes) -> int:
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    tasks = [asyncio.create_task(_send(session, pieces))]
    if at_terminal:
        resized = asyncio.Event()
        resized.set()
        loop.add_signal_handler(signal.SIGWINCH, resized.set)
        tasks.append(asyncio.create_task(_resize(session, resized)))
    reading = _read_input(loop, pieces.put_nowait)
    try:
        return await session.run(_without(echo, _writer(sys.stdout.fileno())), _writer(sys.stderr.fileno()))
    finally:
        if reading:
            loop.remove_reader(sys.stdin.fileno())
        for task in tasks:
            task.cancel()
        if at_terminal:
            loop.remove_signal_handler(signal.SIGWINCH)


def _read_input(loop: asyncio.AbstractEventLoop, give: Take) -> bool:
    """Call `give` with standard input as it arrives. If standard input is a regular file, read it completely at once.
    Return True if the event loop watches standard input from then on."""
    file = sys.stdin.fileno()
    try:
        watch_input(loop, file, give)
    except PermissionError:  # epoll(7) cannot watch a regular file
        while data := os.read(file, READ_BYTES):
            give(data)
        give(b"")
        return False
    return True


async def _send(session: TerminalSession, pieces: asyncio.Queue[bytes]) -> None:
    while data := await pieces.get():
        await session.write(data)
    await session.end()


async def _resize(session: TerminalSession, resized: asyncio.Event) -> None:
    while True:
        await resized.wait()
        resized.clear()
        await _send_size(session)


async def _send_size(session: TerminalSession) -> None:
    size = shutil.get_terminal_size()
    await session.resize(size.columns, size.lines)


def _without(echo: bytes, write: Take) -> Take:
    """Return a function that calls `write` with the output, but without `echo` at its beginning."""
    awaited = echo

    def pass_on(data: bytes) -> None:
        nonlocal awaited
        while awaited and data[:1] == awaited[:1]:
            data, awaited = data[1:], awaited[1:]
        if data:
            awaited = b""
            write(data)

    return pass_on


def _writer(file: int) -> Take:
    def write(data: bytes) -> None:
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(file, data) :]

    return write


@contextmanager
def _raw() -> Iterator[None]:
    """While the context is open, set the terminal to pass each key to this process, including Ctrl-C."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setraw(file, termios.TCSADRAIN)  # does not discard keys that were typed before
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(file, termios.TCSADRAIN, before)


@contextmanager
def _plain() -> Iterator[None]:
    yield
