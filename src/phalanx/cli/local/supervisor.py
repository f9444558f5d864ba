"""Start child programs again when they fail, and end all of them with this process.

If a program exits before it is ready, a second start would fail as well. So `Child.start` raises an error with the
program's last output. If a program is killed during its start (by a user, or by the kernel because memory ran out), it
is started again, up to three times. If a program ends after it was ready, it is started again after a pause. If it soon
ends again, the pause doubles, from 0.2 s up to 10 s. A crash of one program does not affect the other programs.

Each child has a session of its own. So a Ctrl-C in the terminal reaches only this process, which then stops the
children in order. If this process is killed, the kernel kills the children (PR_SET_PDEATHSIG, prctl(2)).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import Process
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from phalanx.cli.terminal.stopping import die_with
from phalanx.errors import PhalanxError

Tell = Callable[[str], None]  # a function that prints a line for the user at the terminal

_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.2, 10.0
_PAUSES_S = (0.2, 1.0, 5.0)  # pauses before a program that was killed during its start is started again
_LONG_LIFE_S = 60.0  # after a run of this length, a crash probably has a new cause, so the next pause is short again
_LOG_MOST_BYTES = 20 << 20
_LAST_WORDS_BYTES = 4096
_BIRTH = "--- started"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedProgram:
    """A program that must always run. It writes exactly one line to standard output, when it is ready. Its standard
    error is written to the file `log`. `ready_s`, `stop_s`: the maximum times in seconds until it is ready after its
    start, and until it has ended after SIGTERM."""

    name: str
    argv: tuple[str, ...]
    log: Path
    ready_s: float = 120.0
    stop_s: float = 20.0


class Child:
    """A child process that runs a program and is started again when it ends."""

    def __init__(self, program: SupervisedProgram, tell: Tell) -> None:
        self.program = program
        self.pid: int | None = None
        self.said = ""  # the line that the program wrote when it was ready
        self._tell = tell
        self._process: Process | None = None
        self._is_late = False  # True if the last process was stopped because it was not ready in time

    async def start(self) -> None:
        """Start the program and wait until it is ready. Raises PhalanxError with the program's last output if it ends
        before that."""
        for pause_s in _PAUSES_S:
            if not (ending := await self._launch()):
                return
            if self._process is None or self._is_late or (self._process.returncode or 0) >= 0:
                break
            self._tell(f"the {self.program.name} {ending} before it was ready; starting it again in {pause_s:g} s")
            await asyncio.sleep(pause_s)
        else:
            ending = await self._launch()
        if ending:
            raise PhalanxError(
                f"the {self.program.name} {ending}, so nothing runs. Its last output:\n"
                f"{_last_words(self.program.log)}\nIts whole output is in {self.program.log}."
            )

    async def keep(self) -> None:
        """Start the program again whenever it ends, until cancelled."""
        pause_s = _PAUSE_FIRST_S
        while self._process is not None:
            born_s = time.monotonic()
            ending = _ending(await self._process.wait())
            if time.monotonic() - born_s > _LONG_LIFE_S:
                pause_s = _PAUSE_FIRST_S
            self._tell(
                f"the {self.program.name} {ending}; starting it again in {pause_s:g} s (log: {self.program.log})"
            )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_MOST_S)
            if not await self._launch():
                self._tell(f"the {self.program.name} is back")

    async def stop(self) -> None:
        """End the program with SIGTERM; if it does not end within `stop_s`, with SIGKILL."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self.program.stop_s):
                await process.wait()
        except TimeoutError:
            self._tell(f"the {self.program.name} did not stop within {self.program.stop_s:g} s and was killed")
            process.kill()
            await process.wait()

    async def _launch(self) -> str:
        """Start the program and wait until it is ready. Return "" if it is ready, or a text that describes how it ended
        or failed."""
        try:
            process = self._process = await _spawn(self.program)
        except OSError as error:
            return f"cannot be started ({error.strerror}: {error.filename or self.program.log})"
        self.pid, self._is_late = process.pid, False
        ready = asyncio.ensure_future(_said_ready(process))
        ended = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({ready, ended}, timeout=self.program.ready_s, return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and process.returncode is None:
                self.said = ready.result()
                return ""
            if process.returncode is not None:
                return _ending(process.returncode)
            await self.stop()
            self._process, self._is_late = process, True
            return f"was not ready after {self.program.ready_s:g} s"
        finally:
            ready.cancel()
            ended.cancel()


async def _spawn(program: SupervisedProgram) -> Process:
    _turn(program.log)
    parent = os.getpid()
    with program.log.open("ab", buffering=0) as log:
        os.chmod(program.log, 0o600)
        log.write(f"{_BIRTH} {time.strftime('%Y-%m-%dT%H:%M:%S%z')} {program.name}\n".encode())
        return await asyncio.create_subprocess_exec(
            *program.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: die_with(parent),
        )


async def _said_ready(process: Process) -> str:
    """Return the line that the program writes when it is ready. If the program closes its output without a line, never
    return."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        await asyncio.Event().wait()
    return line.decode(errors="replace").strip()


def _turn(log: Path) -> None:
    """If the log is too large, rename it, so that it replaces the old log. So a crash loop cannot fill the disk."""
    if log.exists() and log.stat().st_size > _LOG_MOST_BYTES:
        log.replace(log.with_suffix(".old.log"))


def _ending(returncode: int) -> str:
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    return f"was killed by {signal.Signals(-returncode).name}"


def _last_words(log: Path) -> str:
    """Return the end of the program's output since its start: the error message and the lines after it, or the last
    lines if there is no error message."""
    if not log.exists():
        return "  (none)"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_WORDS_BYTES))
        lines = file.read().decode(errors="replace").rstrip().splitlines()
    births = [number for number, line in enumerate(lines) if line.startswith(_BIRTH)]
    lines = lines[births[-1] + 1 if births else 0 :]
    errors = [number for number, line in enumerate(lines) if line.startswith("phalanx")]
    return "\n".join(f"  {line}" for line in (lines[errors[-1] :] if errors else lines[-12:])) or "  (none)"
