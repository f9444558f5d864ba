"""What `jobs`, `explain`, `nodes` and `queues` show, from the API's objects: read, folded and decided, but not sent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.live_state.decision import think
from phalanx.cli.commands.status.jobs import JobFilter
from phalanx.cli.terminal.output import table
from phalanx.cli.views.job import job_view, reading
from phalanx.cli.views.job.job_view import COLUMNS, JobTableRow, interval, short_row
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.core.fold.fold import fold
from phalanx.dialects.kueue.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.model.event import Adopted, RunTold
from phalanx.model.job import Phase, Placement, Slot

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


def snapshot(
    *objects: dict[str, Any], runs: Sequence[RunTold] = (), dialects: frozenset[str] = frozenset()
) -> Snapshot:
    """What the commands see of a cluster that holds these objects."""
    kinds = {kind.name: kind for kind in (NODES, PODS, JOBS, QUEUES, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS)}
    connection = Connection("http://nowhere", headers={}, tls=None)
    caches: dict[Kind, Informer] = {}

    def cache(kind: Kind) -> Informer:
        return caches.setdefault(kind, Informer(connection, kind))

    for obj in objects:
        cache(kinds[obj["kind"]]).observe(obj)
    world = KubeWorld(connection, cache, KubeSettings(dialects=dialects), lambda: NOW_S)
    if dialects:
        world.caches.look_up([kind for kind in caches if kind.group])
    return think(world, cache, NOW_S, runs=runs)


def find(seen: Snapshot, name: str, namespace: str) -> job_view.JobView:
    """Return the view of the job or the pod of that name."""
    ids = {f"{namespace}/{name}", f"{namespace}/pod:{name}"}
    return next(view for view in reading.views(seen, finished=True) if view.id in ids)


def rows(seen: Snapshot) -> list[JobTableRow]:
    return [view.row(None, seen.now_s, recorded=True) for view in reading.views(seen)]


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


async def test_a_job_with_room_is_said_to_start() -> None:
    [view] = reading.views(snapshot(node("n1"), queue("default"), batch_job("train", 2, "2")))
    assert (view.soon, view.reason) == (True, None)
    assert view.where() == "there is capacity; it starts in a moment"


async def test_a_job_that_rests_after_a_start_that_came_to_nothing_says_so() -> None:
    """Only the scheduler's memory knows it, and the reason that it wrote on the Job."""
    resting = batch_job("train", 2, "2")
    resting["metadata"]["annotations"] = {"phalanx.dev/reason": "Backoff: its start was taken back: 1 of 2 pods"}
    [view] = reading.views(snapshot(node("n1"), queue("default"), resting))
    assert view.reason is not None
    assert (view.soon, view.reason.code, view.where()) == (False, "Backoff", "its start was taken back: 1 of 2 pods")


async def test_a_job_whose_pods_have_ended_runs_until_it_is_said_how() -> None:
    over = batch_job("train", 2, "1")
    over["spec"]["suspend"] = False
    over["metadata"]["annotations"] = {
        "phalanx.dev/admitted": '{"attempt":1,"queue":"default","count":2,"at_s":1767225600.0}'
    }
    over["status"] = {"succeeded": 2}
    seen = snapshot(node("n1"), queue("default"), over)
    [view] = reading.views(seen)
    assert short_row(view.row(None, NOW_S), NOW_S, with_namespace=False) == [
        *("train", "default", "running", "0/2", "2m10s"),
        "its pods have ended; the Job's controller reports the result in a moment",
    ]


async def test_a_reason_written_once_gives_way_to_that_of_this_moment() -> None:
    resting = batch_job("train", 2, "4")
    resting["metadata"]["annotations"] = {"phalanx.dev/reason": "Backoff: its start was taken back"}
    [view] = reading.views(snapshot(node("n1"), queue("default"), resting))
    assert view.reason is not None
    assert view.reason.code != "Backoff"


def started_pod(job: dict[str, Any], node: str, state: dict[str, Any]) -> dict[str, Any]:
    owner = {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}
    return {
        "kind": "Pod",
        "metadata": meta("web-0", ownerReferences=[owner]),
        "spec": {**job["spec"]["template"]["spec"], "nodeName": node},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]},
    }


