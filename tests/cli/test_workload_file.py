"""Users' own workload and cluster files: the fields of jobs and nodes, and the errors of invalid ones."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from phalanx import loop
from phalanx.cli.app import build
from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.errors import PhalanxError
from phalanx.model.job import Dependency
from phalanx.model.pod import DeviceShare
from phalanx.simulator.cluster.disturbance import Faults
from phalanx.simulator.generate import scaled
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.run.play import inflated, play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.schedule import Schedule, sizes
from phalanx.simulator.workload import Workload
from tests.simulator.builders import starts

ROOT = Path(__file__).parents[2]
EXAMPLE, PAGE = ROOT / "examples" / "simulate" / "workload.yaml", ROOT / "docs" / "guide" / "simulate.md"
M, H = 60, 3600


def read(tmp_path: Path, text: str, cluster: str = "") -> Workload:
    trace = tmp_path / "own.yaml"
    trace.write_text(text)
    if cluster:
        (tmp_path / "cluster.yaml").write_text(cluster)
    return workload_of(TraceSource(trace=trace, cluster=str(tmp_path / "cluster.yaml") if cluster else ""), 0)


def played(tmp_path: Path, text: str, faults: Faults | None = None) -> Schedule:
    return play(read(tmp_path, text), built_in("easy"), loop.step, faults=faults)


def test_the_example_runs_as_one_can_work_out() -> None:
    schedule = play(workload_of(TraceSource(trace=EXAMPLE), 0), built_in("easy"), loop.step)
    assert starts(schedule) == {
        # Each takes a rack of 8 GPUs; the third, of at least two, waits for what is free first.
        "train": 0,
        "parameter-server": 1 * M,
        "elastic": 31 * M,
        # Both racks are full until train ends; then both have room on one GPU.
        "notebook": 1 * H,
        "inference": 1 * H,
        # Its reservation begins.
        "lesson": 2 * H,
        # elastic ended at 31 + 40 minutes, so the right rack is free.
        "aligned": 75 * M,
        # Two at a time, ten minutes each; then the job that depends on all of them.
        **{f"sweep_{each}": each // 2 * 10 * M for each in range(6)},
        "gather": 30 * M,
        "nightly-1": 0,
        "nightly-2": 20 * M,
        "report": 1 * H,
        # sweep_5 starts at 20 minutes; nightly-1 is over at 20 minutes: either is enough.
        "watch": 20 * M,
    }
    assert all(fate.end_s is not None for fate in schedule.fates)
    lying = {fate.task.job.id: where(schedule, fate.index) for fate in schedule.fates}
    assert lying["train"] == {"left-0": 4, "left-1": 4}
    assert lying["lesson"] == {"left-0": 1}
    assert lying["notebook"] == lying["inference"]
    assert dict(zip(lying, sizes(schedule), strict=True))["inference"] == 0.5  # 40 GiB of 80
    assert set(lying["aligned"]) <= {"right-0", "right-1"}
    assert lying["elastic"] == {"right-0": 4, "right-1": 4}
    assert measure(schedule)["value_attained_ratio"] == 1  # the report is over 68 minutes after its submission


def where(schedule: Schedule, task: int) -> dict[str, int]:
    """How many of its pods first ran on each node."""
    stint = next(stint for stint in schedule.stints if stint.task == task and stint.works)
    nodes = [placement.node for placement in stint.placements]
    return {node: nodes.count(node) for node in sorted(set(nodes))}


@pytest.mark.parametrize(
    "text",
    [
        "jobs: [{run: 1, zzzzzz: 1}]",
        "jobs: [{run: 1, groups: [{name: g, zzzzzz: 1}]}]",
        "jobs: [{run: 1, after: [{job: a, zzzzzz: 1}]}]",
        "jobs: [{run: 1, array: {jobs: 1, zzzzzz: 1}}]",
        "jobs: [{run: 1, tolerations: [{key: a, zzzzzz: 1}]}]",
        "nodes: [{zzzzzz: 1}]",
        "nodes: [{devices: [{name: a, zzzzzz: 1}]}]",
        "nodes: [{zones: [{name: a, zzzzzz: 1}]}]",
        "nodes: [{taints: [{key: a, zzzzzz: 1}]}]",
    ],
)
def test_every_word_is_in_the_example_and_in_the_guide(tmp_path: Path, text: str) -> None:
    with pytest.raises(PhalanxError) as raised:
        read(tmp_path, text)
    known = str(raised.value).partition("known are ")[2].split(", ")
    assert len(known) > 1
    example, page = EXAMPLE.read_text(), PAGE.read_text()
    assert [word for word in known if not re.search(rf"\b{word}:", example) and word not in EXPLAINED] == []
    assert [word for word in known if not re.search(rf"\b{word}\b", page)] == []


EXPLAINED = {"parent", "value", "effect"}  # fields that the example does not explain


def test_the_example_is_played_as_it_is_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s.csv"
    words = ["simulate", str(EXAMPLE), "--policy", "easy", "--schedule", str(out), "--processes", "1"]
    assert build("simulate")(words, exit_on_error=False, result_action="return_value") == 0
    assert capsys.readouterr().err == ""  # nothing is left out, nothing can never run
    assert {row["outcome"] for row in csv.DictReader(out.open())} == {"succeeded"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("jobs:\n- id: a\n  run: 1\n  closenes: rack\n", "4: jobs[0].closenes: there is no such field; did you mean"),
        (
            "jobs:\n- id: a\n  run: 1\n  closeness: rack\n  preferredCloseness: rack\n",
            "5: jobs[0].preferredCloseness: closeness is already rack: set only one of them",
        ),
        ("jobs:\n- {run: 1, balanced: true}\n", "2: jobs[0].balanced: balanced needs closeness or"),
        ("jobs:\n- {run: 1, slice: 4}\n", "2: jobs[0].slice: 4 is not text; put it in quotes"),
        ("jobs:\n- {run: 1, slice: four}\n", "2: jobs[0].slice: write PODS@LEVEL, for instance 4@kubernetes.io"),
        (
            "jobs:\n- {run: 1, size: big}\n",
            "2: jobs[0].size: 'big' is not one of elastic, in-turn, fixed-at-start, in-steps",
        ),
        ("jobs:\n- {run: 1, minimum: 2}\n", "2: jobs[0].minimum: 2 is not a whole number from 0 to 1"),
        ("jobs:\n- {run: 1, array: 0}\n", "2: jobs[0].array: 0 is not a whole number from 1 to"),
        (
            "jobs:\n- {run: 1, array: {running: 2}}\n",
            "2: jobs[0].array.jobs: the number of the array's jobs is missing",
        ),
        ("jobs:\n- {run: 1, array: {jobs: 9, cap: 2}}\n", "2: jobs[0].array.cap: there is no such field; known are"),
        (
            "jobs:\n- {run: 1, id: a, array: 3}\n- {run: 1, id: a_2}\n",
            "3: jobs[1].id: an earlier entry is already named 'a_2'",
        ),
        (
            "jobs:\n- {run: 1, id: a_2}\n- {run: 1, id: a, array: 3}\n",
            "3: jobs[1].id: an earlier entry is already named 'a_2'",
        ),
        (
            "jobs:\n- {run: 1, gpuFraction: 2}\n",
            "2: jobs[0].gpuFraction: phalanx.dev/gpu-fraction '2' is not from",
        ),
        ("jobs:\n- {run: 1, gpuMemory: much}\n", "2: jobs[0].gpuMemory: phalanx.dev/gpu-memory: 'much' is not a"),
        (
            "jobs:\n- {run: 1, gpuFraction: 0.5, gpuMemory: 1Gi}\n",
            "2: jobs[0].gpuFraction: it sets phalanx.dev/gpu-fraction and phalanx.dev/gpu-memory: set only one of them",
        ),
        ("jobs:\n- {run: 1, aligned: yes}\n", "2: jobs[0].aligned: True is not one of no, preferred, required"),
        ("jobs:\n- {run: 1, tolerations: [{value: x}]}\n", "2: jobs[0].tolerations[0].key: no key;"),
        (
            "jobs:\n- {run: 1, tolerations: [{key: x, operator: In}]}\n",
            "2: jobs[0].tolerations[0].operator: 'In' is",
        ),
        ("jobs:\n- {run: 1, groups: [{parent: x}]}\n", "2: jobs[0].groups[0]: a group must have a name"),
        ("jobs:\n- run: 1\n  roles:\n  - {group: ring}\n", "4: jobs[0].roles[0].group: the job has no group 'ring'"),
        ("jobs:\n- run: 1\n  pods: 2\n  roles:\n  - {pods: 1}\n", "3: jobs[0].pods: there is no such field; "),
        ("jobs:\n- {run: 1, after: [{when: ok}]}\n", "2: jobs[0].after[0].job: it has no job"),
        (
            "jobs:\n- {run: 1, after: [{job: a, when: done}]}\n",
            "2: jobs[0].after[0].when: 'done' is not one of",
        ),
        ("jobs:\n- {run: 1, worth: {soon: 1}}\n", "2: jobs[0].worth.soon: 'soon' is not a length of time; write"),
        ("jobs:\n- {run: 1, worth: {1h: 1.0e+308}}\n", "2: jobs[0].worth.1h: 1e+308 is more than 1000000000"),
        ("jobs:\n- {run: 1, array: 99999999}\n", "2: jobs[0].array: 99999999 is not a whole number from 1 to 10000000"),
        ("jobs:\n- {run: 1, worth: {1h: -1}}\n", "2: jobs[0].worth.1h: -1 is not a number of at least 0"),
        ("jobs:\n- {run: 1, deadline: tomorrow}\n", "2: jobs[0].deadline: 'tomorrow' is not a length of time; write"),
        ("generate: {slice: 1}\n", "1: generate.slice: 1 is not text"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(PhalanxError) as raised:
        read(tmp_path, text)
    assert f"own.yaml:{complaint}" in str(raised.value)


def test_who_names_a_reservation_that_there_is_not_does_not_wait_for_ever(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError) as raised:
        read(tmp_path, "nodes: [{name: n}]\njobs: [{id: a, run: 1, reservation: course}]\n")
    assert "own.yaml: job a names the reservation course, but there is no reservation" in str(raised.value)


ONE_NODE = "nodes: [{name: n, allocatable: {cpu: 4}}]\n"
UPKEEP = "reservations: [{name: upkeep, start: 100, end: 200, nodes: [n]}]\n"


@pytest.mark.parametrize("restart_every_s", [None, 30.0])
def test_nobody_runs_into_maintenance_also_not_after_a_restart(tmp_path: Path, restart_every_s: float | None) -> None:
    text = (
        f"{ONE_NODE}{UPKEEP}jobs:\n"
        "- {id: fits, run: 90, limit: 100, requests: {cpu: 1}}\n"
        "- {id: too-long, run: 50, limit: 101, requests: {cpu: 1}}\n"
        "- {id: no-limit, run: 5, requests: {cpu: 1}}\n"
    )
    faults = None if restart_every_s is None else Faults(restart_every_s=restart_every_s)
    found = starts(played(tmp_path, text, faults=faults))
    assert found["fits"] == 0
    assert found["too-long"] == found["no-limit"] == 200


def test_a_rack_is_asked_for_and_measured(tmp_path: Path) -> None:
    text = (
        "topologies: [{levels: [rack]}]\n"
        "nodes:\n- {name: a, count: 2, allocatable: {cpu: 4}, labels: {rack: a}}\n"
        "- {name: b, count: 2, allocatable: {cpu: 4}, labels: {rack: b}}\n"
        "jobs:\n- {id: small, run: 100, requests: {cpu: 4}}\n"
        "- {id: gang, run: 100, pods: 3, requests: {cpu: 4}}\n"
        "- {id: close, submit: 10, run: 100, pods: 2, requests: {cpu: 4}, closeness: rack}\n"
    )
    found = measure(played(tmp_path, text))
    assert (found["gangs"], found["by_level"]["rack"]["one_domain_ratio"]) == (2, 0.5)  # three pods need two racks


def test_an_array_is_awaited_as_a_whole_or_by_one_of_its_jobs(tmp_path: Path) -> None:
    text = (
        f"{ONE_NODE}jobs:\n- {{id: a, array: 3, run: 10, requests: {{cpu: 4}}}}\n"
        "- {id: all, run: 1, after: [{job: a}], requests: {cpu: 1}}\n"
        "- {id: first, run: 1, after: [{job: a_0, when: any}], requests: {cpu: 1}}\n"
    )
    workload = read(tmp_path, text)
    after = {task.job.id: task.job.after for task in workload.tasks}
    assert after["all"] == tuple(Dependency(job=f"a_{each}") for each in range(3))
    assert [each.job for each in after["first"]] == ["a_0"]
    assert [task.job.array_cap for task in workload.tasks] == [None] * 5
    assert starts(played(tmp_path, text))["all"] == 30


def test_load_moves_what_a_job_says_of_times_along_with_it(tmp_path: Path) -> None:
    text = f"{ONE_NODE}jobs:\n- {{run: 1}}\n- {{id: b, submit: 100, begin: 120, deadline: 150, run: 1}}\n"
    job = scaled(read(tmp_path, text).tasks, 2.0)[1].job
    assert (job.submitted_s, job.begin_s, job.deadline_s) == (50, 70, 100)


def test_copies_are_not_tied_to_each_other(tmp_path: Path) -> None:
    text = f"{ONE_NODE}jobs:\n- {{array: {{jobs: 2, running: 1}}, singleton: s, run: 1, requests: {{cpu: 1}}}}\n"
    tasks = inflated(read(tmp_path, text), 1.0, 0).tasks
    assert len(tasks) == 4
    assert {(task.job.array, task.job.array_cap, task.job.singleton) for task in tasks} == {("", None, "")}


def test_what_is_generated_may_ask_the_same(tmp_path: Path) -> None:
    text = (
        "nodes: [{name: n, count: 2, allocatable: {cpu: 8}, labels: {rack: a}, devices: [{name: g, count: 4}]}]\n"
        "generate: {jobs: 9, pods: {values: {1: 1, 2: 1}}, gpuFraction: 0.25, closeness: rack}\n"
    )
    found = read(tmp_path, text)
    assert found.counted == "nvidia.com/gpu"
    roles = [task.job.roles[0] for task in found.tasks]
    quarter = DeviceShare(resource="nvidia.com/gpu", milli=250)
    assert {(role.shape.share, role.shape.requests) for role in roles} == {(quarter, ())}
    assert {(task.job.roles[0].count, task.job.closeness is None) for task in found.tasks} == {(1, True), (2, False)}
