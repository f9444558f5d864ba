"""Jobs and steps that the kernel killed because memory ran out have Slurm's state OUT_OF_MEMORY and exit code 0:125."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from phalanx.ledger.entry import State, url_of
from phalanx.ledger.store import Ledger
from phalanx.slurm.commands.accounting import sacct
from phalanx.slurm.jobs import view
from phalanx.slurm.jobs.ended import recorded
from phalanx.slurm.jobs.steps.records import MemoryKills, StepRecord
from phalanx.slurm.jobs.steps.tasks import Report, highest
from tests.slurm.test_ended import ASK, entry


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("0::/kubepods/pod1", "sys/fs/cgroup/kubepods/pod1/memory.events"),
        ("0::/kubepods/pod1", "sys/fs/cgroup/memory.events"),
        ("4:cpu,cpuacct:/a\n2:memory:/b\n0::/", "sys/fs/cgroup/memory/b/memory.oom_control"),
    ],
)
def test_a_task_was_killed_for_memory_where_the_count_rose(tmp_path: Path, group: str, file: str) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(group + "\n")
    counter = tmp_path / file
    counter.parent.mkdir(parents=True)
    counter.write_text("low 0\noom_kill 2\n")
    memory = MemoryKills(str(tmp_path))
    assert [memory.told(code) for code in (0, 3, -9, -15)] == [0, 3, -9, -15]
    counter.write_text("low 0\noom_kill 3\n")
    assert [memory.told(code) for code in (0, 3, -9, -15)] == [0, 3, -125, -15]


def test_without_cgroups_a_signal_is_a_signal(tmp_path: Path) -> None:
    assert MemoryKills(str(tmp_path)).told(-9) == -9


def test_srun_and_sacct_say_so_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("7.0")
    report.ended("n1", 0, -125)
    report.finish()
    assert capsys.readouterr().err.startswith("srun: error: n1: task 0: Out Of Memory\n")
    code, signal = highest({0: 0, 1: -125})
    record = StepRecord(end_s=5.0, code=code, signal=signal)
    assert (record.state, record.status) == ("OUT_OF_MEMORY", "0:125")


@pytest.mark.parametrize(
    ("signal", "cause", "state", "status"),
    [
        (
            9,
            "pod a: container batch: out of memory (OOM), killed by the kernel: its limit is 10Mi",
            "OUT_OF_MEMORY",
            "0:125",
        ),
        (9, "pod a: exit code 137; OOMKilled", "OUT_OF_MEMORY", "0:125"),
        (9, "pod a: container batch: killed by SIGKILL; its log ends:\n  OOMKilled", "FAILED", "0:9"),
        (None, "pod a: container batch: exit code 3; its log ends:\n  out of memory (OOM)", "FAILED", "3:0"),
    ],
)
def test_the_ledger_tells_it_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: int | None, cause: str, state: str, status: str
) -> None:
    url = url_of(tmp_path / "ledger.sqlite3")
    monkeypatch.setenv("PHALANX_LEDGER", url)
    with Ledger.open(url) as ledger:
        ended = replace(entry(1), state=State.FAILED, exit_code=137 if signal else 3, signal=signal, cause=cause)
        ledger.put([ended])
        [job] = recorded(numbers=[1])
    job.steps = {0: StepRecord(start_s=20.0)}
    batch, step = sacct._steps(job).values()
    assert (job.state, job.status, batch.status) == (state, status, status)
    expected = (state, state, status) if state != "FAILED" else (batch.state, "CANCELLED", "0:0")
    assert (batch.state, step.state, step.status) == expected


def test_a_pod_tells_it_while_the_job_is_there() -> None:
    job = view.JobInfo(number=1, ask=ASK, state="RUNNING")
    terminated = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}
    status = {"containerStatuses": [{"state": {"terminated": terminated}}]}
    view._exit(job, msgspec.convert({"metadata": {"name": "p"}, "status": status}, view._Pod))
    assert (job.state, job.status, job.reason) == ("OUT_OF_MEMORY", "0:125", "OutOfMemory")
