"""Commands beside a running container, in its environment and its mounts: probes and lifecycle hooks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress

from phalanx.embedded.node.attempt import Attempt, Running, RunSpec

_OUTPUT_BYTES = 10 * 1024  # of a probe's words that are kept


async def execute(attempt: Attempt, command: Sequence[str], timeout_s: float | None) -> tuple[int, str]:
    """Exit code and output. 124 after a timeout, as timeout(1); 126 where it cannot be run."""
    state = attempt.state()
    if not isinstance(state, Running):
        return 126, "the container does not run"
    spec = attempt.spec
    enter = _enter(spec, state.pid)
    try:
        process = await asyncio.create_subprocess_exec(
            *enter,
            *command,
            env=dict(spec.env),
            cwd=None if enter else spec.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return 126, f"{command[0]}: {error.strerror}"
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        return 124, f"command timed out after {timeout_s:g} s"
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
    return process.returncode or 0, output[:_OUTPUT_BYTES].decode(errors="replace")


def _enter(spec: RunSpec, pid: int) -> list[str]:
    """nsenter(1) into what the container has of its own."""
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
