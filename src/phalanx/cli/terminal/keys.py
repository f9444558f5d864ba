"""Single keys of a terminal, as they are pressed. The terminal has its own settings again after every end."""

from __future__ import annotations

import asyncio
import os
import re
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

UP, DOWN, QUIT = "up", "down", "q"
_ARROWS = {b"\x1b[A": UP, b"\x1bOA": UP, b"\x1b[B": DOWN, b"\x1bOB": DOWN}
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
READ_BYTES = 1 << 16


def watch_input(loop: asyncio.AbstractEventLoop, file: int, give: Callable[[bytes], None]) -> None:
    """Call `give` with the input of a file descriptor as it arrives, and with b"" once at its end."""

    def read() -> None:
        try:
            data = os.read(file, READ_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            loop.remove_reader(file)
        give(data)

    loop.add_reader(file, read)


@contextmanager
def pressed_keys(terminal: int) -> Iterator[asyncio.Queue[str]]:
    """Yield a queue that gets each pressed key: `up`, `down`, or a character. If the terminal ends, the queue gets `q`.
    Ctrl-C remains a signal. `terminal`: the file descriptor of the terminal."""
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
    """Return the keys in the bytes from a terminal. Other function keys, and characters beyond ASCII, are left out."""
    found = [_ARROWS.get(part, part.decode("ascii", "ignore")) for part in _KEY.findall(data)]
    return [key for key in found if key in {UP, DOWN} or len(key) == 1]
