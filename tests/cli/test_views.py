"""What `jobs`, `explain`, `nodes` and `queues` show, from the API's objects: read, folded and decided, but not sent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from phalanx.cli.cluster.jobs import attending
from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.cluster.live_state import Snapshot, think
from phalanx.cli.cluster.target import Scope, Target, find_ledger_of
from phalanx.cli.commands.status.explain import as_said_by, row_of, row_of_pods
from phalanx.cli.commands.status.jobs import Shown, print_changes
from phalanx.cli.submission.sending import beyond, shut
from phalanx.cli.terminal.output import table
from phalanx.cli.views import node_view, queue_view
from phalanx.cli.views.job import job_view
from phalanx.cli.views.job.expected_start import interval
from phalanx.cli.views.job.job_row import COLUMNS, JobRow, short_row, tasks_together
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.dialects.frame.peer_reasons import Peer
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world import KubeWorld
from phalanx.ledger.entry import FILE, JobEntry, StartEntry, State, url_of
from phalanx.ledger.past_runs import past_runs
from phalanx.ledger.store import Ledger
from phalanx.model.event import RunTold
from phalanx.model.node import Node
from phalanx.model.reason import Reason, ReasonCode

CREATED = "2026-01-01T00:00:00Z"
CREATED_S = 1767225600.0
NOW_S = CREATED_S + 130

numbers = itertools.count(1)


def meta(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    number = next(numbers)
    found = {"name": name, "uid": f"uid-{number}", "resourceVersion": str(number), "creationTimestamp": CREATED, **more}
    return found | ({"namespace": namespace} if namespace else {})


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": meta(name, ""),
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def queue(name: str, gang: bool = True) -> dict[str, Any]:
    return {"kind": "Queue", "metadata": meta(name, ""), "spec": {"gang": gang}}


def batch_job(name: str, pods: int, cpu: str, queue: str = "default", namespace: str = "default") -> dict[str, Any]:
    container = {"name": "main", "image": "host", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]}
    return {
        "kind": "Job",
        "metadata": meta(name, namespace, labels={"phalanx.dev/queue": queue}),
        "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": {"spec": spec}},
    }


def foreign_pod(name: str, node: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": meta(name, "kube-system"),
        "spec": {"nodeName": node, "schedulerName": "default-scheduler", "containers": [container]},
        "status": {"phase": "Running"},
    }


def snapshot(*objects: dict[str, Any], runs: Sequence[RunTold] = ()) -> Snapshot:
    """What the commands see of a cluster that holds these objects."""
    kinds = {"Node": NODES, "Pod": PODS, "Job": JOBS, "Queue": QUEUES}
    connection = Connection("http://nowhere", headers={}, tls=None)
    caches: dict[Kind, Informer] = {kind: Informer(connection, kind) for kind in kinds.values()}
    for obj in objects:
        caches[kinds[obj["kind"]]].observe(obj)
    world = KubeWorld(connection, caches.__getitem__, KubeSettings(), lambda: NOW_S)
    return think(world, caches.__getitem__, NOW_S, runs=runs)


@pytest.fixture
def one_job() -> job_view.JobView:
    return job_view.views(snapshot(node("n1"), queue("default"), batch_job("train", 2, "2")))[0]


def find(seen: Snapshot, name: str, namespace: str) -> job_view.JobView:
    """Return the view of the job or the pod of that name."""
    ids = {f"{namespace}/{name}", f"{namespace}/pod:{name}"}
    return next(view for view in job_view.views(seen, finished=True) if view.id in ids)


def rows(seen: Snapshot) -> list[JobRow]:
    return [view.row(None, seen.now_s, recorded=True) for view in job_view.views(seen)]


def jobs_table(seen: Snapshot) -> str:
    cells = [short_row(row, NOW_S, with_namespace=False) for row in rows(seen)]
    console = Console(width=200, color_system=None)
    with console.capture() as printed:
        console.print(table(COLUMNS, cells))
    return "\n".join(line.rstrip() for line in printed.get().splitlines())


async def test_a_job_that_waits_is_shown_with_its_reason_and_the_numbers_of_this_moment() -> None:
    seen = snapshot(node("n1"), queue("default"), foreign_pod("dns", "n1", "3"), batch_job("train", 2, "2"))
    assert jobs_table(seen) == (
        "JOB     QUEUE     STATE    PODS   SINCE   WHERE, OR WHY NOT\n"
        "train   default   queued   0/2    2m10s   placed 0 of 2 pods; the largest free node has 1 of the 2 cpu asked "
        "(4 cpu asked in all, 1 free; pods of others hold 3)"
    )


async def test_a_job_of_which_nothing_changes_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    there = (queue("default"), node("n1"), foreign_pod("dns", "n1", "3"), batch_job("train", 2, "2"))
    known: dict[str, JobRow] = {}
    for more in ((), (), (node("n2", "1"),)):
        seen = snapshot(*there, *more)
        known = print_changes(rows(seen), known, seen.now_s, Scope(all_namespaces=True), json=True)
    first, then = capsys.readouterr().out.splitlines()
    assert first != then


async def test_a_job_with_room_is_said_to_start() -> None:
    [view] = job_view.views(snapshot(node("n1"), queue("default"), batch_job("train", 2, "2")))
    assert (view.soon, view.reason) == (True, None)
    assert view.where() == "there is room; it starts in a moment"


async def test_a_job_that_rests_after_a_start_that_came_to_nothing_says_so() -> None:
    """Only the scheduler's memory knows it, and the reason that it wrote on the Job."""
    resting = batch_job("train", 2, "2")
    resting["metadata"]["annotations"] = {"phalanx.dev/reason": "Backoff: its start was taken back: 1 of 2 pods"}
    [view] = job_view.views(snapshot(node("n1"), queue("default"), resting))
    assert view.reason is not None
    assert (view.soon, view.reason.code, view.where()) == (False, "Backoff", "its start was taken back: 1 of 2 pods")


