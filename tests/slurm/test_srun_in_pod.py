"""srun in an allocation of one node: real processes, with the environment that a batch script has there."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phalanx.slurm.commands.launch.srun_options import commands

pytestmark = pytest.mark.slow

SRUN = (sys.executable, "-c", "import sys; from phalanx.slurm.main import main; sys.exit(main('srun'))")


def srun(folder: Path, *words: str, cpus: int = 4, **more: str) -> subprocess.CompletedProcess[str]:
    around = {
        **{name: text for name, text in os.environ.items() if not name.startswith("SLURM")},
        "TMPDIR": str(folder),
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_ON_NODE": str(cpus),
        "SLURMD_NODENAME": "n1",
        **more,
    }
    return subprocess.run(
        (*SRUN, *words), cwd=folder, env=around, capture_output=True, text=True, timeout=120, check=False
    )


def test_tasks_know_which_they_are(tmp_path: Path) -> None:
    done = srun(tmp_path, "-n3", "-l", "sh", "-c", "echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_STEP_ID $SLURMD_NODENAME")
    assert sorted(done.stdout.splitlines()) == ["0: 0/3 0 n1", "1: 1/3 0 n1", "2: 2/3 0 n1"]
    assert srun(tmp_path, "sh", "-c", "echo $SLURM_STEP_ID $SLURM_NTASKS", SLURM_NTASKS="2").stdout == "1 2\n1 2\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["sh", "-c", "exit 3"], 3, ["task 0: Exited with exit code 3"]),
        (["-n2", "sh", "-c", "exit $SLURM_PROCID"], 1, ["task 1: Exited with exit code 1"]),
        (["sh", "-c", "kill -9 $$"], 137, ["task 0: Killed"]),
        (["sh", "-c", "kill -TERM $$"], 143, ["task 0: Terminated"]),
        (["/no/such/command"], 2, ["execve(): /no/such/command: No such file", "task 0: Exited with exit code 2"]),
        (["no-such-command"], 2, ["execve(): no-such-command: No such file", "task 0: Exited with exit code 2"]),
        (["--mpi=pmix", "true"], 1, ["--mpi=pmix is not supported", "start the program with mpirun"]),
        (["--mpi=pmi2", "true"], 1, ["--mpi=pmi2 is not supported", "start the program with mpirun"]),
        (["--container-image=x", "true"], 1, ["--container-image of a step is not supported"]),
        (
            ["-n2", "-K", "sh", "-c", "[ $SLURM_PROCID = 0 ] && exit 6; exec sleep 3000"],
            143,
            ["Terminating StepId=7.0", "task 1: Terminated"],
        ),
        (
            ["-n2", "-W1", "sh", "-c", "[ $SLURM_PROCID = 0 ] && exit 0; exec sleep 3000"],
            137,
            ["First task exited 1s ago"],
        ),
    ],
)
def test_what_srun_ends_with(tmp_path: Path, words: list[str], code: int, told: list[str]) -> None:
    done = srun(tmp_path, *words)
    assert done.returncode == code
    for text in told:
        assert text in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-n9", "true"], "Unable to create step for job 7: More processors requested than permitted"),
        (["-N2", "true"], "Only allocated 1 nodes asked for 2"),
        ([], "srun: fatal: No command given to execute."),
        (["--propagate=X", "true"], "srun: error: --propagate=X is not valid."),
        (["--mpi=pmix", "true"], "--mpi=pmix is not supported by Phalanx"),
        (["--mpi=", "true"], "Invalid MPI type '', --mpi=list for acceptable types"),
    ],
)
def test_what_is_refused(tmp_path: Path, words: list[str], text: str) -> None:
    done = srun(tmp_path, *words)
    assert (done.returncode, text in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("export", ["", "NONE", "A=3", "A,B"])
def test_without_path_no_program_is_found_by_its_name(tmp_path: Path, export: str) -> None:
    done = srun(tmp_path, f"--export={export}", "env", A="1", B="2")
    assert (done.returncode, "error: execve(): env: No such file or directory" in done.stderr) == (2, True)
    done = srun(tmp_path, f"--export={export}", "/usr/bin/env", A="1", B="2")
    own = {line for line in done.stdout.splitlines() if not line.startswith(("SLURM", "PWD"))}
    assert own == {"TMPDIR=/tmp", *{"A=3": ["A=3"], "A,B": ["A=1", "B=2"]}.get(export, [])}


@pytest.mark.parametrize(("level", "told"), [("3", 0), ("info", 0), ("debug", 1), ("5", 1), ("two", 1), ("", 1)])
def test_srun_limits_the_level_of_the_daemons_messages(tmp_path: Path, level: str, told: int) -> None:
    done = srun(tmp_path, f"--slurmd-debug={level}", "true")
    assert done.stderr == "srun: Using srun's max debug increment of 4\n" * told


def test_tmpdir_of_tasks_exists(tmp_path: Path) -> None:
    done = srun(tmp_path, "sh", "-c", "echo $TMPDIR", TMPDIR="")
    assert done.stdout == "/tmp\n"
    made = tmp_path / "made"
    done = srun(tmp_path, "sh", "-c", "ls -d $TMPDIR", TMPDIR=str(made))
    assert (done.stdout, done.stderr, made.stat().st_mode & 0o777) == (f"{made}\n", "", 0o700)
    missing = tmp_path / "no" / "such"
    done = srun(tmp_path, "-n2", "sh", "-c", "echo $TMPDIR", TMPDIR=str(missing))
    what = "slurmstepd-n1: error: "
    told = f"{what}Unable to create TMPDIR [{missing}]: No such file or directory\n{what}Setting TMPDIR to /tmp\n"
    assert (done.stdout, done.stderr) == ("/tmp\n/tmp\n", told)


def test_output_files_and_input(tmp_path: Path) -> None:
    assert srun(tmp_path, "-n2", "-o", "%j-%t.txt", "sh", "-c", "echo $SLURM_PROCID").returncode == 0
    assert [(tmp_path / f"7-{task}.txt").read_text() for task in (0, 1)] == ["0\n", "1\n"]


def test_steps_wait_for_the_cpus_of_others_unless_they_overlap(tmp_path: Path) -> None:
    around = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_ON_NODE": "2",
        "SLURMD_NODENAME": "n1",
    }
    first = subprocess.Popen(
        (*SRUN, "-n2", "--exact", "sh", "-c", "touch up; exec sleep 3000"), cwd=tmp_path, env=around
    )
    try:
        while not (tmp_path / "up").exists():
            assert first.poll() is None
            time.sleep(0.02)
        busy = srun(tmp_path, "--exact", "--immediate=0.1", "true", cpus=2)
        assert (busy.returncode, "Requested nodes are busy" in busy.stderr) == (1, True)
        assert srun(tmp_path, "--overlap", "echo", "beside", cpus=2).stdout == "beside\n"
        first.terminate()
        assert first.wait(timeout=120) == 143
        assert srun(tmp_path, "--exact", "--immediate=100", "echo", "after", cpus=2).stdout == "after\n"
    finally:
        first.kill()
        first.wait()


IGNORES = "trap '' INT TERM HUP; touch up; until [ -e end ]; do sleep 0.05; done"


def stubborn_step(folder: Path, **more: str) -> subprocess.Popen[str]:
    """A step whose task ignores every signal that may be ignored. Without SLURMD_NODENAME srun is outside the pods."""
    code = (
        "import sys; from phalanx.slurm.jobs.steps.tasks import Step, run;"
        f"step = Step(command=lambda task: ('sh', '-c', {IGNORES!r}), environment=dict(PATH='/usr/bin:/bin'),"
        f" of_task=[dict()], directory={str(folder)!r}, node='n1', name='7.0');"
        "sys.exit(-run(step)[0])"
    )
    around = {**{name: text for name, text in os.environ.items() if name != "SLURMD_NODENAME"}, **more}
    process = subprocess.Popen((sys.executable, "-c", code), env=around, stderr=subprocess.PIPE, text=True)
    while not (folder / "up").exists():
        assert process.poll() is None
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_srun_outside_kills_its_step_on_term_and_hup(tmp_path: Path, number: signal.Signals) -> None:
    with stubborn_step(tmp_path) as step:
        step.send_signal(number)
        assert step.wait(timeout=60) == signal.SIGKILL
        assert step.stderr is not None
        assert "srun: forcing job termination" in step.stderr.read()


def test_srun_ends_its_step_on_repeated_ctrl_c(tmp_path: Path) -> None:
    with stubborn_step(tmp_path) as step:
        assert step.stderr is not None
        for said in ("one more within 1 sec", "sending Ctrl-C to StepId", "forcing job termination"):
            step.send_signal(signal.SIGINT)
            while said not in (line := step.stderr.readline()):  # the machine may be slow: then the count begins anew
                assert line, said
                step.send_signal(signal.SIGINT)
        assert step.wait(timeout=60) == signal.SIGKILL


def test_srun_within_a_pod_passes_term_on(tmp_path: Path) -> None:
    """scancel and the time limit come this way, and the task has its KillWait."""
    with stubborn_step(tmp_path, SLURMD_NODENAME="n1") as step:
        step.send_signal(signal.SIGTERM)
        assert step.stderr is not None
        assert "STEP 7.0 ON n1 CANCELLED" in step.stderr.readline()
        assert step.poll() is None
        (tmp_path / "end").touch()
        assert step.wait(timeout=60) == 0


def test_files_are_named_by_array_and_task(tmp_path: Path) -> None:
    around = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}
    assert srun(tmp_path, "-o", "%A_%a_%j_%t.txt", "echo", "hi", **around).returncode == 0
    assert (tmp_path / "5_3_7_0.txt").read_text() == "hi\n"
    done = srun(tmp_path, "-o", "missing/out", "true")
    assert (done.returncode, done.stderr) == (1, "srun: error: Could not open stdout file: No such file or directory\n")


@pytest.mark.parametrize(
    ("option", "seen"),
    [("none", "0: 0\n1: 0\n"), ("1", "0: 0\n1: 6\n"), ("all", "0: 6\n1: 6\n"), ("in", "0: 3\n1: 3\n")],
)
def test_standard_input_goes_where_it_is_said(tmp_path: Path, option: str, seen: str) -> None:
    (tmp_path / "in").write_text("abc")
    line = f"echo hello | {shlex.join(SRUN)} -n2 -l -i {option} wc -c | sort"
    around = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_ON_NODE": "2",
        "SLURMD_NODENAME": "n",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path, env=around, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == (seen, "")


def test_a_file_is_emptied_once_and_not_for_each_task(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("from before\n")
    assert srun(tmp_path, "-n2", "-o", "out", "echo", "hi").returncode == 0
    assert (tmp_path / "out").read_text() == "hi\nhi\n"
    assert srun(tmp_path, "-o", "out", "--open-mode=append", "echo", "more").returncode == 0
    assert (tmp_path / "out").read_text() == "hi\nhi\nmore\n"


def test_a_missing_multi_prog_file_is_reported_before_late_values_and_before_nodes(tmp_path: Path) -> None:
    text = "srun: error: Could not open multi_prog config file no.conf\n"
    for more in ({}, {"SLURM_JOB_ID": ""}):
        done = srun(tmp_path, "--multi-prog", "--cpu-bind=x", "--reservation=x", "no.conf", **more)
        assert (done.returncode, done.stderr) == (1, text)


def test_of_several_lines_of_a_multi_prog_file_the_first_that_names_a_task_counts(tmp_path: Path) -> None:
    (tmp_path / "multi.conf").write_text("0 echo zero %t %o\n1-2 echo rest %t %o\n* echo star %t %o\n")
    of_task = commands({"multi-prog": None}, [str(tmp_path / "multi.conf")], 4)
    assert [" ".join(of_task(task)[1:]) for task in range(4)] == ["zero 0 0", "rest 1 0", "rest 2 1", "star 3 3"]
