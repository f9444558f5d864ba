"""`shim/supervisor.py`: the supervisor of a container, its signals, its children and its records."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.node.container.attempt import (
    Attempt,
    Exited,
    RunningAttempt,
)
from phalanx.embedded.node.container.shim import fork_server, supervisor
from tests.embedded.node.container.test_attempt import finish, gone, spec
from tests.embedded.node.waiting import until

real = pytest.mark.slow  # real processes

PYTHON = sys.executable


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path / "main", 0)


# --- records ----------------------------------------------------------------------------------------------------------


def supervised(tmp_path: Path, said: dict[str, Any] | None = None) -> str:
    """Run a supervisor in a process of its own, and return the stem of its files."""
    stem = str(tmp_path / "c")
    if said is not None:
        Path(stem + ".spec.json").write_text(
            json.dumps({"argv": ["true"], "env": {}, "mounts": [], "oom_files": [], **said})
        )
    if (child := os.fork()) == 0:
        with suppress(BaseException):
            os.setsid()
            supervisor.supervise(stem, os.open(os.devnull, os.O_RDONLY))
        os._exit(0)
    os.waitpid(child, 0)
    return stem


def test_a_container_that_was_started_or_has_ended_is_not_started_again(tmp_path: Path) -> None:
    for ending in (".run.json", ".exit.json"):
        record = Path(str(tmp_path / "c") + ending)
        record.write_text("{}")
        stem = supervised(tmp_path, {})
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted({"c.lock", "c.spec.json", "c" + ending})
        assert not Path(stem + ".log").exists()
        record.unlink()


def test_one_supervisor_at_a_time_has_a_container(tmp_path: Path) -> None:
    with open(tmp_path / "c.lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        stem = supervised(tmp_path, {})
    assert not Path(stem + ".run.json").exists()
    assert not Path(stem + ".exit.json").exists()


def test_a_defect_of_the_supervisor_ends_the_container_with_its_text(tmp_path: Path) -> None:
    stem = supervised(tmp_path, {"oom_files": None, "peak_files": None, "argv": None})
    ending = json.loads(Path(stem + ".exit.json").read_text())
    assert (ending["exit_code"], ending["reason"]) == (128, "StartError")
    assert ending["message"]


# --- the end ----------------------------------------------------------------------------------------------------------


def ending(tmp_path: Path, status: int, problem: str = "", said: int | None = None, **spec: Any) -> dict[str, Any]:
    """Return the record of a program that ended with this wait status. `said`: the status that process 1 reported."""
    settings: Any = {"oom_files": [], **spec}
    shim = supervisor.Shim(str(tmp_path / "c"), settings)
    shim.status, (shim.ended, write) = status, os.pipe()
    if said is not None:
        os.write(write, said.to_bytes(4, "little"))
    os.close(write)
    return shim._ending(problem)


def exited(code: int) -> int:
    return code << 8


def test_the_exit_code_is_that_of_a_shell(tmp_path: Path) -> None:
    """128 + N after a signal, as runtimes report it."""
    found = [ending(tmp_path, status) for status in (exited(3), signal.SIGKILL, signal.SIGTERM)]
    assert [(one["exit_code"], one["signal"], one["reason"]) for one in found] == [
        (3, 0, ""),
        (137, 9, ""),
        (143, 15, ""),
    ]


def test_process_1_of_a_namespace_reports_the_end_of_the_program(tmp_path: Path) -> None:
    assert ending(tmp_path, exited(0), said=exited(7))["exit_code"] == 7
    assert ending(tmp_path, signal.SIGKILL)["exit_code"] == 137, "process 1 was killed and could report nothing"


def test_a_program_that_failed_after_the_kernel_killed_for_memory_is_oom_killed(tmp_path: Path) -> None:
    (events := tmp_path / "memory.events").write_text("low 0\noom 3\noom_kill 1\noom_group_kill 0\n")
    files = [str(tmp_path / "gone"), str(events)]
    assert ending(tmp_path, exited(1), oom_files=files)["reason"] == "OOMKilled"
    assert ending(tmp_path, exited(0), oom_files=files)["reason"] == "", "only a child was killed, and it went on"
    events.write_text("oom 3\noom_kill 0\n")
    assert ending(tmp_path, signal.SIGKILL, oom_files=files)["reason"] == ""


def test_a_program_that_was_not_started_says_why(tmp_path: Path) -> None:
    found = ending(tmp_path, exited(128), "mounting /x: Permission denied")
    assert (found["reason"], found["message"]) == ("StartError", "mounting /x: Permission denied")


def test_the_peak_of_memory_is_the_first_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "peak").write_text("4096\n")
    (tmp_path / "max").write_text("max\n")
    files = [str(tmp_path / name) for name in ("gone", "max", "peak")]
    found = ending(tmp_path, exited(0), peak_files=files, memory_limit_bytes=8192)
    assert (found["peak_memory_bytes"], found["memory_limit_bytes"]) == (4096, 8192)
    assert ending(tmp_path, exited(0))["peak_memory_bytes"] == 0


def test_children_are_found_without_the_kernels_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """CONFIG_PROC_CHILDREN may be missing."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.read(read, 1)
        os._exit(0)
    try:
        assert child in supervisor._children()

        def missing(path: str, mode: str = "r") -> Any:
            if path.endswith("/children"):
                raise FileNotFoundError(path)
            return open(path, mode)

        monkeypatch.setattr(supervisor, "open", missing, raising=False)
        assert child in supervisor._children()
        assert os.getpid() not in supervisor._children()
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


