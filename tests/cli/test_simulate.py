"""`phalanx simulate`, as it is typed."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from phalanx.cli.app import build
from phalanx.cli.study.simulation.results import combined
from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.errors import PhalanxError
from phalanx.simulator.readers import swf
from phalanx.simulator.schedule import mean
from tests.simulator.builders import DATA, KTH

OWN = """
nodes:
- {name: n, count: 2, allocatable: {cpu: 8, nvidia.com/gpu: 4}}
jobs:
- {id: a, submit: 0, run: 1m, pods: 2, requests: {cpu: 2, nvidia.com/gpu: 4}, queue: x}
- {id: b, submit: 10, run: 30s, requests: {nvidia.com/gpu: 1}, queue: y, deadline: 85}
- {id: c, submit: 20, run: 1s, pods: 3, requests: {nvidia.com/gpu: 4}}
"""


def simulate(*words: object) -> int:
    asked = ["simulate", *map(str, words)]
    return build("simulate")(asked, exit_on_error=False, result_action="return_value")


def objects(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict]:
    assert simulate(*words, "--json", "--processes", 1) in {0, 3}  # 3: some can never run
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def own(tmp_path: Path, text: str = OWN) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_one_object_for_each_policy_with_the_documented_names(capsys) -> None:
    found = objects(capsys, KTH, "--first", 60, "--policy", "fifo", "greedy", "--estimates", "user", "exact")
    assert [(each["policy"], each["estimates"]) for each in found] == [
        ("fifo", "user"),
        ("fifo", "exact"),
        ("greedy", "user"),
        ("greedy", "exact"),
    ]
    page = (Path(__file__).parents[2] / "docs" / "guide" / "simulate.md").read_text()
    documented = set(re.findall(r"`([a-z0-9_]+)`", page))
    statistics = re.compile(r"^(median|p90|p95|p99|max)_")
    unnamed = {name for name in found[0] if statistics.sub("mean_", name) not in documented and name not in documented}
    assert unnamed <= {"trace", "policy", "estimates", "seed", "interrupted"}


@pytest.mark.slow
def test_many_at_once_give_what_one_after_the_other_gives(tmp_path: Path, capsys) -> None:
    words = (KTH, "--first", 60, "--policy", "fifo", "easy", "--seeds", 2, "--shake", "60s", "--json")
    hashes = []
    for processes in (1, 2):
        assert simulate(*words, "--processes", processes) == 0
        hashes.append([json.loads(line)["schedule_sha256"] for line in capsys.readouterr().out.splitlines()])
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0][0])) == 2  # each seed shakes in its own way


@pytest.mark.slow
def test_seeds_give_means_intervals_and_paired_differences(capsys) -> None:
    first, second = objects(
        capsys,
        KTH,
        "--first",
        80,
        "--policy",
        "fifo",
        "greedy",
        "--seeds",
        3,
        "--seed",
        5,
        "--load",
        3,
        "--shake",
        "30m",
    )
    assert first["seeds"] == [5, 6, 7]
    assert first["ci95"]["mean_wait_s"] > 0
    assert "versus" not in first
    difference = second["versus"]["mean_wait_s"]
    assert difference["difference"] == pytest.approx(second["mean_wait_s"] - first["mean_wait_s"])


@pytest.mark.parametrize(
    ("trace", "resource", "pods"),
    [
        ("; MaxProcs: 64\n1 0 -1 9 10 -1 -1 10 9 -1 1 1 1 1 1 1 -1 -1\n", "cpu", [(2, 4000), (1, 2000)]),
        (
            "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60,7,420,a\n",
            "nvidia.com/gpu",
            [(3, 2), (1, 1)],
        ),
    ],
)
def test_jobs_larger_than_any_node_are_gangs_of_pods(
    tmp_path: Path, trace: str, resource: str, pods: list[tuple[int, int]]
) -> None:
    log = tmp_path / "log"
    log.write_text(trace)
    (tmp_path / "nodes.yaml").write_text("nodes: [{name: n, count: 9, allocatable: {cpu: 4500m, nvidia.com/gpu: 2}}]")
    (task,) = workload_of(TraceSource(trace=log, cluster=str(tmp_path / "nodes.yaml")), seed=0).tasks
    assert [(role.count, dict(role.shape.requests)[resource]) for role in task.job.roles] == pods


def test_a_workload_of_one_s_own(tmp_path: Path, capsys) -> None:
    (found,) = objects(capsys, own(tmp_path), "--policy", "greedy")
    assert (found["jobs"], found["finished"], found["unfinished"]) == (3, 2, 1)
    assert found["by_queue"]["y"]["mean_wait_s"] == 50
    assert found["deadline_miss_ratio"] == 1


def test_what_can_never_run_is_said_at_the_start(tmp_path: Path, capsys) -> None:
    simulate(own(tmp_path), "--policy", "greedy", "--processes", 1)
    told = capsys.readouterr()
    why = "3 pods asked, but the matching nodes (2) can hold 2 of them when empty"
    assert f"own.yaml: job c can never run: {why}" in told.err
    assert told.out.startswith("POLICY")


def test_queues_that_are_missing_are_said_first_counted_and_in_the_exit_code(tmp_path: Path, capsys) -> None:
    (tmp_path / "mine.yaml").write_text("policy: {backfill: greedy}\nqueues:\n- {name: x}\n")
    ended = simulate(own(tmp_path), "--policy", tmp_path / "mine.yaml", "--processes", 1)
    said = [line for line in capsys.readouterr().err.splitlines() if "can never run" in line]
    assert said[0].startswith("own.yaml: 2 of 3 jobs can never run")
    assert any("queue 'y'" in line for line in said[1:])
    assert ended == 3


def test_where_no_job_ended_there_are_no_means(tmp_path: Path, capsys) -> None:
    (tmp_path / "mine.yaml").write_text("policy: {backfill: greedy}\nqueues:\n- {name: z}\n")
    assert simulate(own(tmp_path), "--policy", tmp_path / "mine.yaml", "--processes", 1) == 3
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["mine", "3", "-", "-"]


def test_what_would_take_years_is_refused(capsys) -> None:
    with pytest.raises(CycloptsError):
        simulate(KTH, "--seeds", 1_000_000_000)


def test_who_did_not_end_is_said_beside_the_means_of_who_did(tmp_path: Path, capsys) -> None:
    simulate(own(tmp_path), "--policy", "greedy", "--processes", 1)
    assert (
        "own.yaml: under greedy 1 of 3 jobs did not end; the means count only the other jobs" in capsys.readouterr().err
    )


def test_a_policy_as_a_file(tmp_path: Path, capsys) -> None:
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "policy: {backfill: greedy, defaultQueue: all}\n"
        "queues:\n- {name: all}\n- {name: x, parent: all, limits: {perJob: {resources: {nvidia.com/gpu: 4}}}}\n"
        "each: {parent: all}\n"
    )
    (found,) = objects(capsys, own(tmp_path), "--policy", policy)
    assert found["policy"] == "mine"
    assert found["unfinished"] == 2  # a asks more than a job may in x, and c more than there is


def test_a_preempted_elastic_job_holds_nothing_while_it_waits(tmp_path: Path, capsys) -> None:
    """The urgent job takes one of the four CPUs, and the elastic job, which needs four, all or nothing: the other three
    are free for a job that comes later."""
    workload = own(
        tmp_path,
        "nodes:\n- {name: n, count: 1, allocatable: {cpu: 4}}\njobs:\n"
        "- {id: elastic, submit: 0, run: 1000, queue: q, pods: 3, minimum: 2, size: elastic, requests: {cpu: 2}}\n"
        "- {id: urgent, submit: 100, run: 1000, queue: q, priority: 5, pods: 1, requests: {cpu: 1}}\n"
        "- {id: late, submit: 200, run: 100, queue: q, pods: 3, requests: {cpu: 1}}\n",
    )
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "policy: {defaultQueue: q}\nqueues:\n"
        "- {name: q, quotas: [{guaranteed: {cpu: 4}}], preemption: {within: lower, reclaim: any}}\n"
    )
    (found,) = objects(capsys, workload, "--policy", policy)
    assert (found["finished"], found["preemptions"], found["max_wait_s"]) == (3, 1, 0)
    assert found["makespan_s"] == 2600  # elastic starts again at 1100, with two of its three pods
    assert found["utilisation"] == pytest.approx((100 * 4 + 1000 * 1 + 100 * 3 + 1500 * 4) / (2600 * 4))


def test_generated_jobs(tmp_path: Path, capsys) -> None:
    path = own(
        tmp_path,
        "nodes: [{count: 4, allocatable: {cpu: 16}}]\n"
        "generate: {jobs: 50, every: 10s, pods: {values: {1: 3, 8: 1}}, requests: {cpu: 1}, run: {exponential: 1m}, "
        "limitFactor: {uniform: [1, 2]}, users: 3, queues: {a: 1, b: 1}}\n",
    )
    found = objects(capsys, path, "--policy", "greedy", "--seeds", 2)
    assert found[0]["jobs"] == 50
    assert len(set(found[0]["schedule_sha256"])) == 2


@pytest.mark.slow
def test_seeds_are_taken_together_by_level_and_by_queue_too(tmp_path: Path, capsys) -> None:
    work, near = tmp_path / "racks.yaml", tmp_path / "near.yaml"
    work.write_text(
        "nodes:\n- {name: a, count: 4, allocatable: {cpu: 8}, labels: {rack: a}}\n"
        "- {name: b, count: 4, allocatable: {cpu: 8}, labels: {rack: b}}\n"
        "generate: {jobs: 30, every: 1h, pods: {values: {4: 1}}, requests: {cpu: 8}, run: 1m, queues: {x: 1}}\n"
    )
    near.write_text("policy: {topologies: [{levels: [rack]}]}\n")
    (one,) = objects(capsys, work, "--policy", near)
    (both,) = objects(capsys, work, "--policy", near, "--seeds", 2)
    assert (one["gangs"], one["one_node_ratio"], one["mean_nodes_per_gang"]) == (30, 0, 4)  # each on four whole nodes
    assert one["by_level"] == both["by_level"] == {"rack": {"one_domain_ratio": 1, "mean_domains_per_gang": 1}}
    assert both["by_queue"]["x"]["finished"] == 30
    assert both["ci95"]["by_queue"]["x"]["median_jct_s"] == 0


def test_of_seeds_that_lack_a_number_the_others_count() -> None:
    rows = [
        {"a": 1, "by": {"x": {"wait": None}}},
        {"a": 3, "gangs": 4, "by": {"x": {"wait": 7.0}, "y": {"wait": None}}},
    ]
    assert combined(rows, mean) == {"a": 2, "gangs": 4, "by": {"x": {"wait": 7}, "y": {"wait": None}}}


@pytest.mark.slow
def test_jobs_drawn_from_a_log(tmp_path: Path, capsys) -> None:
    (tmp_path / KTH.name).write_bytes(KTH.read_bytes())
    path = own(
        tmp_path, f"nodes: [{{allocatable: {{cpu: 100}}}}]\ngenerate: {{jobs: 40, every: 1h, like: {KTH.name}}}\n"
    )
    (found,) = objects(capsys, path, "--policy", "greedy")
    assert (found["jobs"], found["finished"]) == (40, 40)


@pytest.mark.slow
def test_schedules_as_csv_and_as_a_log(tmp_path: Path, capsys) -> None:
    log, table = tmp_path / "s.swf", tmp_path / "s.csv"
    objects(capsys, KTH, "--first", 30, "--policy", "greedy", "--schedule", log)
    objects(capsys, KTH, "--first", 30, "--policy", "greedy", "--schedule", table)
    replayed = swf.read(log)
    assert dict(replayed.nodes[0].allocatable)["cpu"] == 100_000
    rows = list(csv.DictReader(table.open()))
    assert [task.job.id for task in replayed.tasks] == [row["job"] for row in rows]
    assert [task.waited_s for task in replayed.tasks] == [
        float(row["start_s"]) - float(row["submit_s"]) for row in rows
    ]
    objects(capsys, KTH, "--first", 30, "--policy", "greedy", "fifo", "--schedule", table)
    assert (tmp_path / "s-kth-sp2-4000.swf-greedy-user-0.csv").exists()


@pytest.mark.slow
def test_results_as_csv_and_parquet(tmp_path: Path, capsys) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (found,) = objects(
        capsys,
        KTH,
        "--first",
        30,
        "--policy",
        "greedy",
        "--csv",
        tmp_path / "r.csv",
        "--parquet",
        tmp_path / "r.parquet",
    )
    (row,) = csv.DictReader((tmp_path / "r.csv").open())
    assert float(row["mean_wait_s"]) == found["mean_wait_s"]
    assert float(row["by_size.1.jobs"]) == found["by_size"]["1"]["jobs"]
    assert parquet.read_table(tmp_path / "r.parquet").to_pylist()[0]["schedule_sha256"] == found["schedule_sha256"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nothing.swf"], "nothing.swf: there is no such file"),
        ([KTH, "--policy", "best"], "there is no policy 'best'"),
        ([KTH, "--policy"], "--policy has no value; leave the option out, or write for example --policy easy fifo"),
        (
            [KTH, "--estimates"],
            "--estimates has no value; leave the option out, or write for example --estimates user exact",
        ),
        ([KTH, "--policy", DATA / "philly.csv"], "philly.csv': a file of one ends in .yaml, .yml, .json or .py"),
        ([KTH, "--policy", "nothing.yaml"], "nothing.yaml: No such file"),
        ([KTH, "--estimates", "guess"], "--estimates guess: not one of"),
        ([KTH, "--fault", "flood=1"], "there is no fault 'flood'"),
        ([KTH, "--fault", "late=2"], "a probability is from 0 to 1"),
        ([KTH, "--shake", "soon"], "--shake: 'soon' is not a length of time"),
        ([DATA / "philly.csv"], "the trace does not describe a cluster"),
        ([DATA / "philly.csv", "--cluster", "0x8"], "write 1x1 to"),
        ([DATA / "philly.csv", "--cluster", "nothing.yaml"], "nothing.yaml: "),
        (
            [KTH, "--first", "5", "--csv", "/nowhere/at/all.csv"],
            "/nowhere/at/all.csv cannot be written: there is no folder /nowhere/at",
        ),
        ([KTH, "--max-wait", "3d", "--aside", "0.2"], "--max-wait, --aside: this needs --tune FILE"),
        ([KTH, "--tune", "best.yaml", "--json", "--csv", "r.csv"], "leave out --csv, --json"),
    ],
)
def test_what_is_wrong_is_said(words: list[object], complaint: str) -> None:
    with pytest.raises(PhalanxError) as raised:
        simulate(*words)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("jobs:\n- {id: a}\n", "own.yaml:2: jobs[0].run: the run time of the job is missing"),
        (
            "jobs:\n- {id: a, run: 1}\n- {id: a, run: 1}\n",
            "own.yaml:3: jobs[1].id: an earlier entry is already named 'a'",
        ),
        ("jobs:\n- {id: a, run: -1}\n", "own.yaml:2: jobs[0].run: -1 is not from 0 s to a hundred years"),
        ("jobs:\n- id: a\n  run: 1\n  pods: 0\n", "own.yaml:4: jobs[0].pods: 0 is not a whole number from 1"),
        ("jobs:\n- {id: a, run: 1, requests: {cpu: -1}}\n", "own.yaml:2: jobs[0].requests.cpu: -1 is negative"),
        (
            "jobs:\n- id: a\n  run: 1\n  after:\n  - {job: b}\n",
            "own.yaml:5: jobs[0].after[0].job: there is no job 'b' to wait for",
        ),
        (
            "jobs:\n- {id: job-1, run: 1}\ngenerate: {jobs: 2}\n",
            "own.yaml:2: jobs[0].id: 'job-1' is the name of a generated job",
        ),
        ("generate: {run: {weibull: 3}}\n", "own.yaml:1: generate.run: weibull has invalid values"),
        ("generate: {day: {swing: 2}}\n", "own.yaml:1: generate.day.swing: 2 is not between 0 and 1"),
        ("nodes:\n- {name: a}\n- {name: a}\n", "own.yaml:1: nodes: there are two nodes with the name 'a'"),
        ("job: []\n", "own.yaml:1: job: there is no such field; did you mean jobs?"),
        ("jobs: [\n", "own.yaml: this is not YAML"),
        ("- a\n", "own.yaml:1: ['a'] is not a mapping"),
    ],
)
def test_where_a_workload_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(PhalanxError) as raised:
        simulate(own(tmp_path, text))
    assert complaint in str(raised.value)


def test_faults_of_a_trace_are_told_and_left_out(tmp_path: Path, capsys) -> None:
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 4\n1 0 0 9 1 -1 -1 1 -1 -1 1 1 1 -1 1 1 -1 -1\nbroken\n")
    (found,) = objects(capsys, path, "--policy", "greedy", "--on-error", "skip")
    assert found["jobs"] == 1
    simulate(path, "--on-error", "skip", "--processes", 1)
    assert f"{path}:3:7: 1 fields where a record has 18" in capsys.readouterr().err


# The flag is in shared memory and sends no signal, so the waiting process must poll it.
UNTIL_STOPPED = "while not cells._stop.value: time.sleep(0.01)"
HUNDREDTH = """
import os, signal, sys, time
from phalanx.cli.study.simulation import cells
from phalanx.cli.app import main
from phalanx.simulator.cluster.jobs import SimulatedJobs
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what is in the background ignore it
start, count = SimulatedJobs.start, 0
def first(name):
    try:
        os.mkdir(name)
    except FileExistsError:
        return False
    return True
