"""`phalanx whatif`: what a change would do to everybody, on small clusters that can be counted by hand.

The guide's answers are those of the command (`PHALANX_REWRITE=1` writes them anew; read the difference)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.app import build
from phalanx.cli.commands.study import whatif as command
from phalanx.cli.commands.study.snapshot import write
from phalanx.cli.commands.study.whatif import whatif
from phalanx.cli.files.recording import step_of
from phalanx.cli.study.changes import Changes
from phalanx.errors import PhalanxError
from phalanx.model.event import Adopted, Event, NodeSeen, Occupied, QueueSeen, RunTold, Started, Submitted
from phalanx.model.job import Job, Phase, Placement, Role
from phalanx.model.node import Node
from phalanx.model.plan import Start
from phalanx.model.pod import Shape
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, Quota
from tests.cli.test_job_reading import NOW_S, batch_job, node, queue, snapshot

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "whatif.md"
BLOCK = re.compile(r"(<!-- output: phalanx (?P<words>[^>]*) -->\n```text\n)(?P<text>.*?)(```\n)", re.DOTALL)
POD = (("cpu", 1000), ("pods", 1))


def job(name: str, pods: int, limit_s: float | None, submitted_s: float = NOW_S - 60) -> Job:
    roles = (Role(name="main", count=pods, minimum=pods, shape=Shape(requests=POD)),)
    return Job(id=f"default/{name}", queue="default", roles=roles, submitted_s=submitted_s, limit_s=limit_s, user="ada")


def machine(name: str, cpus: int) -> NodeSeen:
    return NodeSeen(Node(name=name, allocatable=(("cpu", cpus * 1000), ("pods", 110))))


SMALL: list[Event] = [
    machine("n1", 2),
    QueueSeen(Queue(name="default")),
    Adopted(
        job("runs", 2, 100.0), 1, Phase.RUNNING, (Placement(0, 0, "n1"), Placement(0, 1, "n1")), started_s=NOW_S - 40
    ),
    Submitted(job("next", 2, 300.0)),
    Submitted(job("last", 2, 300.0, submitted_s=NOW_S - 30)),
]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two cpus, one job that ends in a minute, and two that wait for it."""
    return saved(tmp_path, SMALL)


def saved(folder: Path, events: list[Event]) -> Path:
    file = folder / "small.jsonl"
    write(file, step_of(NOW_S, Policy(), events, None, begins=True))
    return file


def manifest(folder: Path, text: str) -> tuple[Path, ...]:
    file = folder / "change.yaml"
    file.write_text(text)
    return (file,)


def a_job(name: str, pods: int, limit: str, more: str = "", cpu: str = "1") -> str:
    return f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, annotations: {{phalanx.dev/time-limit: {limit}}}}}
spec:
  parallelism: {pods}
  completions: {pods}
  template:
    spec:
      restartPolicy: Never
      {more}
      containers: [{{name: main, image: x, resources: {{requests: {{cpu: {cpu}}}}}}}]
---
"""


async def asked(saved: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> dict[str, Any]:
    """Return job -> its row."""
    await whatif(snapshot=saved, changes=Changes(**changes), json=True)
    told = json.loads(capsys.readouterr().out)
    return {each["job"].removeprefix("default/"): each for each in told["jobs"]}


def waits(told: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """job -> seconds of waiting without the change, and with it."""
    both = ("before", "after")
    return {job: tuple(each[when] and each[when]["wait_s"] for when in both) for job, each in told.items()}


async def test_without_a_change_it_says_when_what_waits_starts(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert waits(await asked(small, capsys)) == {"next": (60.0, 60.0), "last": (360.0, 360.0)}


async def test_a_job_ahead_of_others_delays_them_by_its_time_limit(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 9\n---\n"
    told = await asked(small, capsys, file=manifest(tmp_path, text + a_job("mine", 2, "2m", "priorityClassName: high")))
    assert waits(told) == {"mine": (None, 60.0), "next": (60.0, 180.0), "last": (360.0, 480.0)}
    assert list(told) == ["mine", "next", "last"]
    assert told["last"]["difference_s"] == 120.0
    assert told["mine"]["now"] == "new"


async def test_a_preemption_is_foreseen_with_whom_and_when(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
apiVersion: phalanx.dev/v1
kind: Queue
metadata: {name: default}
spec: {preemption: {within: lower, grace: 10s}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 9
---
"""
    files = manifest(tmp_path, text + a_job("mine", 2, "2m", "priorityClassName: high"))
    told = await asked(small, capsys, file=files)
    assert told["runs"]["after"]["preempted"] == [{"at": "2026-01-01T00:02:10Z", "by": "default/mine", "ran_s": 40.0}]
    # `runs` leaves within 10 s, `mine` runs 120 s, `next` 300 s; `runs`, as old, runs all its 100 s before `last`.
    assert waits(told) == {"mine": (None, 10.0), "next": (60.0, 130.0), "runs": (0.0, 430.0), "last": (360.0, 530.0)}
    await whatif(snapshot=small, changes=Changes(file=files))
    assert "default/mine at once, having run 40s" in capsys.readouterr().out


