"""What an image does to the interpreter that starts its containers: a file of the machine, which they can have run."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from phalanx.embedded.node.container.attempt import Attempt, Exited, Mount, Root, RunningAttempt, RunSpec
from phalanx.embedded.node.container.exec import execute
from phalanx.embedded.node.container.isolation import find_isolation
from phalanx.embedded.node.container.shim import fork_server
from tests.embedded.node.images.roots import small_root
from tests.embedded.node.waiting import until

pytestmark = pytest.mark.slow  # real processes

KILL, SYS_PTRACE = 5, 19
# As CVE-2019-5736: the program of the image is the interpreter itself, and does what the image's libraries say.
ATTACK = ("/proc/self/exe", "-I", "-S", "-c", "import os; os.chmod('/proc/self/exe', 0o6777); print('done')")


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An interpreter to be attacked, which starts the containers of the test."""
    copy = tmp_path / "attacked"
    shutil.copy(Path(sys.executable).resolve(), copy)
    monkeypatch.setattr(sys, "executable", str(copy))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    fork_server._copied.cache_clear()
    yield copy
    fork_server._copied.cache_clear()


@pytest.fixture
def spec(interpreter: Path, tmp_path: Path) -> RunSpec:
    """A container of an image that has the interpreter's libraries."""
    isolation = find_isolation(tmp_path)
    if isolation.root_refusal or isolation.overlay_refusal:
        pytest.skip(f"containers cannot have a root of their own here: {isolation}")
    root = small_root(tmp_path / "root", programs=("sleep", "grep", interpreter.name))
    place = tmp_path / "place"
    for name in ("upper", "work", "stage"):
        (place / name).mkdir(parents=True)
    library = sysconfig.get_path("stdlib")
    return RunSpec(
        argv=("sleep", "600"),
        env={"PATH": "/bin"},
        mounts=(Mount(source=library, target=library, read_only=True),),
        user_namespace=isolation.user_namespace,
        root=Root(
            stage=str(place / "stage"), layers=(str(root),), upper=str(place / "upper"), work=str(place / "work")
        ),
        capabilities=(KILL, SYS_PTRACE),
    )


def test_a_program_of_an_image_cannot_change_the_interpreter(spec: RunSpec, interpreter: Path, tmp_path: Path) -> None:
    before = interpreter.stat().st_mode

    async def test() -> None:
        attempt = Attempt(tmp_path / "main", 0)
        await attempt.start(replace(spec, argv=ATTACK))
        await until(lambda: isinstance(attempt.settle(), Exited))
        assert "done" in attempt.log.read_text()  # the attack was made

    asyncio.run(test())
    assert interpreter.stat().st_mode == before


def test_neither_does_a_command_beside_it_nor_take_over_process_1(
    spec: RunSpec, interpreter: Path, tmp_path: Path
) -> None:
    before = interpreter.stat().st_mode

    async def test() -> None:
        attempt = Attempt(tmp_path / "main", 0)
        state = await attempt.start(spec)
        assert isinstance(state, RunningAttempt)
        try:
            assert await execute(attempt, ATTACK, None) == (0, "done\n")
            _, mine = await execute(attempt, ("grep", "CapPrm", "/proc/self/status"), None)
            assert int(mine.split()[1], 16) == 1 << KILL | 1 << SYS_PTRACE
            _, first = await execute(attempt, ("grep", "CapPrm", "/proc/1/status"), None)
            assert int(first.split()[1], 16) == 1 << KILL
        finally:
            attempt.kill()
            await until(lambda: isinstance(attempt.settle(), Exited))

    asyncio.run(test())
    assert interpreter.stat().st_mode == before