def test_an_interval_is_told_outwards_in_whole_minutes() -> None:
    now_s = 1767225600.0  # 2026-01-01
    assert interval((now_s + 61, now_s + 119), now_s) == "00:01–00:02 UTC"
    assert interval((now_s + 60, now_s + 60), now_s) == "00:01 UTC"
    assert interval((now_s + 23 * 3600, now_s + 25 * 3600), now_s) == "23:00–2026-01-02 01:00 UTC"
    assert interval((now_s + 60, float("inf")), now_s) == "after 00:01 UTC"


async def test_pods_that_a_gang_gets_after_its_start_count_and_its_minimum_is_named() -> None:
    words = {"phalanx.dev/job": "gang", "phalanx.dev/min-available": "2"}
    spec = {"schedulerName": "phalanx", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    pods = [{"kind": "Pod", "metadata": meta(f"gang-{n}", annotations=words), "spec": spec} for n in range(2)]
    seen = snapshot(node("n1"), queue("default"), *pods)
    [view] = reading.views(seen)
    assert (view.placed, view.wanted, view.minimum) == (0, 2, None)
    job, placements = seen.cluster.jobs["default/gang"].job, (Placement(0, 0, "n1"), Placement(0, 1, "n1"))
    later = (Slot(0, 2), Slot(0, 3))
    fold(seen.cluster, [Adopted(job, 1, Phase.RUNNING, placements, later, CREATED_S, ())])
    [view] = reading.views(seen)
    assert (view.placed, view.wanted, view.minimum) == (2, 4, 2)
    assert "2/4 (min 2)" in jobs_table(seen)
    assert [role["count"] for role in view.record()["roles"]] == [4]


async def test_a_gang_whose_pods_do_not_all_exist_shows_how_many_it_waits_for() -> None:
    words = {"phalanx.dev/job": "gang", "phalanx.dev/min-available": "3"}
    spec = {"schedulerName": "phalanx", "containers": [{"name": "main"}]}
    pods = [{"kind": "Pod", "metadata": meta(f"gang-{n}", annotations=words), "spec": spec} for n in range(2)]
    [view] = reading.views(snapshot(node("n1"), queue("default"), *pods))
    assert (view.placed, view.wanted, view.where()) == (0, 3, "waiting for members: 2 of 3 pods exist")


async def test_json_has_the_reason_with_its_numbers() -> None:
    [view] = reading.views(snapshot(node("n1"), queue("default"), batch_job("train", 2, "100")))
    record = view.record()
    assert record["pods"] == {"wanted": 2, "placed": 0, "minimum": None}
    assert record["submitted"] == CREATED
    assert record["reason"]["numbers"]["asked"]["cpu"] == 100_000
    assert record["reason"]["peers"] == {
        "kueue": "ExceedsMaxQuota",
        "volcano": "NotEnoughResources",
        "kai": None,
        "slurm": "BadConstraints",
    }


def array_job(task: int, cap: int = 0, cpu: str = "100") -> dict[str, Any]:
    found = batch_job(f"sweep-{task}", 1, cpu)
    found["metadata"]["labels"]["phalanx.dev/array"] = "sweep"
    found["metadata"]["annotations"] = {"phalanx.dev/user": "ada"}
    if cap:
        found["metadata"]["annotations"]["phalanx.dev/array-cap"] = str(cap)
    return found


def test_jobs_are_chosen_by_name_user_queue_and_state() -> None:
    seen = snapshot(node("n1"), queue("default"), array_job(5), array_job(7), batch_job("train", 1, "99"))
    found = reading.views(seen)

    def chosen(*names: str, **said: Any) -> list[str]:
        return sorted(view.name for view in JobFilter(**said).of(found, names))

    assert chosen("train") == chosen("default/train") == ["train"]
    assert chosen("sweep") == ["sweep-5", "sweep-7"]
    assert chosen("sweep/7", "train") == ["sweep-7", "train"]
    assert chosen(user=("ada",)) == ["sweep-5", "sweep-7"]
    assert chosen(queue=("other",)) == chosen(state=("running",)) == []
    assert chosen("train", state=("queued",)) == ["train"]
    with pytest.raises(PhalanxError, match="no job sweep/8 runs or waits in this namespace"):
        chosen("sweep/8")
