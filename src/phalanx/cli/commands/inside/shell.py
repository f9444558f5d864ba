"""`phalanx shell JOB`: a shell, or a command, in a pod of a job that runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.streaming import Exec, Session
from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.commands.inside.place import container_of, running_pod

_SHELL = ("sh", "-c", 'exec "$(command -v bash || echo sh)"')
_READ_BYTES = 1 << 16


async def shell(
    job: str,
    /,
    *command: str,
    container: Annotated[str, Parameter(alias="-c")] = "",
    space: Namespace | None = None,
    target: Target | None = None,
) -> int:
    """Open a shell in a pod of a job that runs, or run a command there. The exit code is the command's.

    With a terminal the shell is interactive; without one, standard input is passed on.

    For example:

        phalanx shell train
        phalanx shell train/3
        phalanx shell train -- nvidia-smi
        echo 'ls /tmp' | phalanx shell train -- sh

    Parameters
    ----------
    job
        The job: NAME, NAMESPACE/NAME or KIND/NAME; JOB/INDEX or JOB/ROLE for one of its pods. [default: its first pod]
    command
        The command, after two dashes. [default: bash where there is one, else sh]
    container
        The container. [default: the first]
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not command
    async with connected(target) as connection:
        pod = await running_pod(connection, job, (space or Namespace()).namespace, target)
        words = command or _SHELL
        name = container_of(pod, container)
        async with Exec(connection, pod, name, words, tty=terminal, stdin=True) as session:
            with _raw() if terminal else _plain():
                return await _converse(session, terminal)


async def _converse(session: Session, terminal: bool) -> int:
    """Pass on input and output until the command ends."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    tasks = [asyncio.create_task(_send(session, pieces))]
    if terminal:
        resized = asyncio.Event()
        resized.set()
        loop.add_signal_handler(signal.SIGWINCH, resized.set)
        tasks.append(asyncio.create_task(_resize(session, resized)))
    reading = _read_input(loop, pieces.put_nowait)
    try:
        return await session.run(_writer(sys.stdout.fileno()), _writer(sys.stderr.fileno()))
    finally:
        if reading:
            loop.remove_reader(sys.stdin.fileno())
        for task in tasks:
            task.cancel()
        if terminal:
            loop.remove_signal_handler(signal.SIGWINCH)


def _read_input(loop: asyncio.AbstractEventLoop, give: Callable[[bytes], None]) -> bool:
    """Read standard input as it comes; a file is read at once. Return True if it is watched."""
    file = sys.stdin.fileno()

    def read() -> None:
        data = os.read(file, _READ_BYTES)
        if data:
            give(data)
        else:
            loop.remove_reader(file)
            give(b"")

    try:
        loop.add_reader(file, read)
    except PermissionError:  # epoll(7) watches no regular file
        while data := os.read(file, _READ_BYTES):
            give(data)
        give(b"")
        return False
    return True


async def _send(session: Session, pieces: asyncio.Queue[bytes]) -> None:
    while data := await pieces.get():
        await session.write(data)
    await session.end()


async def _resize(session: Session, resized: asyncio.Event) -> None:
    while True:
        await resized.wait()
        resized.clear()
        size = shutil.get_terminal_size()
        await session.resize(size.columns, size.lines)


def _writer(file: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(file, data) :]

    return write


@contextmanager
def _raw() -> Iterator[None]:
    """Inside, the terminal passes on each key, and Ctrl-C too."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setraw(file, termios.TCSADRAIN)  # what was typed meanwhile is not lost
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


@contextmanager
def _plain() -> Iterator[None]:
    yield
