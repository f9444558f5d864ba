"""Runs of a container: real processes, and their recorded state after any crash."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from phalanx.embedded.node.container.attempt import (
    NEVER_STARTED,
    Attempt,
    Exited,
    Planned,
    RunningAttempt,
    RunSpec,
    attempts,
)

pytestmark = pytest.mark.slow  # real processes

PYTHON = sys.executable


def spec(*argv: str, **more: object) -> RunSpec:
    return RunSpec(argv=argv, env={"PATH": os.environ["PATH"]}, **more)  # type: ignore[arg-type]  # as RunSpec has them


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path / "main", 0)


async def finish(attempt: Attempt) -> Exited:
    async with asyncio.timeout(240):
        await attempt.ended()
    state = attempt.settle()
    assert isinstance(state, Exited)
    return state


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def test_the_exit_code_and_the_words_are_kept(attempt: Attempt) -> None:
    async def run() -> Exited:
        await attempt.start(spec("sh", "-c", "echo one; echo two >&2; printf three; exit 3"))
        return await finish(attempt)

    state = asyncio.run(run())
    assert (state.exit_code, state.signal, state.reason) == (3, 0, "")
    assert state.finished_s >= state.started_s
    said = sorted(line.split(" ", 3)[1:] for line in attempt.log.read_text().splitlines())
    assert said == [["stderr", "F", "two"], ["stdout", "F", "one"], ["stdout", "F", "three"]]


def test_a_program_that_does_not_exist_says_so(attempt: Attempt) -> None:
    async def run() -> Exited:
        await attempt.start(spec("no-such-program"))
        return await finish(attempt)

    state = asyncio.run(run())
    assert (state.exit_code, state.reason) == (128, "StartError")
    assert state.message == 'exec: "no-such-program": executable file not found in $PATH'


def test_a_new_agent_finds_what_runs(attempt: Attempt) -> None:
    """The loop that started it is gone; only the files are left."""
    asyncio.run(attempt.start(spec("sleep", "1000")))
    (found,) = attempts(attempt.folder)
    assert isinstance(found.settle(), RunningAttempt)

    async def end() -> Exited:
        found.kill()
        return await finish(found)

    assert asyncio.run(end()).exit_code == 137


def test_nothing_is_started_twice(attempt: Attempt) -> None:
    async def run() -> str:
        for _ in range(3):
            await attempt.start(spec("sh", "-c", "echo started; sleep 1000"))
        attempt.kill()
        await finish(attempt)
        await attempt.start(spec("sh", "-c", "echo started"))
        return attempt.log.read_text()

    assert asyncio.run(run()).count("started") == 1


def test_a_plan_that_was_never_carried_out_is_settled_for_good(attempt: Attempt) -> None:
    """The agent was killed between writing the plan and starting the shim; a shim that comes late starts nothing."""
    attempt.folder.mkdir()
    attempt.path("spec.json").write_bytes(b"{}")
    assert attempt.state() == Planned()
    assert isinstance(state := attempt.settle(), Exited)
    assert (state.exit_code, state.reason) == (128, NEVER_STARTED)
    asyncio.run(attempt.start(spec("sh", "-c", "echo started")))
    assert not attempt.log.exists()


def test_a_long_line_is_cut_into_parts(attempt: Attempt) -> None:
    async def run() -> None:
        await attempt.start(spec(PYTHON, "-c", "print('x' * 40000)"))
        await finish(attempt)

    asyncio.run(run())
    tags = [line.split(" ", 3)[2] for line in attempt.log.read_text().splitlines()]
    assert tags == ["P", "P", "F"]