async def test_a_job_that_gave_way_says_how_often_and_for_whom() -> None:
    pushed = batch_job("train", 2, "4")
    mark = '{"by": "default/owner", "start_s": 1767225600.0}'
    pushed["metadata"]["annotations"] = {"phalanx.dev/preempted": mark, "phalanx.dev/preemptions": "2"}
    seen = snapshot(node("n1"), queue("default"), pushed, batch_job("calm", 2, "4"))
    view = find(seen, "train", "default")
    assert "preempted\n  2 times, last for default/owner\n" in job_view.page(view, seen)
    assert view.record()["preempted"] == {"times": 2, "by": "default/owner"}
    assert "preempted" not in job_view.page(find(seen, "calm", "default"), seen)


async def test_a_job_that_waits_again_is_queued_since_it_was_suspended() -> None:
    pushed = batch_job("train", 2, "4")
    suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"}
    pushed["status"] = {"conditions": [suspended]}
    seen = snapshot(node("n1"), queue("default"), pushed, batch_job("calm", 2, "4"))
    view = find(seen, "train", "default")
    assert (view.record()["submitted"], view.record()["since"]) == (CREATED, "2026-01-01T00:02:00Z")
    assert job_view.page(view, seen).startswith("default/train: queued for 10s, submitted 2m10s ago, queue default\n")
    assert job_view.page(find(seen, "calm", "default"), seen).startswith("default/calm: queued for 2m10s, queue")


async def test_a_job_whose_pods_have_ended_runs_until_it_is_said_how() -> None:
    over = batch_job("train", 2, "1")
    over["spec"]["suspend"] = False
    over["metadata"]["annotations"] = {
        "phalanx.dev/admitted": '{"attempt":1,"queue":"default","count":2,"at_s":1767225600.0}'
    }
    over["status"] = {"succeeded": 2}
    seen = snapshot(node("n1"), queue("default"), over)
    [view] = job_view.views(seen)
    assert short_row(view.row(None, NOW_S), NOW_S, with_namespace=False) == [
        *("train", "default", "running", "0/2", "2m10s"),
        "its pods have ended; how, its Job says in a moment",
    ]


