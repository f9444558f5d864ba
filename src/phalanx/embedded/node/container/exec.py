"""Run commands in the environment and the mounts of a running container: probes and lifecycle hooks.

A task that waits for a command can be cancelled at any moment, and must then end at once. asyncio's subprocesses do not
guarantee that (CPython 3.11). If all tasks are cancelled during the creation of a subprocess, asyncio waits without end
for the pipes of the subprocess. asyncio's `wait_for` loses a cancellation that arrives when the process ends, so a
probe would outlive its container. So this module creates the process itself, and waits for its end through a handle
(pidfd_open(2)).
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

from phalanx.embedded.node.container.attempt import Attempt, RunningAttempt, RunSpec
from phalanx.embedded.node.container.shim.fork_server import interpreter, shim_command

_OUTPUT_BYTES = 10 * 1024  # the maximum number of bytes of a probe's output that are kept
_AS_WHOM = ("user", "group", "groups", "confined", "user_namespace", "capabilities", "no_new_rights")
_ENTERED = (*_AS_WHOM, "cwd", "oom_score")
_LET_GO_S = 1.0  # the maximum wait for the end of a killed process


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEntrance:
    """The arguments for creating a process that enters a container and runs a command in it. `executable`: the program,
    if it is not the first word of `argv`. `handles`: the descriptors of open files that the process needs."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    executable: str | None = None
    handles: tuple[int, ...] = ()


async def execute(attempt: Attempt, command: Sequence[str], timeout_s: float | None) -> tuple[int, str]:
    """Run a command in the container, and return its exit code and output. The code is 124 after a timeout, as with
    timeout(1), and 126 if the command cannot be run."""
    state = attempt.state()
    if not isinstance(state, RunningAttempt):
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
    """Create the process that runs the command in the container. Raises OSError."""
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
    """Wait until the process has ended, and add the beginning of its output to `words`. Child processes may still have
    the output open; do not wait for them."""
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
    """Read the available output, and add its beginning to `words`. Return the bytes that were read: b"" at the end of
    the output, None if no output is available."""
    try:
        chunk = os.read(output, 65536)
    except BlockingIOError:
        return None
    words += chunk[: max(0, _OUTPUT_BYTES - len(words))]
    return chunk


def _end(process: subprocess.Popen[bytes]) -> None:
    """If the process still runs, kill its process group. Reap the process; give up if it does not end, because it may
    be stuck in the kernel."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LET_GO_S)
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def entering(spec: RunSpec, pid: int, command: Sequence[str], env: Mapping[str, str]) -> Iterator[ContainerEntrance]:
    """Enter the container's namespaces by nsenter(1), or by Phalanx's own program if the container belongs to another
    user or has its own root.

    Phalanx's program has the agent's rights until it is in the namespaces. Some variables in the pod's environment
    could change the behaviour of the dynamic linker of Phalanx's program. So the program reads the environment from an
    unnamed file, and sets the variables only for the command."""
    if spec.root is None and not spec.confined:
        nsenter = _nsenter(spec, pid)
        yield ContainerEntrance(argv=(*nsenter, *command), env=env, cwd=None if nsenter else spec.cwd)
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
        yield ContainerEntrance(argv=argv, env={}, cwd="/", executable=interpreter(), handles=(handle,))
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
    """Run the command of a lifecycle hook. Return "" after success, otherwise the error."""
    code, output = await execute(attempt, command, timeout_s)
    return "" if code == 0 else f"exit code {code}: {output.strip()}"