async def test_a_larger_limit_of_a_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tight = Queue(name="default", quotas=(Quota(limit=(("cpu", 1000),)),))
    events: list[Event] = [machine("n1", 4), QueueSeen(tight), *(Submitted(job(name, 1, 60.0)) for name in ("a", "b"))]
    text = "apiVersion: phalanx.dev/v1\nkind: Queue\nmetadata: {name: default}\nspec: {quotas: [{limit: {cpu: 2}}]}\n"
    told = await asked(saved(tmp_path, events), capsys, file=manifest(tmp_path, text))
    assert waits(told) == {"a": (0.0, 0.0), "b": (60.0, 0.0)}


async def test_nodes_like_one_that_there_is(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = waits(await asked(small, capsys, add_nodes=("2xn1",)))
    assert both == {"next": (60.0, 0.0), "last": (360.0, 0.0)}
    assert waits(await asked(small, capsys, add_nodes=("2",), like="n1")) == both


async def test_a_node_from_a_file(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: n2}\nstatus: {capacity: {cpu: 2}}\n"
    told = await asked(small, capsys, file=manifest(tmp_path, text))
    assert waits(told) == {"next": (60.0, 0.0), "last": (360.0, 60.0)}


async def test_a_node_that_is_gone_takes_with_it_what_runs_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node's job is placed on another node; a job that waited for that capacity waits longer."""
    events = [*SMALL, machine("n2", 4), Occupied("dns", "n1", (("cpu", 0),))]
    told = await asked(saved(tmp_path, events), capsys, delete=("node/n1",))
    assert waits(told) == {"next": (0.0, 0.0), "last": (0.0, 60.0)}


async def test_a_deleted_job_and_a_deleted_queue(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = await asked(small, capsys, delete=("job/default/runs", "job/next"))
    assert waits(told) == {"last": (360.0, 0.0), "next": (60.0, None), "runs": (0.0, None)}
    told = await asked(small, capsys, delete=("queue/default",))
    assert told["next"]["after"]["reason"]["code"] == "QueueUnknown"


async def test_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`thin` fits beside the running jobs, but would delay `wide`: so it waits, unless backfill is greedy."""
    half = Adopted(job("half", 1, 100.0), 1, Phase.RUNNING, (Placement(0, 0, "n1"),), started_s=NOW_S - 40)
    later = [Submitted(job("wide", 2, 30.0)), Submitted(job("thin", 1, 300.0, NOW_S - 5))]
    greedy = tmp_path / "policy.yaml"
    greedy.write_text("backfill: greedy\n")
    told = await asked(saved(tmp_path, [*SMALL[:2], half, *later]), capsys, policy=greedy)
    assert waits(told) == {"wide": (60.0, 300.0), "thin": (90.0, 0.0)}


async def test_a_waiting_job_can_be_changed_and_keeps_its_age(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = await asked(small, capsys, file=manifest(tmp_path, a_job("next", 2, "10s")))
    assert waits(told) == {"next": (60.0, 60.0), "last": (360.0, 70.0)}


async def test_an_unknown_priority_class_is_said(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = manifest(tmp_path, a_job("mine", 1, "10s", "priorityClassName: high"))
    await whatif(snapshot=small, changes=Changes(file=files))
    assert (
        "change.yaml:11: the PriorityClass high is unknown, so the priority is assumed to be 0"
        in capsys.readouterr().err
    )


async def test_the_table_and_what_is_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placed = (Placement(0, 0, "n1"),)
    free = Adopted(job("free", 1, None), 1, Phase.RUNNING, placed, started_s=NOW_S - 9)
    await whatif(
        snapshot=saved(tmp_path, [*SMALL[:2], free, SMALL[3], Submitted(job("huge", 9, 1.0))]), assume_run="5m"
    )
    assert capsys.readouterr().out == (
        "JOB            QUEUE     NOW     BEFORE    AFTER     DIFFERENCE   PREEMPTED BY\n"
        "default/next   default   waits   5m        5m        same\n"
        "default/huge   default   waits   over 7d   over 7d   same\n"
        "\n"
        "1 running job not listed, because no job preempts it.\n"
        "default/free runs without a time limit, and is assumed to end in 5m (--assume-run).\n"
        "default/huge does not start within 7d: NeverFits: 9 pods of role main asked, but the matching nodes (1) can "
        "hold 2 of them when empty (1 cpu each)\n"
    )


async def test_where_run_times_are_known_it_says_what_is_expected_with_the_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = [RunTold(job(f"runs-{number}", 2, 100.0), 50.0) for number in range(20)]
    file = saved(tmp_path, [*ran, *SMALL])
    await whatif(snapshot=file)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("PREEMPTED BY   EXPECTED START")
    assert [line.split()[-2:] for line in lines[1:3]] == [["00:03", "UTC"], ["00:05", "UTC"]]
    await whatif(snapshot=file, json=True)
    found = {each["job"]: each for each in json.loads(capsys.readouterr().out)["jobs"]}
    assert found["default/next"]["after"]["wait_s"] == 60.0  # by limits
    assert found["default/next"]["expected_start"]["at"] < found["default/next"]["expected_start"]["latest"]
    await whatif(snapshot=file, changes=Changes(add_nodes=("2xn1",)))
    assert "EXPECTED" not in capsys.readouterr().out  # all start at once


async def test_a_recording_is_taken_as_it_was_after_its_last_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`next` was started by a decision in it, and runs."""
    file = tmp_path / "day.jsonl"
    start = Start("default/next", 1, (Placement(0, 0, "n1"), Placement(0, 1, "n1")), NOW_S)
    first = step_of(NOW_S, Policy(), [*SMALL[:2], SMALL[3]], [start], begins=True)
    write(file, first)
    second = step_of(NOW_S + 100, None, [Started("default/next", 1), SMALL[4]], [], begins=False)
    with file.open("a") as stream:
        stream.write(json.dumps(second) + "\n")
    assert waits(await asked(file, capsys)) == {"last": (200.0, 200.0)}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"delete": ("node/n2",)}, r"node/n2: there is no 'n2'\. Nothing was simulated\. Known names: n1\."),
        ({"delete": ("job/nothing/like-it",)}, r"Known names: default/last, default/next, default/runs\."),
        ({"delete": ("pod/x",)}, "write job/NAMESPACE/NAME, node/NAME"),
        ({"add_nodes": ("4",)}, "--add-nodes 4: write the number and an existing node"),
        ({"add_nodes": ("0xn1",)}, "from 1 to 100000"),
        ({"add_nodes": ("many",)}, "--add-nodes many: write the number"),
        ({"add_nodes": ("2xn7",)}, r"node/n7: there is no 'n7'"),
    ],
)
async def test_what_cannot_be_changed_is_said(small: Path, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PhalanxError, match=complaint):
        await whatif(snapshot=small, changes=Changes(**changes))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n",
            r"change\.yaml:2: a Secret \(v1\) cannot be simulated",
        ),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: x}\n", "the manifest of the node has no resources"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {}\n", r"spec\.template is missing"),
        (a_job("x", 1, "1h").replace("parallelism: 1", "parallelism: one"), "this cannot be read as a Job"),
        (
            "apiVersion: phalanx.dev/v1\nkind: Queue\nmetadata: {name: x}\nspec:\n  wieght: 3\n",
            r"change\.yaml:5: spec\.wieght: there is no such field; did you mean weight\?",
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: x}\nstatus:\n  allocatable:\n    cpu: sixty\n",
            r"change\.yaml:6: status\.allocatable\.cpu: 'sixty' is not a quantity",
        ),
    ],
)
async def test_a_manifest_that_cannot_be_read_names_its_line(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    with pytest.raises(PhalanxError, match=complaint):
        await asked(small, capsys, file=manifest(tmp_path, text))


async def test_what_a_scheduler_would_let_wait_waits(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = await asked(small, capsys, file=manifest(tmp_path, a_job("x", 1, "soon")))
    assert told["x"]["after"]["wait_s"] is None
    assert "soon" in told["x"]["after"]["reason"]["text"]


async def test_of_a_live_cluster_the_objects_are_read_anew_with_the_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second member completes a gang whose first is there already, with the priority class of the cluster."""
    first = batch_job("first", 2, "1")
    said = {"phalanx.dev/job": "pair", "phalanx.dev/job-roles": "2"}
    first["metadata"]["labels"] |= said
    sight = snapshot(node("n1"), queue("default"), first)

    async def beginning(*_: object) -> Any:
        return sight.cluster, sight.objects

    monkeypatch.setattr(command, "beginning", beginning)
    labels = json.dumps(said | {"phalanx.dev/queue": "default"})
    text = a_job("second", 2, "1h").replace("name: second", f"name: second, labels: {labels}")
    await whatif(changes=Changes(file=manifest(tmp_path, text)), json=True)
    [pair] = json.loads(capsys.readouterr().out)["jobs"]
    assert (pair["before"]["wait_s"], pair["before"]["reason"]["code"]) == (None, "WaitingForMembers")
    assert pair["after"]["wait_s"] == 0.0


def test_the_guide_shows_what_the_command_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)

    def answer(found: re.Match[str]) -> str:
        words = found["words"].split()
        build(words[0])(words, exit_on_error=False, result_action="return_value")
        return found[1] + capsys.readouterr().out + found[4]

    page = PAGE.read_text()
    now = BLOCK.sub(answer, page)
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    assert page == now, "other answers: PHALANX_REWRITE=1 .venv/bin/pytest tests/cli/test_whatif.py"
    assert len(BLOCK.findall(page)) == 4