async def test_a_reason_written_once_gives_way_to_that_of_this_moment() -> None:
    resting = batch_job("train", 2, "4")
    resting["metadata"]["annotations"] = {"phalanx.dev/reason": "Backoff: its start was taken back"}
    [view] = job_view.views(snapshot(node("n1"), queue("default"), resting))
    assert view.reason is not None
    assert view.reason.code != "Backoff"


async def test_a_job_for_an_unknown_queue_says_so() -> None:
    seen = snapshot(node("n1"), queue("default"), batch_job("train", 1, "1", queue="nowhere"))
    [view] = job_view.views(seen)
    assert view.reason is not None
    assert (view.reason.code, "nowhere" in view.reason.text) == ("QueueUnknown", True)
    [missing] = [queue_view.row(one) for one in queue_view.views(seen) if not one.exists]
    assert missing[:5] == ["nowhere", "0", "1", "0.00", "does not exist"]


async def test_a_job_on_many_nodes_names_a_few(one_job: job_view.JobView) -> None:
    assert replace(one_job, nodes={"a": 4, "b": 1}, soon=False).where() == "a x4, b"
    many = {f"n{number}": 1 for number in range(10)}
    assert replace(one_job, nodes=many, soon=False).where() == "n0, n1, n2 and 7 more nodes"


async def test_jobs_of_other_namespaces_are_shown_only_when_asked_for() -> None:
    seen = snapshot(queue("default"), batch_job("a", 1, "1"), batch_job("b", 1, "1", namespace="team"))
    assert [view.id for view in job_view.views(seen, "team")] == ["team/b"]
    assert len(job_view.views(seen)) == 2


async def test_a_failed_job_says_how_it_failed_when_finished_ones_are_asked_for() -> None:
    failed = batch_job("train", 1, "1")
    condition = {"type": "Failed", "status": "True", "message": "too bad", "lastTransitionTime": CREATED}
    failed["status"] = {"conditions": [condition]}
    seen = snapshot(queue("default"), failed)
    assert job_view.views(seen) == []
    [view] = job_view.views(seen, finished=True)
    assert (view.state, view.where()) == ("failed", "too bad")


