"""A day without kubectl: jobs on a real `phalanx up`, from their output to their end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob
from phalanx.cli.cluster.jobs.output import Followed
from phalanx.cli.views.page.agents import ClusterAgent
from phalanx.client.connection import Connection
from tests.cli.upstart import Up, started, until

pytestmark = pytest.mark.slow
EACH = ("sh", "-c", "echo start $JOB_COMPLETION_INDEX; echo end $JOB_COMPLETION_INDEX")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with started(tmp_path_factory.mktemp("up"), "--local-cpu", "4") as up:
        yield up
        up.stop()


def ok(up: Up, *words: str) -> str:
    done = up.phalanx(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(up: Up, *words: str) -> str:
    done = up.phalanx(*words)
    assert done.returncode == 1, done.stdout
    return done.stderr


def state(up: Up, name: str) -> str:
    found = json.loads(up.phalanx("jobs", "--finished", "--json").stdout)
    return next((job["state"] for job in found if job["name"] == name), "gone")


def gone(up: Up, name: str) -> bool:
    return up.kubectl("get", "pods", "-l", f"batch.kubernetes.io/job-name={name}", "-o", "name") == ""


# --- logs -----------------------------------------------------------------------------------------------------------


def test_logs_of_all_pods_in_the_order_of_time_also_after_the_job_is_gone(up: Up) -> None:
    assert up.phalanx("run", "--pods", "3", "--name", "three", "--", *EACH).returncode == 0
    lines = ok(up, "logs", "three").splitlines()
    assert sorted(lines) == [f"[{index}] {word} {index}" for index in range(3) for word in ("end", "start")]
    stamps = [json.loads(line)["time"] for line in ok(up, "logs", "three", "--json").splitlines()]
    assert stamps == sorted(stamps)
    assert ok(up, "logs", "three/1") == "start 1\nend 1\n"
    assert sorted(ok(up, "logs", "default/three", "--tail", "1").splitlines()) == [f"[{n}] end {n}" for n in range(3)]
    assert "default/three has no pod 7 with output. Pods with output: 0, 1, 2." in refused(up, "logs", "three/7")
    up.kubectl("delete", "job", "three")
    until(lambda: gone(up, "three"))
    until(lambda: up.phalanx("logs", "three").stdout.splitlines() == lines)
    assert ok(up, "logs", "three/2") == "start 2\nend 2\n"
    assert ok(up, "logs", "three", "--since", "2999-01-01") == ""
    assert "Did you mean three?" in refused(up, "logs", "thre")


def test_logs_of_a_job_that_waits_or_is_followed(up: Up, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo first; while [ ! -e {go} ]; do sleep 0.05; done; echo last"
    ok(up, "submit", "--name", "holder", "--cpu", "4", "--", "sh", "-c", script)
    ok(up, "submit", "--name", "waiter", "--cpu", "4", "--", "echo", "done")
    until(lambda: up.phalanx("logs", "holder").stdout == "first\n")
    assert "default/waiter is queued and has no output yet" in refused(up, "logs", "waiter")
    go.touch()
    assert ok(up, "logs", "-f", "holder") == "first\nlast\n"
    assert ok(up, "logs", "-f", "waiter") == "done\n"
    assert "has no earlier attempt" in refused(up, "logs", "waiter", "--previous")


def test_logs_of_the_attempt_before_the_last_one(up: Up, tmp_path: Path) -> None:
    """The pod of the first attempt is deleted, as by a preemption."""
    mark = tmp_path / "mark"
    script = f"if [ -e {mark} ]; then echo second; else touch {mark}; echo first; sleep 600; fi"
    manifest = json.loads(ok(up, "submit", "--dry-run", "--json", "--name", "twice", "--", "sh", "-c", script))[0]
    manifest["spec"]["backoffLimit"] = 3
    (tmp_path / "twice.json").write_text(json.dumps(manifest))
    ok(up, "submit", str(tmp_path / "twice.json"))
    until(lambda: up.phalanx("logs", "twice").stdout == "first\n")
    up.kubectl("delete", "pod", "-l", "batch.kubernetes.io/job-name=twice")
    until(lambda: state(up, "twice") == "complete")
    assert ok(up, "logs", "twice") == "second\n"
    assert ok(up, "logs", "twice", "--previous") == "first\n"


# --- wait, cancel, hold, release ------------------------------------------------------------------------------------


def test_wait_ends_with_the_exit_code_of_the_job(up: Up) -> None:
    ok(up, "submit", "--name", "good", "--", "true")
    ok(up, "submit", "--name", "bad", "--", "sh", "-c", "exit 7")
    assert up.phalanx("wait", "good").returncode == 0
    done = up.phalanx("wait", "good", "bad", "--json")
    assert done.returncode == 7
    assert [(one["job"], one["state"], one["exit_code"]) for one in json.loads(done.stdout)] == [
        ("default/good", "complete", 0),
        ("default/bad", "failed", 7),
    ]
    ok(up, "submit", "--name", "long", "--", "sleep", "600")
    assert up.phalanx("wait", "long", "--for", "running").returncode == 0
    late = up.phalanx("wait", "long", "--timeout", "1s")
    assert (late.returncode, "after 1s, default/long did not reach the condition" in late.stderr) == (124, True)
    assert ok(up, "cancel", "long") == "job default/long cancelled\n"
    until(lambda: up.phalanx("wait", "long").returncode == 1)
    assert "is deleted" in up.phalanx("wait", "long").stderr
    up.kubectl("delete", "job", "bad")
    until(lambda: up.phalanx("wait", "bad").returncode == 7)


def test_a_job_deleted_before_the_watch_began_is_over(up: Up) -> None:
    async def found() -> FoundJob:
        async with await Connection.open(up.data / "kubeconfig") as connection:
            return await Finder(connection, "default").one("brief")

    async def is_over(job: FoundJob) -> bool:
        async with (
            await Connection.open(up.data / "kubeconfig") as connection,
            asyncio.timeout(60),
            Followed(connection, job) as followed,
        ):
            return followed.standing.over

    ok(up, "submit", "--name", "brief", "--hold", "--", "true")
    job = asyncio.run(found())
    ok(up, "cancel", "brief")
    until(lambda: up.kubectl("get", "job", "brief", "--ignore-not-found", "-o", "name") == "")
    assert asyncio.run(is_over(job))


def test_cancel_takes_out_what_is_chosen_and_nothing_else(up: Up) -> None:
    ok(up, "submit", "--name", "over", "--", "true")
    up.phalanx("wait", "over")
    for number in range(12):
        ok(up, "submit", "--name", f"many-{number}", "--hold", "--", "true")
    ok(up, "submit", "--name", "other", "--hold", "--", "true")
    assert "this would cancel 13 jobs" in refused(up, "cancel", "--user", "admin", "--state", "held")
    assert ok(up, "cancel", "--user", "nobody") == ""
    assert "no job is named" in refused(up, "cancel")
    assert "cannot be combined" in refused(up, "cancel", "other", "--user", "admin")
    planned = ok(up, "cancel", "--state", "held", "--dry-run").splitlines()
    assert (len(planned), planned[0]) == (13, "job default/many-0 (held) would be cancelled")
    assert "no job default/many-99. Did you mean" in refused(up, "cancel", "other", "many-99")
    assert state(up, "other") == "queued"
    ok(up, "cancel", "other", "many-0")
    rows = json.loads(ok(up, "cancel", "--yes", "--json", "over", *(f"many-{number}" for number in range(1, 12))))
    assert [(row["job"], row["cancelled"]) for row in rows[:2]] == [("default/over", False), ("default/many-1", True)]
    until(lambda: state(up, "many-11") == "gone")
    assert state(up, "over") == "complete"


def test_cancel_chooses_by_the_states_that_jobs_prints(up: Up) -> None:
    ok(up, "submit", "--name", "broken", "--cpu", "100m", "--directory", "/nowhere", "--image", "no/such", "--", "true")
    ok(up, "submit", "--name", "healthy", "--cpu", "100m", "--", "sleep", "600")
    until(lambda: (state(up, "broken"), state(up, "healthy")) == ("stuck", "running"))
    assert ok(up, "cancel", "--state", "stuck", "--dry-run").startswith("job default/broken (")
    assert ok(up, "cancel", "--state", "stuck", "--state", "stopping") == "job default/broken cancelled\n"
    assert ok(up, "cancel", "--state", "running") == "job default/healthy cancelled\n"


def test_hold_and_release(up: Up) -> None:
    ok(up, "submit", "--name", "kept", "--hold", "--", "true")
    assert ok(up, "hold", "kept") == "job default/kept held\n"
    assert state(up, "kept") == "queued"
    assert ok(up, "nice", "kept", "--value", "-5") == "job default/kept has the nice value -5\n"
    assert up.kubectl("get", "job", "kept", "-o", "jsonpath={.metadata.annotations.phalanx\\.dev/nice}") == "-5"
    assert ok(up, "release", "kept") == "job default/kept released\n"
    assert up.phalanx("wait", "kept").returncode == 0
    assert "default/kept is complete: it cannot be held. Nothing was changed." in refused(up, "hold", "kept")
    ok(up, "submit", "--name", "runs", "--", "sleep", "600")
    up.phalanx("wait", "runs", "--for", "running")
    assert "default/runs is running, and only waiting jobs can be held" in refused(up, "hold", "runs")

    async def used() -> Sequence[tuple[str, float, float]]:
        async with await Connection.open(up.data / "kubeconfig") as connection:
            return await ClusterAgent(connection).use("default/runs")

    until(lambda: len([label for label, _, gib in asyncio.run(used()) if gib > 0]) == 1)  # as the page shows it
    ok(up, "cancel", "runs")


def test_rerun_and_attach(up: Up) -> None:
    name = ok(up, "run", "--detach", "--name", "train", "--pods", "2", "--time-limit", "1m", "--", *EACH).strip()
    assert name == "default/train"
    done = up.phalanx("attach", "train")
    assert (done.returncode, sorted(done.stdout.splitlines())[0]) == (0, "[0] end 0")
    assert ok(up, "rerun", "train", "--name", "again") == "job default/again created, as default/train was\n"
    assert up.phalanx("attach", "again").returncode == 0
    first, second = (json.loads(up.kubectl("get", "job", one, "-o", "json")) for one in ("train", "again"))
    for spec in (first["spec"], second["spec"]):
        spec.pop("selector")
        spec["template"]["metadata"].pop("labels")
    assert first["spec"] == json.loads(json.dumps(second["spec"]).replace("again", "train"))
    assert second["metadata"]["annotations"]["phalanx.dev/time-limit"] == "1m"
    assert up.phalanx("rerun", "again").returncode == 0
    assert "there is no job default/never" in refused(up, "rerun", "never")


def test_an_array_is_submitted_shown_waited_for_and_cancelled_by_its_name(up: Up) -> None:
    line = ("submit", "--name", "sweep", "--array", "1-6%2", "--cpu", "100m", "--")
    done = up.phalanx(*line, "sh", "-c", "echo task $PHALANX_ARRAY_TASK_ID; exit $((PHALANX_ARRAY_TASK_ID == 5))")
    assert done.stdout.splitlines()[0] == "job default/sweep-1 created in queue default"
    assert up.phalanx("wait", "sweep").returncode == 1
    assert ok(up, "logs", "sweep/4") == "task 4\n"
    assert sorted(ok(up, "logs", "sweep").splitlines())[-1].endswith("task 6")
    assert "array default/sweep, 6 tasks: " in ok(up, "explain", "sweep")
    ok(up, *line[:2], "later", *line[3:5], "--hold", "--", "true")
    assert ok(up, "cancel", "later").splitlines() == ["array default/later cancelled"]
    until(lambda: state(up, "later-3") == "gone")


# Each pod looks for all at once, as programs do that do not try again; and waits until all have looked.
PEERS = """
import os, pathlib, socket, sys, time
rank, size, (job, domain) = os.environ["RANK"], int(os.environ["WORLD_SIZE"]), os.environ["MASTER_ADDR"].split(".")
found = [socket.gethostbyname(f"{job[:-2]}-{peer}.{domain}") for peer in range(size)]
pathlib.Path(sys.argv[1], f"{job}-{rank}").touch()
while len(list(pathlib.Path(sys.argv[1]).glob(f"{job}-*"))) < size:
    time.sleep(0.01)
