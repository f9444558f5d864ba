"""Commands beside a running container, in its environment and its mounts: probes and lifecycle hooks.

Whoever waits for one may be cancelled at any moment, and is then done at once. asyncio's own subprocesses cannot
promise that (CPython 3.11): where all tasks are cancelled while one is being made, it waits for ever for pipes that
nobody connects any more; and its `wait_for` forgets a cancellation that comes as the process ends, so that a probe
would go on after its container. So the process is made here, and its end is read from a handle on it (pidfd_open(2)).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from phalanx.embedded.node.container.attempt import Attempt, Running, RunSpec
from phalanx.embedded.node.container.shim.starting import interpreter, shim_command

_OUTPUT_BYTES = 10 * 1024  # of a probe's words that are kept
_AS_WHOM = ("user", "group", "groups", "confined", "user_namespace", "capabilities", "no_new_rights")
_ENTERED = (*_AS_WHOM, "cwd", "oom_score")
_LET_GO_S = 1.0  # what was killed is gone in a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """How a process is made that becomes a command beside a container. `executable`: what is run, if not the first of
    `argv`; `handles`: open files that it needs."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    executable: str | None = None
    handles: tuple[int, ...] = ()


async def execute(attempt: Attempt, command: Sequence[str], timeout_s: float | None) -> tuple[int, str]:
    """Exit code and output. 124 after a timeout, as timeout(1); 126 where it cannot be run."""
    state = attempt.state()
    if not isinstance(state, Running):
        return 126, "the container does not run"
    try:
        process = _spawn(attempt.spec, state.pid, command)
    except OSError as error:
        return 126, f"{command[0]}: {error.strerror}"
    words = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            await _ended(process, words)
    except TimeoutError:
        return 124, f"command timed out after {timeout_s:g} s"
    finally:
        _end(process)
    return process.returncode, words.decode(errors="replace")


def _spawn(spec: RunSpec, pid: int, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Raises OSError."""
    with entering(spec, pid, command, spec.env) as entrance:
        return subprocess.Popen(
            entrance.argv,
            executable=entrance.executable,
            env=dict(entrance.env),
            cwd=entrance.cwd,
            pass_fds=entrance.handles,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


async def _ended(process: subprocess.Popen[bytes], words: bytearray) -> None:
    """Returns when it has ended; `words` gets the beginning of what it wrote. What it left behind is not waited for,
    though it may still hold its output."""
    assert process.stdout is not None
    loop, gone, output = asyncio.get_running_loop(), asyncio.Event(), process.stdout.fileno()
    handle = os.pidfd_open(process.pid)
    os.set_blocking(output, False)

    def take() -> None:
        if _take(output, words) == b"":
            loop.remove_reader(output)

    loop.add_reader(handle, gone.set)
    loop.add_reader(output, take)
    try:
        await gone.wait()
        while len(words) < _OUTPUT_BYTES and _take(output, words):
            pass
    finally:
        loop.remove_reader(output)
        loop.remove_reader(handle)
        os.close(handle)


def _take(output: int, words: bytearray) -> bytes | None:
    """Return what is there, of which the beginning is kept; empty at the end, None if there is nothing yet."""
    try:
        chunk = os.read(output, 65536)
    except BlockingIOError:
        return None
    words += chunk[: max(0, _OUTPUT_BYTES - len(words))]
    return chunk


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all of its group, if it is still there; and it is no zombie, unless the kernel cannot let go of it."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LET_GO_S)
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def entering(spec: RunSpec, pid: int, command: Sequence[str], env: Mapping[str, str]) -> Iterator[Entrance]:
    """Into what the container has of its own: by nsenter(1), or by our own program where the container is another
    user's or has a root of its own.

    That program is ours, with our rights, until it is inside. So the pod's environment, of which the dynamic linker
    reads some variables, reaches it as text, in a file that has no name, and becomes one when the command is run."""
    if spec.root is None and not spec.confined:
        nsenter = _nsenter(spec, pid)
        yield Entrance(argv=(*nsenter, *command), env=env, cwd=None if nsenter else spec.cwd)
        return
    words = {field: getattr(spec, field) for field in _ENTERED}
    root = None if spec.root is None else asdict(spec.root)
    handle = os.memfd_create("entrance")
    try:
        text = json.dumps({**words, "root": root, "env": dict(env), "argv": list(command), "pid": pid})
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(text.encode())
        os.lseek(handle, 0, os.SEEK_SET)
        argv = shim_command("--enter", str(handle))
        yield Entrance(argv=argv, env={}, cwd="/", executable=interpreter(), handles=(handle,))
    finally:
        os.close(handle)


def _nsenter(spec: RunSpec, pid: int) -> list[str]:
    if not spec.mounts and not spec.host_name:
        return []
    own = ["--user", "--preserve-credentials"] if spec.user_namespace else []
    own += ["--mount"] if spec.mounts else []
    own += ["--uts"] if spec.host_name else []
    return ["nsenter", f"--target={pid}", *own, f"--wd={spec.cwd}", "--"]


async def run_hook(attempt: Attempt, command: Sequence[str], timeout_s: float | None) -> str:
    """Empty if it went well, else what went wrong."""
    code, output = await execute(attempt, command, timeout_s)
    return "" if code == 0 else f"exit code {code}: {output.strip()}"