def ended_pod(name: str, phase: str, code: int, at: str, **labels: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    ended = {"terminated": {"exitCode": code, "finishedAt": at}}
    return {
        "kind": "Pod",
        "metadata": meta(name, labels={"phalanx.dev/queue": "default", **labels}),
        "spec": {"nodeName": "n1", "schedulerName": "phalanx", "containers": [container]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": ended}]},
    }


async def test_a_failed_job_says_in_one_line_or_on_its_page_how_its_pod_ended() -> None:
    failed = batch_job("bad", 1, "1")
    how = "container main: exit code 7; its log ends:\n  Traceback\n  ValueError: no"
    message = f"Job has reached the specified backoff limit; pod bad-0: {how}"
    failed["status"] = {"conditions": [{"type": "Failed", "status": "True", "message": message}]}
    seen = snapshot(queue("default"), failed)
    [view] = job_view.views(seen, finished=True)
    assert view.where() == "pod bad-0: container main: exit code 7: ValueError: no"
    assert "  pod bad-0: container main: exit code 7; its log ends:\n    Traceback\n" in job_view.page(view, seen)


async def test_where_the_job_controller_does_not_say_how_the_pod_does() -> None:
    failed = batch_job("bad", 1, "1")
    entry = {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}
    failed["status"] = {"conditions": [entry]}
    one = ended_pod("bad-0", "Failed", 7, "2026-01-01T00:00:10Z")
    one["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": failed["metadata"]["uid"], "controller": True}]
    [view] = job_view.views(snapshot(queue("default"), failed, one), finished=True)
    assert view.where() == "Job has reached the specified backoff limit; pod bad-0: exit code 7"


async def test_pods_without_a_job_are_shown_when_they_are_over_too() -> None:
    driver = ended_pod("driver", "Succeeded", 0, "2026-01-01T00:02:00Z", **{"phalanx.dev/job": "spark"})
    worker = ended_pod("worker", "Failed", 3, "2026-01-01T00:01:00Z", **{"phalanx.dev/job": "spark"})
    lone = ended_pod("lone", "Succeeded", 0, "2026-01-01T00:00:30Z")
    seen = snapshot(node("n1"), queue("default"), driver, worker, lone)
    gang, single = job_view.views(seen, finished=True)
    assert (gang.id, gang.state, gang.where(), gang.since_s) == (
        "default/spark",
        "failed",
        "worker: exit code 3",
        CREATED_S + 120,
    )
    assert (single.id, single.state, single.nodes) == ("default/pod:lone", "complete", {"n1": 1})
    assert find(seen, "lone", "default") == single
    assert "complete for 1m40s, queue default" in job_view.page(single, seen)


async def test_a_gang_of_pods_of_which_one_runs_is_not_over() -> None:
    over = ended_pod("driver", "Succeeded", 0, CREATED, **{"phalanx.dev/job": "spark"})
    runs = foreign_pod("worker", "n1", "1")
    runs["metadata"] = meta("worker", labels=over["metadata"]["labels"])
    runs["spec"]["schedulerName"] = "phalanx"
    found = job_view.views(snapshot(node("n1"), queue("default"), over, runs), finished=True)
    assert not {view.state for view in found} & {"complete", "failed"}


async def test_the_page_of_a_job_tells_reason_roles_and_place() -> None:
    seen = snapshot(node("n1"), queue("default"), batch_job("first", 1, "100"), batch_job("second", 2, "100"))
    page = job_view.page(find(seen, "second", "default"), seen)
    assert "default/second: queued for 2m10s, queue default" in page
    assert "NeverFits: a pod of role second asks 100 cpu, but the largest node has 4" in page
    assert "second: 2 x (100 cpu), start together" in page
    assert "2 of 2 that wait in queue default, after default/first" in page


async def test_a_member_of_a_gang_is_explained_by_its_gang() -> None:
    member = batch_job("workers", 1, "1")
    member["metadata"]["labels"] |= {"phalanx.dev/job": "mnist", "phalanx.dev/job-roles": "2"}
    seen = snapshot(node("n1"), queue("default"), member)
    found = FoundJob(kind="job", namespace="default", name="workers", members=(Member(kind=JOBS, obj=member),))
    row = row_of(found, rows(seen))
    assert row is not None
    assert (row.id, row.state) == ("default/mnist", "queued")


async def test_the_pods_of_a_volcano_job_are_shown_under_the_name_that_its_user_gave() -> None:
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "claimant",
        "uid": "v",
        "controller": True,
    }
    words = {"phalanx.dev/queue": "default", "phalanx.dev/job": "podgroup:claimant-d75b"}
    pod = foreign_pod("claimant-main-0", "n1", "1")
    pod |= {"metadata": meta("claimant-main-0", annotations=words), "status": {"phase": "Pending"}}
    pod["spec"] = {"schedulerName": "phalanx", "containers": pod["spec"]["containers"]}
    seen = snapshot(node("n1"), queue("default"), pod)
    seen.objects[PODS]["default/claimant-main-0"]["metadata"]["ownerReferences"] = [owner]
    [view] = job_view.views(seen)
    assert (view.id, view.name, view.kind) == ("default/podgroup:claimant-d75b", "claimant", "Job.batch.volcano.sh")
    [row] = rows(seen)
    assert short_row(row, NOW_S, with_namespace=True)[0] == "default/claimant"
    assert row_of(FoundJob(kind="vcjob", namespace="default", name="claimant"), [row]) == row
    assert row_of(FoundJob(kind="job", namespace="default", name="claimant"), [row]) is None


