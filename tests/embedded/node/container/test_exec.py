"""Commands in a running container: their output, their end, and their end after a cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phalanx.embedded.node.container.attempt import Attempt, RunningAttempt, RunSpec
from phalanx.embedded.node.container.exec import execute
from tests.embedded.node.objects import running
from tests.embedded.node.waiting import until

pytestmark = pytest.mark.slow  # real processes

NEVER_S = 60.0


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """Return a container that is recorded as running, without mounts and without a name of its own."""
    found = Attempt(tmp_path, 0)
    spec = RunSpec(argv=("sleep",), env={"PATH": os.environ["PATH"], "WHO": "me"}, cwd=str(tmp_path))
    found.path("spec.json").write_bytes(msgspec.json.encode(spec))
    found.path("run.json").write_bytes(msgspec.json.encode(running()))
    assert isinstance(found.state(), RunningAttempt)
    return found


def run(attempt: Attempt, *command: str, timeout_s: float | None = NEVER_S) -> tuple[int, str]:
    return asyncio.run(execute(attempt, command, timeout_s))


def test_it_runs_in_the_containers_directory_and_environment(attempt: Attempt) -> None:
    assert run(attempt, "sh", "-c", "echo $WHO; pwd >&2; exit 3") == (3, f"me\n{attempt.folder}\n")


def test_a_command_that_is_not_there_is_told(attempt: Attempt) -> None:
    assert run(attempt, "no-such-command") == (126, "no-such-command: No such file or directory")


def test_of_many_words_the_first_are_kept_and_none_holds_it_up(attempt: Attempt) -> None:
    code, said = run(attempt, "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")
    assert (code, len(said)) == (0, 10 * 1024)


def test_what_takes_too_long_is_ended_with_all_of_its_group(attempt: Attempt) -> None:
    left = attempt.folder / "left"
    code, said = run(
        attempt, "sh", "-c", f"sleep 600 & echo $! > {left}.new; mv {left}.new {left}; wait", timeout_s=2.0
    )
    assert (code, said) == (124, "command timed out after 2 s")
    if left.exists():  # on a busy machine the process may not have written the file yet
        asyncio.run(until(lambda: not is_alive(int(left.read_text()))))


def test_what_it_leaves_behind_is_not_waited_for(attempt: Attempt) -> None:
    """The process in the background still has the output of the command open."""
    code, said = run(attempt, "sh", "-c", "sleep 600 & echo $!")
    try:
        assert (code, is_alive(int(said))) == (0, True)
    finally:
        os.kill(int(said), signal.SIGKILL)


@pytest.mark.parametrize("turns", range(7))
def test_it_ends_whenever_everything_is_cancelled(attempt: Attempt, turns: int) -> None:
    """`asyncio.run` cancels all tasks at its end. The command must also end if its process is just being created."""
    assert asyncio.run(_cancelled_after(turns, execute(attempt, ("sleep", "600"), NEVER_S)))


async def _cancelled_after(turns: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Cancel all tasks after some iterations of the loop. Return True if the work then ends by its cancellation."""
    task = asyncio.create_task(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()
    await until(task.done)
    return task.cancelled()


def is_alive(pid: int) -> bool:
    """Return whether the process runs. A zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
