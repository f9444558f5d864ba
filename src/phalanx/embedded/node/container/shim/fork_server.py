"""Start shims. Shims run the same Python as this process, load compiled modules, and have only this package on their
module path. A resident process forks one shim for each container (`supervisor.serve`).

A shim enters containers, and forks the processes of containers. A malicious image could let such a process run
/proc/self/exe, which is the machine's Python interpreter, with libraries of the image. The program could then change
the interpreter's file or its mode, if the program's user owns the file (CVE-2019-5736 of runc). To prevent that, the
shim runs a sealed copy of the interpreter in memory (memfd_create(2), F_ADD_SEALS). All shims of this process share the
copy, which exists until the last of these shims has ended.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[5]  # the folder of the package `phalanx`
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from phalanx.embedded.node.container.shim.supervisor import main; main(sys.argv[2:])"
)
_BARE = ("-I", "-S", "-c")
_NAME, _MFD_EXEC, _TRIAL_S = "phalanx-python", 0x10, 10.0
_TRIES, _PAUSE_S = 1000, 0.01  # the maximum number of attempts to request a shim, and the pause between two
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def shim_command(*words: str) -> tuple[str, ...]:
    """Return the command line of a shim, which `interpreter` runs. `words`: the arguments for `supervisor.main`."""
    return (sys.executable, *_BARE, _BOOT, str(_ROOT), *words)


def interpreter() -> str:
    """Return the path of the interpreter that runs shims: the sealed copy or, without a copy, the machine's own
    interpreter."""
    return _copied()[0]


def sealing_refusal() -> str:
    """Return the reason why there is no sealed copy and shims run the machine's own interpreter; "" if there is a
    sealed copy."""
    return _copied()[1]


async def launch(stem: str) -> None:
    """Start a shim for the container with these files. Wait until the start or its failure is recorded, and return. If
    no shim can be started, return without a record. Raises OSError."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    loop, is_told = asyncio.get_running_loop(), asyncio.Event()
    try:
        try:
            await _ask(stem, writing)
        finally:
            os.close(writing)
        # Only the shim has the other end of the pipe. It closes this end when the start or its failure is recorded.
        loop.add_reader(reading, is_told.set)
        await is_told.wait()
    finally:
        loop.remove_reader(reading)
        os.close(reading)


async def _ask(stem: str, handle: int) -> None:
    """Send the stem (the common beginning of the paths of the container's files) and the descriptor to the process that
    forks shims. Start that process if it does not run."""
    path = interpreter()
    for _ in range(_TRIES):
        forks = _forks.get(path) or _started(path)
        try:
            socket.send_fds(forks.channel, [os.fsencode(stem)], [handle])
            return
        except BlockingIOError:  # many shims start at once, and the process has not read earlier requests yet
            await asyncio.sleep(_PAUSE_S)
        except (BrokenPipeError, ConnectionResetError):  # the process that forks shims was killed
            forks.channel.close()
            forks.process.wait()
            del _forks[path]
    raise OSError(errno.EAGAIN, "the process that starts containers accepts no further requests")


@dataclass(frozen=True, slots=True)
class _Forks:
    """The process that forks shims, and the socket to it. It ends when this process ends."""

    process: subprocess.Popen[bytes]
    channel: socket.socket


_forks: dict[str, _Forks] = {}  # interpreter -> the process that forks shims with it


def _started(path: str) -> _Forks:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with its:
        process = subprocess.Popen(
            shim_command("--serve"),
            executable=path,
            stdin=its.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    _forks[path] = _Forks(process, ours)
    return _forks[path]


@cache
def _copied() -> tuple[str, str]:
    try:
        path = f"/proc/{os.getpid()}/fd/{_copy()}"
        subprocess.run((sys.executable, *_BARE, ""), executable=path, check=True, timeout=_TRIAL_S)
    except (OSError, subprocess.SubprocessError) as error:
        return sys.executable, f"{sys.executable} does not run from a sealed copy in memory: {error}"
    return path, ""


def _copy() -> int:
    """Return a file descriptor of the copy, which stays open. Raises OSError."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        copy = os.memfd_create(_NAME, flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        copy = os.memfd_create(_NAME, flags)  # Linux before 6.3 has no such flag, and can execute every memfd
    with open(sys.executable, "rb") as source:
        while os.sendfile(copy, source.fileno(), None, 1 << 24):
            pass
    os.fchmod(copy, 0o555)
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
    return copy