async def test_gang_named_by_labels_of_another_scheduler_is_found() -> None:
    pod = foreign_pod("g-0", "n1", "1")
    pod |= {"metadata": meta("g-0", annotations={"phalanx.dev/queue": "default", "phalanx.dev/job": "application"})}
    pod |= {"spec": {"schedulerName": "phalanx", "containers": pod["spec"]["containers"]}, "status": {}}
    seen = snapshot(node("n1"), queue("default"), pod)
    [row] = rows(seen)
    by_ledger = FoundJob(kind="gang", namespace="default", name="x", entry=JobEntry(uid="", job="default/application"))
    assert row_of(by_ledger, [row]) == row
    by_pod = FoundJob(kind="pod", namespace="default", name="g-0", members=(Member(kind=PODS, obj=pod),))
    pods = {gang.id: gang.pods for gang in seen.gangs.values()}
    assert row_of_pods(by_pod, [row], pods) == row
    assert row_of_pods(by_pod, [row], {}) is None


def started_pod(job: dict[str, Any], node: str, state: dict[str, Any]) -> dict[str, Any]:
    owner = {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}
    return {
        "kind": "Pod",
        "metadata": meta("web-0", ownerReferences=[owner]),
        "spec": {**job["spec"]["template"]["spec"], "nodeName": node},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]},
    }