print(rank, len(set(found)), os.environ["PET_NODE_RANK"], os.environ["MASTER_PORT"].isdigit())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="names need mounts, and mounts need root or user namespaces")
def test_pods_of_a_job_find_each_other_when_they_start_and_so_do_those_of_tasks_and_of_a_rerun(
    up: Up, tmp_path: Path
) -> None:
    line = ("--pods", "3", "--cpu", "100m", "--name", "meet", "--", sys.executable, "-c", PEERS, str(tmp_path))
    said = [f"[{rank}] {rank} 3 {rank} True" for rank in range(3)]
    assert sorted(ok(up, "run", *line).splitlines()) == said
    again = ok(up, "rerun", "meet", "--name", "again-meet").split()[1]
    ok(up, "wait", again)
    assert sorted(ok(up, "logs", again).splitlines()) == said
    ok(up, "submit", "--array", "7-8", *line[:5], "tasks", *line[6:])
    ok(up, "wait", "tasks")
    both = [text.replace("[", f"[tasks-{task}/") for task in (7, 8) for text in said]
    assert sorted(ok(up, "logs", "tasks").splitlines()) == both
    assert "meet\n" in up.kubectl("get", "services", "-o", "custom-columns=:metadata.name")
    ok(up, "cancel", "meet")
    up.kubectl("delete", "job", "meet")
    until(lambda: "\nmeet\n" not in up.kubectl("get", "services", "-o", "custom-columns=:metadata.name"))