def counted(*args):
    global count
    count += 1
    if count == 100:
        {act}
    return start(*args)
SimulatedJobs.start = counted
main()
"""


def stopped_at_the_hundredth_start(act: str, *words: str) -> subprocess.CompletedProcess[str]:
    code = [sys.executable, "-c", HUNDREDTH.format(act=act)]
    command = [*code, "simulate", str(KTH), "--json", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_who_is_stopped_prints_the_results_so_far(tmp_path: Path, signal: str) -> None:
    words = ("--policy", "easy", "fifo", "--processes", "1", "--schedule", str(tmp_path / "s.csv"))
    done = stopped_at_the_hundredth_start(f"os.kill(os.getpid(), signal.{signal})", *words)
    assert done.returncode == 130, done.stderr
    (found,) = map(json.loads, done.stdout.splitlines()[:1])
    assert found["interrupted"] is True
    assert 0 < found["finished"] <= 100 <= found["jobs"]
    assert [each.name for each in tmp_path.iterdir()] == ["s-kth-sp2-4000.swf-easy-user-0.csv"]


@pytest.mark.slow
def test_of_several_side_by_side_each_gives_what_it_has(tmp_path: Path) -> None:
    """Only the first process gets the signal; the others get it from that process."""
    told = f"if first({str(tmp_path / 'told')!r}): os.kill(os.getppid(), signal.SIGTERM)"
    act = f"{told}\n        {UNTIL_STOPPED}"
    done = stopped_at_the_hundredth_start(act, "--policy", "easy", "fifo", "greedy", "--processes", "2")
    assert done.returncode == 130, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found
    assert all(each["interrupted"] and each["finished"] <= 100 for each in found)
    assert "stopped before the end: these are the results so far" in done.stderr


@pytest.mark.slow
def test_who_is_stopped_twice_waits_for_nobody(tmp_path: Path) -> None:
    """The first worker signals its parent twice, and never ends by itself."""
    tells = "os.kill(os.getppid(), signal.SIGINT)"
    acts = (f"if first({str(tmp_path / 'told')!r}):", tells, UNTIL_STOPPED, tells, "signal.pause()")
    done = stopped_at_the_hundredth_start("\n            ".join(acts), "--policy", "easy", "fifo", "--processes", "2")
    assert done.returncode == 130, done.stderr


@pytest.mark.slow
def test_what_a_killed_process_played_is_lost_and_no_more() -> None:
    act = "os.kill(os.getpid(), signal.SIGKILL)"
    done = stopped_at_the_hundredth_start(act, "--policy", "easy", "fifo", "--processes", "2")
    assert done.returncode == 1
    assert "lost: a simulation process was killed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_the_same_schedule_whatever_order_sets_have(tmp_path: Path) -> None:
    """Python gives the names in sets another order in every process; the schedule's hash must not follow it."""
    recipe = (
        "nodes: [{name: n, count: 6, allocatable: {cpu: 8, memory: 32Gi}}]\n"
        "generate: {jobs: 150, every: 20s, pods: {values: {1: 3, 4: 1}}, requests: {cpu: 2},\n"
        "  run: {lognormal: [3m, 1]}, limitFactor: {uniform: [1, 3]}, users: 5, queues: {a: 2, b: 1}}\n"
    )
    (tmp_path / "work.yaml").write_text(recipe)
    options = [
        "--policy",
        "easy",
        "fair",
        "spread",
        "--fault",
        "node-mtbf=1h",
        "late=0.1",
        "--processes",
        "1",
        "--json",
    ]
    hashes = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "phalanx.cli.app", "simulate", str(tmp_path / "work.yaml"), *options],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert [row["jobs"] for row in rows] == [150, 150, 150]
        hashes.add(tuple(row["schedule_sha256"] for row in rows))
    assert len(hashes) == 1