def test_a_program_that_was_never_started_is_told_beside_its_exit_code() -> None:
    ended = {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such program"}}
    job = batch_job("web", 1, "1")
    watch = attending._Watch(job=job, say=print, prefixed=False)
    assert attending._outcome("failed", watch, [started_pod(job, "n1", ended)]).why == (
        "exit code 128; StartError: no such program"
    )


async def test_a_node_says_what_is_used_and_by_whom() -> None:
    seen = snapshot(node("n1"), node("n2"), foreign_pod("dns", "n1", "500m"))
    rows = [node_view.row(view) for view in node_view.views(seen)]
    assert rows[0] == ["n1", "ready", "0.5/4", "0/8Gi", "-", "1/110", "kube-system/dns (not a job)"]
    assert rows[1] == ["n2", "ready", "0/4", "0/8Gi", "-", "0/110", ""]


async def test_queues_are_shown_as_a_tree_with_what_they_use_and_what_waits() -> None:
    lab = queue("lab") | {"spec": {"quotas": [{"guaranteed": {"cpu": "4"}, "limit": {"cpu": 8}}]}}
    vision = queue("vision") | {"spec": {"parent": "lab", "gang": False, "state": "held"}}
    astray = queue("astray") | {"spec": {"parent": "nowhere"}}
    running = batch_job("train", 1, "1500m", queue="lab")
    running["spec"]["suspend"] = False
    record = '{"attempt":1,"queue":"lab","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    pod = started_pod(running, "n1", {"running": {}})
    seen = snapshot(node("n1"), queue("default"), lab, vision, astray, running, pod, batch_job("b", 1, "1"))
    rows = [queue_view.row(view) for view in queue_view.views(seen)]
    assert rows == [
        ["astray", "0", "0", "0.00", "misconfigured: the parent 'nowhere' of queue 'astray' does not exist", "nothing"],
        ["default", "0", "1", "0.00", "open", "nothing"],
        ["lab", "1", "0", "0.00", "open", "cpu 1.5/4/8"],
        ["  vision", "0", "0", "0.00", "held, pod by pod", "nothing"],
    ]
    [record_of_lab] = [view.record() for view in queue_view.views(seen) if view.standing.queue == "lab"]
    [cpu] = [one for one in record_of_lab["usage"] if one["resource"] == "cpu"]
    assert cpu == {
        "flavor": "",
        "resource": "cpu",
        "used": 1500,
        "guaranteed": 4000,
        "limit": 8000,
        "borrowed": 0,
        "lendable": 2500,
    }


async def test_what_runs_in_a_queue_that_was_deleted_is_still_shown_as_used() -> None:
    running = batch_job("train", 1, "1500m", queue="gone")
    running["spec"]["suspend"] = False
    record = '{"attempt":1,"queue":"gone","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    pod = started_pod(running, "n1", {"running": {}})
    seen = snapshot(node("n1"), queue("default"), running, pod, batch_job("b", 1, "1", queue="gone"))
    [gone] = [queue_view.row(view) for view in queue_view.views(seen) if not view.exists]
    assert gone == ["gone", "1", "1", "0.00", "does not exist", "cpu 1.5"]


@pytest.mark.parametrize(
    ("size", "more"),
    [("elastic", "more follow as room and its queue allow"), ("fixed-at-start", "it keeps that size until it starts")],
)
async def test_a_job_that_runs_with_fewer_pods_than_it_asks_says_so(size: str, more: str) -> None:
    train = batch_job("train", 3, "1")
    train["metadata"]["annotations"] = {
        "phalanx.dev/min-available": "1",
        "phalanx.dev/size": size,
        "phalanx.dev/admitted": '{"attempt": 1, "queue": "default", "count": 1, "at_s": 1767225600.0}',
        "phalanx.dev/parallelism": "1 of 3",
    }
    train["spec"] |= {"suspend": False, "parallelism": 1}
    train["status"] = {"startTime": CREATED}
    seen = snapshot(node("n1"), queue("default"), train, started_pod(train, "n1", {"running": {}}))
    page = job_view.page(find(seen, "train", "default"), seen)
    assert f"It runs with 1 of its 3 pods; {more}" in page


async def test_the_page_says_when_a_job_is_expected_to_start() -> None:
    running = batch_job("train", 1, "4")
    running["spec"] |= {"suspend": False, "activeDeadlineSeconds": 3730}
    record = '{"attempt":1,"queue":"default","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    pod = started_pod(running, "n1", {"running": {}})
    seen = snapshot(node("n1"), queue("default"), running, pod, batch_job("next", 1, "1"))
    view = find(seen, "next", "default")
    page = job_view.page(view, seen)
    assert "enough is expected back by 01:02:10 UTC" in page  # the reason and the forecast say the same
    assert "expected start\n  in 1h at the latest (01:02:10 UTC), when default/train ends" in page
    assert job_view.whole_record(view, seen)["expected_start"] == {
        "at": "2026-01-01T01:02:10Z",
        "likely": ["2026-01-01T01:02:10Z", "2026-01-01T01:02:10Z"],
        "nearly_sure": ["2026-01-01T01:02:10Z", "2026-01-01T01:02:10Z"],
        "latest": "2026-01-01T01:02:10Z",
        "after": "default/train",
    }
    assert job_view.whole_record(find(seen, "train", "default"), seen)["expected_start"] is None


def ended_job(number: int, run_min: int) -> dict[str, Any]:
    """Return a job that started at midnight and ran for the given minutes."""
    over = batch_job(f"train-{number}", 1, "4")
    over["spec"] |= {"suspend": False, "activeDeadlineSeconds": 7200}
    over["metadata"]["annotations"] = {"phalanx.dev/admitted": ADMITTED_AT_MIDNIGHT}
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": f"2026-01-01T00:{run_min:02}:00Z"}
    over["status"] = {"conditions": [complete]}
    return over


ADMITTED_AT_MIDNIGHT = '{"attempt":1,"queue":"default","count":1,"at_s":1767225600.0}'


async def test_finished_jobs_say_when_a_waiting_one_is_expected_to_start() -> None:
    running = batch_job("train-9", 1, "4")
    running["spec"] |= {"suspend": False, "activeDeadlineSeconds": 7200}
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": ADMITTED_AT_MIDNIGHT}
    pod = started_pod(running, "n1", {"running": {}})
    ended = [ended_job(number, run_min) for number, run_min in enumerate((20, 21, 22, 23, 24, 25, 26))]
    seen = snapshot(node("n1"), queue("default"), running, pod, batch_job("next", 1, "1"), *ended)
    view = find(seen, "next", "default")
    page = job_view.page(view, seen)
    assert "expected start\n  expected 00:21–00:25 UTC (that holds every other time)\n" in page
    assert "in 1h57m at the latest (02:00:00 UTC), when default/train-9 ends" in page
    told = job_view.whole_record(view, seen)["expected_start"]
    assert told["nearly_sure"][0] < told["likely"][0] < told["at"] < told["likely"][1] < told["nearly_sure"][1]
    assert told["nearly_sure"][1] < told["latest"] == "2026-01-01T02:00:00Z"
    expected = job_view.expected_starts(job_view.views(seen), seen)
    assert list(expected) == ["default/next"]
    row = short_row(view.row(expected["default/next"], NOW_S), NOW_S, with_namespace=False)
    assert row[-1].startswith("expected 00:21–00:25 UTC; the largest free node has 0 of the 1 cpu asked")


def test_an_interval_is_told_outwards_in_whole_minutes() -> None:
    now_s = 1767225600.0  # 2026-01-01
    assert interval((now_s + 61, now_s + 119), now_s) == "00:01–00:02 UTC"
    assert interval((now_s + 60, now_s + 60), now_s) == "00:01 UTC"
    assert interval((now_s + 23 * 3600, now_s + 25 * 3600), now_s) == "23:00–2026-01-02 01:00 UTC"
    assert interval((now_s + 60, float("inf")), now_s) == "after 00:01 UTC"


async def test_the_page_of_a_running_job_says_when_its_time_limit_ends_it() -> None:
    running, waiting = batch_job("train", 1, "4"), batch_job("next", 1, "1")
    running["spec"] |= {"suspend": False, "activeDeadlineSeconds": 3730}
    record = '{"attempt":1,"queue":"default","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    waiting["metadata"]["annotations"] = {"phalanx.dev/time-limit": "1-12"}
    seen = snapshot(node("n1"), queue("default"), running, started_pod(running, "n1", {"running": {}}), waiting)
    [train, queued] = [find(seen, name, "default") for name in ("train", "next")]
    assert "time limit\n  1h2m, so it is ended at 01:02:10 UTC" in job_view.page(train, seen)
    assert "time limit\n  1d12h\n" in job_view.page(queued, seen)
    assert (train.record()["time_limit_s"], queued.record()["time_limit_s"]) == (3730.0, 129_600.0)


async def test_a_job_that_its_time_limit_ended_says_so() -> None:
    late = batch_job("train", 1, "1")
    late["spec"]["activeDeadlineSeconds"] = 90
    failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "lastTransitionTime": CREATED}
    late["status"] = {"conditions": [failed | {"message": "Job was active longer than specified deadline"}]}
    [view] = job_view.views(snapshot(node("n1"), queue("default"), late), finished=True)
    assert (view.state, view.where()) == ("failed", "it had run as long as it may (1m30s) and was ended")


