"""The supervisor, with tiny real children instead of an API server and a control plane."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from phalanx.cli.local.supervisor import Child, SupervisedProgram
from phalanx.errors import PhalanxError
from tests.cli import upstart

READY_THEN_SLEEP = "import time; print('ready', flush=True); time.sleep(3000)"


def program(tmp_path: Path, source: str, **settings: float) -> SupervisedProgram:
    return SupervisedProgram(
        name="child",
        argv=(sys.executable, "-S", "-c", source),
        log=tmp_path / "child.log",
        **settings,
    )


async def until(condition: Callable[[], bool], timeout_s: float = 240.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110  a condition of the operating system has no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def kept(child: Child) -> AsyncIterator[None]:
    await child.start()
    keeper = asyncio.create_task(child.keep())
    try:
        yield
    finally:
        keeper.cancel()
        await child.stop()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_killed_child_is_started_again_and_the_user_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    child = Child(program(tmp_path, READY_THEN_SLEEP), told.append)
    async with kept(child):
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: any("is back" in line for line in told))
        assert child.pid != first
    assert "killed by SIGKILL" in told[0]
    assert str(tmp_path / "child.log") in told[0]


async def test_a_child_that_ends_before_it_is_ready_fails_the_start_with_its_last_words(tmp_path: Path) -> None:
    dying = "import sys; print('phalanx: error: no such luck', file=sys.stderr); sys.exit(1)"
    with pytest.raises(PhalanxError, match=r"(?s)ended with exit code 1.*no such luck"):
        await Child(program(tmp_path, dying), print).start()


async def test_a_child_that_is_killed_before_it_is_ready_is_started_again(tmp_path: Path) -> None:
    once = tmp_path / "once"
    killed = f"import os; p = {str(once)!r}; there = os.path.exists(p); open(p, 'w'); there or os.kill(os.getpid(), 9)"
    told: list[str] = []
    child = Child(program(tmp_path, f"{killed}\n{READY_THEN_SLEEP}"), told.append)
    async with kept(child):
        assert child.said == "ready"
    assert "was killed by SIGKILL before it was ready" in told[0]


async def test_a_child_that_is_killed_again_and_again_fails_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.cli.local.supervisor._PAUSES_S", (0.0, 0.0))
    told: list[str] = []
    with pytest.raises(PhalanxError, match="was killed by SIGKILL, so nothing runs"):
        await Child(program(tmp_path, "import os; os.kill(os.getpid(), 9)"), told.append).start()
    assert len(told) == 2


@pytest.mark.slow
async def test_a_child_that_never_gets_ready_is_stopped_and_not_started_again(tmp_path: Path) -> None:
    told: list[str] = []
    child = Child(program(tmp_path, "import time; time.sleep(3000)", ready_s=0.3), told.append)
    with pytest.raises(PhalanxError, match=r"was not ready after 0\.3 s"):
        await child.start()
    assert told == []
    assert child.pid is not None
    assert not is_alive(child.pid)


async def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    told: list[str] = []
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY_THEN_SLEEP
    child = Child(program(tmp_path, stubborn, stop_s=0.2), told.append)
    await child.start()
    await child.stop()
    assert child.pid is not None
    assert not is_alive(child.pid)
    assert "was killed" in told[0]


async def test_a_child_dies_with_its_supervisor_even_if_that_is_killed(tmp_path: Path) -> None:
    supervising = f"""
import asyncio, pathlib, sys
from phalanx.cli.local.supervisor import Child, SupervisedProgram
async def main():
    child = Child(SupervisedProgram(name="child", argv=(sys.executable, "-S", "-c", {READY_THEN_SLEEP!r}),
        log=pathlib.Path({str(tmp_path / "child.log")!r})), print)
    await child.start()
    print(child.pid, flush=True)
    await asyncio.sleep(3000)
asyncio.run(main())
"""
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", supervising, stdout=asyncio.subprocess.PIPE)
    assert supervisor.stdout is not None
    pid = int(await supervisor.stdout.readline())
    supervisor.kill()
    await supervisor.wait()
    await until(lambda: not upstart.is_alive(pid))