# --- real containers --------------------------------------------------------------------------------------------------


@real
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


@real
def test_terminate_reaches_the_program_behind_a_shell(attempt: Attempt) -> None:
    async def run() -> Exited:
        await attempt.start(spec("sh", "-c", "sleep 1000; true"))
        attempt.terminate()
        return await finish(attempt)

    assert asyncio.run(run()).exit_code == 143


@real
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


@real
def test_what_a_program_leaves_behind_ends_with_it(attempt: Attempt) -> None:
    async def run() -> tuple[Exited, int]:
        await attempt.start(spec("sh", "-c", "sleep 1000 & echo $!"))
        return await finish(attempt), int(attempt.log.read_text().split()[3])

    state, left = asyncio.run(run())
    assert state.exit_code == 0
    assert gone(left)


@real
def test_a_killed_supervisor_takes_the_program_with_it(attempt: Attempt) -> None:
    async def run() -> tuple[RunningAttempt, Exited]:
        state = await attempt.start(spec("sleep", "1000"))
        assert isinstance(state, RunningAttempt)
        os.kill(state.shim_pid, signal.SIGKILL)
        return state, await finish(attempt)

    before, after = asyncio.run(run())
    assert (after.exit_code, after.reason) == (137, "ContainerStatusUnknown")
    asyncio.run(until(lambda: gone(before.pid)))


@real
def test_containers_start_after_the_process_that_forks_supervisors_was_killed(tmp_path: Path) -> None:
    async def run() -> list[Exited]:
        found = []
        for name in ("before", "after"):
            attempt = Attempt(tmp_path / name, 0)
            await attempt.start(spec("true"))
            found.append(await finish(attempt))
            fork_server._forks[fork_server.interpreter()].process.kill()
        return found

    assert [state.exit_code for state in asyncio.run(run())] == [0, 0]


@real
def test_a_program_has_no_descriptor_of_its_supervisor(attempt: Attempt) -> None:
    async def run() -> None:
        numbers = " ".join(map(str, range(40)))
        await attempt.start(spec("sh", "-c", f"for one in {numbers}; do [ -e /proc/$$/fd/$one ] && echo $one; done"))
        await finish(attempt)

    asyncio.run(run())
    assert [line.split(" ", 3)[3] for line in attempt.log.read_text().splitlines()] == ["0", "1", "2"]


@real
def test_supervisors_outlive_the_agent_and_the_process_that_forked_them(tmp_path: Path) -> None:
    """The agent is killed at the moment at which the start of the container is recorded."""
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from phalanx.embedded.node.container.attempt import Attempt, RunSpec\n"
        "from phalanx.embedded.node.container.shim import fork_server\n"
        "spec = RunSpec(argv=('sleep', '1000'), env={'PATH': os.environ['PATH']})\n"
        "asyncio.run(Attempt(Path(sys.argv[1]), 0).start(spec))\n"
        "print(fork_server._forks[fork_server.interpreter()].process.pid, flush=True)\n"
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