async def test_json_has_the_reason_with_its_numbers() -> None:
    [view] = job_view.views(snapshot(node("n1"), queue("default"), batch_job("train", 2, "100")))
    record = view.record()
    assert record["pods"] == {"wanted": 2, "placed": 0}
    assert record["submitted"] == CREATED
    assert record["reason"]["numbers"]["asked"]["cpu"] == 100_000
    assert record["reason"]["peers"] == {
        "kueue": "ExceedsMaxQuota",
        "volcano": "NotEnoughResources",
        "kai": None,
        "slurm": "BadConstraints",
    }


def test_a_reason_is_said_in_the_words_of_another_scheduler_or_why_it_has_none() -> None:
    reason = Reason(code=ReasonCode.BEGIN_TIME, text="")
    assert as_said_by(Peer.SLURM, reason.code, reason.numbers) == "as slurm says it\n  BeginTime"
    assert as_said_by(Peer.KUEUE, reason.code, reason.numbers).startswith("as kueue says it\n  it has no word: ")


def test_a_pod_beyond_every_node_is_told_by_the_resource_that_is_missing() -> None:
    nodes = [Node(name="n", allocatable=(("cpu", 4000), ("memory", 1 << 30)))]
    assert beyond((("cpu", 2000),), nodes) == ""
    assert beyond((("nvidia.com/gpu", 1),), nodes).startswith(
        "one of its pods asks 1 nvidia.com/gpu, but the largest node has 0"
    )
    assert beyond((("cpu", 1),), []) == "there are no nodes; it waits until one joins"