def test_queues_are_made_changed_drained_and_deleted(up: Up) -> None:
    assert ok(up, "queue", "create", "lab", "--guaranteed", "cpu=1", "--limit", "cpu=1") == "queue lab created\n"
    ok(up, "submit", "--queue", "lab", "--time-limit", "10m", "--name", "first", "--", "sleep", "600")
    until(lambda: state(up, "first") == "running")
    ok(up, "submit", "--queue", "lab", "--name", "second", "--time-limit", "5m", "--", "sleep", "300")
    told = ok(up, "queue", "edit", "lab", "--limit", "cpu=2", "--dry-run")
    assert told.splitlines()[:2] == ["queue lab would be changed", "  quotas[all nodes].limit.cpu: 1 -> 2"]
    assert "stopped: no job\nearlier: 1 job\n  default/second: -" in told
    assert json.loads(ok(up, "queue", "delete", "lab", "--dry-run", "--json"))["never"][0]["job"] == "default/second"
    assert "Did you mean lab?" in refused(up, "queue", "edit", "lob", "--limit", "cpu=2")
    assert "1 queued, 1 running" in refused(up, "queue", "delete", "lab")
    assert ok(up, "queue", "drain", "lab").startswith("queue lab is draining\n")
    ok(up, "cancel", "--queue", "lab")
    until(lambda: state(up, "first") == "gone")
    assert ok(up, "queue", "delete", "lab") == "queue lab deleted\n"


def test_a_job_that_can_never_start_is_told_so_when_it_is_submitted(up: Up) -> None:
    told = up.phalanx("submit", "--name", "wide", "--pods", "100", "--", "true").stderr
    assert "its 100 pods (1 cpu each) start together, but all nodes together have capacity for 4" in told
    ok(up, "cancel", "wide")
