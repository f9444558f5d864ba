"""`slurm/jobs/steps/around_task.py`: --task-prolog and --task-epilog, beside a script and by the step daemon.

What is expected here was said by Slurm 22.05.8 for the same programs.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from phalanx.slurm.jobs.steps.around_task import run_epilog
from phalanx.slurm.jobs.steps.pods import channel, stepd
from tests.slurm.test_srun_in_pod import srun

pytestmark = pytest.mark.slow

PROLOG = r"""#!/bin/sh
echo print hello from $SLURM_PROCID
echo 'export FOO=bar baz'
echo unset GONE
echo a line that means nothing
echo 'print   spaced'
"""


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_task_prolog_changes_the_environment_of_each_task(tmp_path: Path) -> None:
    command = ("sh", "-c", "echo $FOO .$GONE. $SLURM_SCRIPT_CONTEXT")
    done = srun(tmp_path, "-n2", f"--task-prolog={program(tmp_path, 'prolog', PROLOG)}", *command, GONE="1")
    lines = ["bar baz .. prolog_task"] * 2 + ["hello from 0", "hello from 1", "spaced", "spaced"]
    assert sorted(done.stdout.splitlines()) == lines, done.stderr
    # A variable stands for the option.
    done = srun(tmp_path, "sh", "-c", "echo $FOO", SLURM_TASK_PROLOG=str(tmp_path / "prolog"))
    assert done.stdout.splitlines()[-1] == "bar baz"


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("echo print before; exit 3", 3, ["--task-prolog failed status=3"]),
        ("kill -9 $$", 1, ["user task_prolog did not exit normally. reason: ", "--task-prolog failed status=1"]),
        (
            "",
            1,
            [
                "run_command: user task_prolog can not be executed (/nosuch) No such file or directory",
                "user task_prolog did not exit normally. reason: Run command failed - configuration error",
                "--task-prolog failed status=1",
            ],
        ),
    ],
)
def test_task_prolog_that_fails_ends_its_task(tmp_path: Path, text: str, code: int, told: list[str]) -> None:
    named = program(tmp_path, "prolog", text) if text else "/nosuch"
    done = srun(tmp_path, f"--task-prolog={named}", "echo", "ran")
    assert (done.returncode, "ran" in done.stdout) == (code, False)
    assert done.stderr.splitlines()[:-1] == [f"slurmstepd-n1: error: {line}" for line in told]


def test_task_epilog_runs_after_each_task(tmp_path: Path) -> None:
    text = "echo $SLURM_PROCID $SLURM_SCRIPT_CONTEXT $SLURMD_NODENAME >> epilog.out; echo lost; echo seen >&2"
    done = srun(tmp_path, "-n2", f"--task-epilog={program(tmp_path, 'epilog', text)}", "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "seen\nseen\n")
    assert sorted((tmp_path / "epilog.out").read_text().splitlines()) == ["0 epilog_task n1", "1 epilog_task n1"]
    done = srun(tmp_path, "--task-epilog=/nosuch", "true")
    assert done.returncode == 0
    assert "Could not run user task_epilog [/nosuch]: access denied" in done.stderr


def test_task_epilog_is_ended_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.slurm.jobs.steps.around_task.EPILOG_S", 0.2)
    said = run_epilog(program(tmp_path, "epilog", "exec sleep 3000"), {"PATH": "/usr/bin:/bin"}, str(tmp_path), "n1")
    assert said == b"slurmstepd-n1: error: TaskEpilog failed status=9\n"


def test_srun_does_not_report_a_missing_prolog_if_it_is_quiet(tmp_path: Path) -> None:
    assert srun(tmp_path, "--prolog=a", "true").stderr == "srun: Access denied for a: No such file or directory\n"
    assert srun(tmp_path, "-Q", "--prolog=a", "--epilog=b", "true").stderr == ""


def test_srun_runs_its_own_prolog_and_epilog(tmp_path: Path) -> None:
    own = program(tmp_path, "own", 'echo "$SLURM_SCRIPT_CONTEXT $SLURM_STEP_ID $*"; exit 3')
    done = srun(tmp_path, f"--prolog={own}", f"--epilog={own}", "echo", "task")
    assert (done.returncode, done.stdout) == (0, "prolog_srun 0 echo task\ntask\nepilog_srun 0 echo task\n")
    done = srun(tmp_path, "--prolog=/nosuch", "echo", "task")
    assert (done.stdout, done.stderr) == ("task\n", "srun: Access denied for /nosuch: No such file or directory\n")


def test_tasks_run_in_tmp_where_their_directory_is_gone(tmp_path: Path) -> None:
    done = srun(tmp_path, "-n2", "--chdir=/nosuch", "pwd")
    line = "slurmstepd-n1: error: couldn't chdir to `/nosuch': No such file or directory: going to /tmp instead\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "/tmp\n/tmp\n", line * 3)


class _Link:
    """The daemon's end of the connection with an srun that only listens."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, bytes]] = []

    def send(self, kind: bytes, content: bytes = b"") -> None:
        self.sent.append((kind, content))

    def receive(self) -> tuple[bytes, bytes]:
        threading.Event().wait()
        raise AssertionError


def test_step_daemon_runs_the_programs_around_a_task(tmp_path: Path) -> None:
    link = _Link()
    asked: dict[str, Any] = {
        "name": "7.0",
        "commands": {"0": ["sh", "-c", "echo $FOO $SLURM_TASK_PID $$"]},
        "environment": {"PATH": "/usr/bin:/bin", "GONE": "1"},
        "directory": str(tmp_path),
        "tasks": [[0, {"SLURM_PROCID": "0"}]],
        "streams": {"0": [None, None, None]},
        "pty": None,
        "prolog": program(tmp_path, "prolog", PROLOG),
        "epilog": program(tmp_path, "epilog", "echo over $SLURM_PROCID >&2"),
    }
    stepd._Step(link, asked).run()  # type: ignore[arg-type] # a double of the connection
    said = b"".join(content[4:] for kind, content in link.sent if kind == channel.STDOUT).decode().splitlines()
    assert said[:2] == ["hello from 0", "spaced"]
    *foo, task_pid, own_pid = said[2].split()
    assert (foo, task_pid) == (["bar", "baz"], own_pid)
    assert (channel.STDERR, b"\0\0\0\0over 0\n") in link.sent
    assert [json.loads(content) for kind, content in link.sent if kind == channel.ENDED] == [[0, 0]]


def test_an_epilog_that_leaves_a_process_in_another_session_ends(tmp_path: Path) -> None:
    text = "setsid sleep 300 & echo $! > left; echo seen >&2"
    try:
        said = run_epilog(program(tmp_path, "epilog", text), {"PATH": "/usr/bin:/bin"}, str(tmp_path), "n1")
    finally:
        with suppress(ProcessLookupError):  # killed before it had a session of its own
            os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert said == b"seen\n"
