"""`squeue --steps`, as measured with a real Slurm 22.05."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from phalanx.slurm.commands.jobs import squeue, squeue_steps
from phalanx.slurm.commands.jobs.squeue_steps import read_steps, show_steps
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage

PLAIN = Ask(
    name="plain", user="u1", uid=7, gid=7, group="u", account="lab", partition="batch", tres_per_node="gres:gpu:1"
)

NOW_S = 1_800_000_000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(squeue_steps, "time", SimpleNamespace(time=lambda: NOW_S))


def job(number: int, array: int | None = None, task: int | None = None) -> JobInfo:
    ask = Ask(**{**{name: getattr(PLAIN, name) for name in PLAIN.__struct_fields__}, "array": array, "task": task})
    begun_s = NOW_S - number
    steps = {0: StepRecord(name="sleep", tasks=2, cpus=3, nodes=["n2"], start_s=begun_s), 1: StepRecord(end_s=1.0)}
    return JobInfo(number=number, ask=ask, state="RUNNING", nodes=("n1", "n2"), start_s=begun_s, steps=steps)


JOBS = [job(20), job(31, 30, 3), job(30, 30, 4)]


def shown(said: Mapping[str, str | None], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert show_steps(JOBS, said) == 0
    return capsys.readouterr().out.splitlines()


def ids(said: Mapping[str, str | None], capsys: pytest.CaptureFixture[str]) -> list[str]:
    return shown({"noheader": None, "format": "%i", **said}, capsys)


def test_its_default_columns_and_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.split()[0] for line in shown({}, capsys)] == [
        "STEPID", "20.0", "20.batch", "30_4.0", "30_4.batch", "30_3.0", "30_3.batch",
    ]  # fmt: skip
    assert shown({}, capsys)[:2] == [
        "         STEPID     NAME PARTITION     USER      TIME NODELIST",
        "           20.0    sleep     batch       u1      0:20 n2",
    ]


@pytest.mark.parametrize(
    ("order", "first"),
    [("i", "20.0"), ("-i", "30_3.batch"), ("j", "20.batch"), ("", "20.batch"), ("z", "20.batch"), ("M", "20.batch"),
     ("-M", "30_3.batch"), ("S", "30_3.batch"), ("P,-i", "30_3.batch")],
)  # fmt: skip
def test_some_letters_sort_and_others_leave_the_order(
    order: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ids({"sort": order}, capsys)[0] == first


@pytest.mark.parametrize(
    ("steps", "found"),
    [("20.0", ["20.0"]), ("30.0", ["30_4.0", "30_3.0"]), ("30_3.0", ["30_3.0"]), ("31.0,20.1", ["30_3.0"])],
)
def test_steps_are_named_by_job_task_or_array(steps: str, found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ids({"steps": steps}, capsys) == found


def test_nodes_are_those_of_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert ids({"nodelist": "n1", "steps": "20.0,20.batch"}, capsys) == ["20.batch"]


def test_columns_have_names_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    names = "stepid:|,tres-per-node:|,arrayjobid:|,arraytaskid:|,numcpus:|,cpufreq,tres-per-job:|,stepstate:|,nodes:|"
    assert shown({"Format": names}, capsys) == [
        "STEPID|TRES_PER_JOB|ARRAY_JOB_ID|ARRAY_TASK_ID|NUM_CPUS|CPU_FREQ            TRES_PER_STEP|STATE|NODELIST|",
        "20.0|gres:gpu:1|0|N/A|3|Unknown-Unknown:Unkn(null)|RUNNING|n2|",
        "20.batch|(null)|0|N/A|0|0-0:0               (null)|RUNNING|n1|",
        "30_4.0|gres:gpu:1|30|4|3|Unknown-Unknown:Unkn(null)|RUNNING|n2|",
        "30_4.batch|(null)|30|4|0|0-0:0               (null)|RUNNING|n1|",
        "30_3.0|gres:gpu:1|30|3|3|Unknown-Unknown:Unkn(null)|RUNNING|n2|",
        "30_3.batch|(null)|30|3|0|0-0:0               (null)|RUNNING|n1|",
    ]


@pytest.mark.parametrize(
    ("text", "told"), [("x", "x.??"), ("12", "12.??"), ("=12.0", "=12.0"), ("12_[3-4]", "12_[3-4].??")]
)
def test_what_is_no_step_is_refused(text: str, told: str) -> None:
    with pytest.raises(Usage) as error:
        read_steps({"steps": text})
    assert error.value.text == f"squeue: error: Invalid job_step id: {told}"


@pytest.mark.parametrize(
    ("said", "heads"),
    [
        ({}, ["STEPID"]),
        ({"long": None, "clusters": "c"}, ["2", "CLUSTER:", "STEPID"]),
        ({"long": None, "noheader": None}, []),
    ],
)
def test_the_date_and_the_cluster_are_above_the_heading(
    said: dict[str, str | None], heads: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that choose jobs, like --name, choose no steps."""
    asked: list[dict[str, str | None]] = []
    monkeypatch.setattr(squeue, "_found", lambda api, said, chosen: asked.append(dict(said)) or [])
    assert (
        squeue._show(squeue.ApiClient.__new__(squeue.ApiClient), {**said, "steps": "", "name": "x", "user": "root"})
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0 if line[0] in " C" else 4][: 1 if line[0] not in " C" else None] for line in lines] == heads
    assert asked == [{"steps": "", "user": "root"}]


def test_what_is_no_column_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_steps(JOBS[:1], {"format": "%i|%-8C,%.3u%Q"}) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["STEPID|%-8C,USE%Q", "20.0|%-8C, u1%Q", "20.batch|%-8C, u1%Q"]
    wrong = "squeue: error: Invalid job step format specification: "
    assert err == f"{wrong}-\n{wrong}Q\n"
