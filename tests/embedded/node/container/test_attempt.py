"""Runs of a container: real processes, and their recorded state after any crash."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
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
from phalanx.embedded.node.container.shim import starting
from tests.embedded.node.waiting import until

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


def test_a_program_ignores_no_signal_that_its_agent_ignores(tmp_path: Path) -> None:
    """As under nohup(1): a batch script must be able to trap SIGHUP."""
    agent = f"""
import asyncio, os, signal
from pathlib import Path
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
from phalanx.embedded.node.container.attempt import Attempt, RunSpec

async def run():
    attempt = Attempt(Path({str(tmp_path / "main")!r}), 0)
    await attempt.start(RunSpec(argv=("grep", "SigIgn", "/proc/self/status"), env={{"PATH": os.environ["PATH"]}}))
    async with asyncio.timeout(240):
        await attempt.ended()
    print(attempt.log.read_text())

asyncio.run(run())
"""
    said = subprocess.run([PYTHON, "-c", agent], check=True, capture_output=True, text=True, timeout=300).stdout
    ignored = int(said.split()[-1], 16)
    assert [number for number in (signal.SIGHUP, signal.SIGQUIT) if ignored >> (number - 1) & 1] == []


def test_terminate_reaches_the_program_behind_a_shell(attempt: Attempt) -> None:
    async def run() -> Exited:
        await attempt.start(spec("sh", "-c", "sleep 1000; true"))
        attempt.terminate()
        return await finish(attempt)

    assert asyncio.run(run()).exit_code == 143


def test_kill_takes_everything_that_came_from_the_program(attempt: Attempt) -> None:
    """Also what made itself a daemon in a session of its own."""

    async def run() -> tuple[Exited, int]:
        daemon = (
            "import os, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); time.sleep(999)"
        )
        await attempt.start(spec("sh", "-c", f"trap '' TERM; {PYTHON} -c '{daemon}'; sleep 1000"))
        await until(lambda: attempt.log.exists() and attempt.log.read_text())
        attempt.terminate()
        attempt.kill()
        return await finish(attempt), int(attempt.log.read_text().split()[3])

    state, daemon = asyncio.run(run())
    assert state.exit_code == 137
    assert gone(daemon)


def test_what_a_program_leaves_behind_ends_with_it(attempt: Attempt) -> None:
    async def run() -> tuple[Exited, int]:
        await attempt.start(spec("sh", "-c", "sleep 1000 & echo $!"))
        return await finish(attempt), int(attempt.log.read_text().split()[3])

    state, left = asyncio.run(run())
    assert state.exit_code == 0
    assert gone(left)


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


def test_a_killed_supervisor_takes_the_program_with_it(attempt: Attempt) -> None:
    async def run() -> tuple[RunningAttempt, Exited]:
        state = await attempt.start(spec("sleep", "1000"))
        assert isinstance(state, RunningAttempt)
        os.kill(state.shim_pid, signal.SIGKILL)
        return state, await finish(attempt)

    before, after = asyncio.run(run())
    assert (after.exit_code, after.reason) == (137, "ContainerStatusUnknown")
    asyncio.run(until(lambda: gone(before.pid)))


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


def test_containers_start_after_the_process_that_forks_supervisors_was_killed(tmp_path: Path) -> None:
    async def run() -> list[Exited]:
        found = []
        for name in ("before", "after"):
            attempt = Attempt(tmp_path / name, 0)
            await attempt.start(spec("true"))
            found.append(await finish(attempt))
            starting._forks[starting.interpreter()].process.kill()
        return found

    assert [state.exit_code for state in asyncio.run(run())] == [0, 0]


def test_a_program_has_no_descriptor_of_its_supervisor(attempt: Attempt) -> None:
    async def run() -> None:
        numbers = " ".join(map(str, range(40)))
        await attempt.start(spec("sh", "-c", f"for one in {numbers}; do [ -e /proc/$$/fd/$one ] && echo $one; done"))
        await finish(attempt)

    asyncio.run(run())
    assert [line.split(" ", 3)[3] for line in attempt.log.read_text().splitlines()] == ["0", "1", "2"]


def test_supervisors_outlive_the_agent_and_the_process_that_forked_them(tmp_path: Path) -> None:
    """The agent is killed in the moment in which its container is on record."""
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from phalanx.embedded.node.container.attempt import Attempt, RunSpec\n"
        "from phalanx.embedded.node.container.shim import starting\n"
        "spec = RunSpec(argv=('sleep', '1000'), env={'PATH': os.environ['PATH']})\n"
        "asyncio.run(Attempt(Path(sys.argv[1]), 0).start(spec))\n"
        "print(starting._forks[starting.interpreter()].process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    folder = tmp_path / "main"
    done = subprocess.run(
        [PYTHON, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, check=False, timeout=240
    )
    assert done.returncode == -signal.SIGKILL

    async def look() -> None:
        attempt = Attempt(folder, 0)
        await until(lambda: gone(int(done.stdout)))
        state = attempt.settle()
        assert isinstance(state, RunningAttempt)
        attempt.terminate()
        assert (await finish(attempt)).exit_code == 143

    asyncio.run(look())