def test_a_queue_that_starts_nothing_new_is_known_before_a_job_is_sent_there() -> None:
    specs: dict[str, dict[str, Any]] = {
        "lab": {"state": "draining"},
        "vision": {"parent": "lab"},
        "speech": {"parent": "lab", "state": "held"},
        "default": {},
        "odd": {"parent": "strange"},
        "strange": {"parent": "odd"},
    }
    assert shut("vision", specs) == (
        "queue 'lab', above 'vision', is draining: what is submitted now waits until it is open"
    )
    assert shut("speech", specs) == "queue 'speech' is held: what is submitted now waits until it is open"
    assert [shut(queue, specs) for queue in ("default", "odd", "unknown")] == ["", "", ""]


def test_expected_starts_follow_what_the_ledger_knows_of_past_runs(tmp_path: Path) -> None:
    """Of jobs whose objects are gone: those of the same user ran for a minute, so the second of two waits for one."""
    ended = StartEntry(at_s=NOW_S - 500, state=State.COMPLETED, end_s=NOW_S - 440)
    entries = [
        JobEntry(uid=f"u{n}", job=f"default/a-{n}", state=State.COMPLETED, end_s=NOW_S - 440, starts=(ended,), pods=1)
        for n in range(8)
    ]
    with Ledger.open(url_of(tmp_path / FILE)) as ledger:
        ledger.put(entries)
        runs = list(past_runs(ledger.ended(10)))
    objects = [node("n1"), queue("default"), batch_job("a-8", 1, "4"), batch_job("a-9", 1, "4")]
    assert not snapshot(*objects).expected(["default/a-9"])
    wait_s = snapshot(*objects, runs=runs).expected(["default/a-9"])["default/a-9"].start_s - NOW_S
    assert 0 < wait_s < 120
    here = Target(kubeconfig=tmp_path / "kubeconfig")
    assert find_ledger_of(here, {}) == url_of(tmp_path / FILE)
    assert find_ledger_of(Target(kubeconfig=tmp_path / "elsewhere" / "kubeconfig"), {}) is None
    assert find_ledger_of(here, {"PHALANX_LEDGER": "postgresql://x/y"}) == "postgresql://x/y"


def array_job(task: int, cap: int = 0, cpu: str = "100") -> dict[str, Any]:
    found = batch_job(f"sweep-{task}", 1, cpu)
    found["metadata"]["labels"]["phalanx.dev/array"] = "sweep"
    found["metadata"]["annotations"] = {"phalanx.dev/user": "ada"}
    if cap:
        found["metadata"]["annotations"]["phalanx.dev/array-cap"] = str(cap)
    return found


def test_tasks_of_an_array_that_wait_are_one_line_and_others_stay_as_they_are() -> None:
    seen = snapshot(
        node("n1"), queue("default"), *(array_job(task, cap=2) for task in (5, 6, 7, 9)), batch_job("b", 1, "99")
    )
    found = rows(seen)
    lines = [short_row(row, NOW_S, with_namespace=False)[:4] for row in tasks_together(found)]
    assert sorted(lines) == [["b", "default", "queued", "0/1"], ["sweep[5-7,9%2]", "default", "queued", "0/4"]]
    over = [replace(row, state="complete" if row.task in {5, 6} else "running") for row in found if row.array]
    assert [row.name for row in tasks_together(over)] == ["sweep[5-6%2]", "sweep-7", "sweep-9"]
    assert {row.record["array"] for row in found} == {"", "sweep"}


def test_jobs_are_chosen_by_name_user_queue_and_state() -> None:
    seen = snapshot(node("n1"), queue("default"), array_job(5), array_job(7), batch_job("train", 1, "99"))
    found = job_view.views(seen)

    def chosen(*names: str, **said: Any) -> list[str]:
        return sorted(view.name for view in Shown(**said).of(found, names))

    assert chosen("train") == chosen("default/train") == ["train"]
    assert chosen("sweep") == ["sweep-5", "sweep-7"]
    assert chosen("sweep/7", "train") == ["sweep-7", "train"]
    assert chosen(user=("ada",)) == ["sweep-5", "sweep-7"]
    assert chosen(queue=("other",)) == chosen(state=("running",)) == []
    assert chosen("train", state=("queued",)) == ["train"]
    with pytest.raises(PhalanxError, match="no job sweep/8 runs or waits there"):
        chosen("sweep/8")
