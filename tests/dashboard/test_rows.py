"""The page's state says of each job, queue and node what the command line says, since both come from one snapshot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from phalanx.cli.cluster.live_state import Snapshot
from phalanx.cli.files.policy_file import settings_from
from phalanx.cli.views import queue_view
from phalanx.cli.views.job import reading
from phalanx.cli.views.page.following import snapshot_of
from phalanx.cli.views.page.rows import state_of
from phalanx.cli.views.page.sooner import answer, outlook
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.dashboard.rows import Facts, PageState
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES, RESERVATIONS
from phalanx.kube.routing.settings import KubeSettings
from phalanx.model.event import RunTold
from phalanx.model.job import Job, Role
from phalanx.model.pod import Shape, amounts
from tests.kube.double import Api, Object, job, node, pod

NOW_S = 1_781_618_520.0
GIB = 2**30


def gpu_node(name: str, gpus: int = 8, **labels: str) -> Object:
    made = node(name, 64)
    made["status"]["allocatable"]["nvidia.com/gpu"] = str(gpus)
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
    return made


def gpu_job(name: str, pods: int, gpus: int, **said: str) -> Object:
    made = job(name, pods, **said)
    [container] = made["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"]["nvidia.com/gpu"] = str(gpus)
    return made


def cluster(*objects: tuple[Any, Object], runs: tuple[RunTold, ...] = ()) -> Snapshot:
    api = Api()
    api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
    for kind, obj in objects:
        api.put(kind, obj)
    kinds = {kind: found for kind, found in api.objects.items() if kind in (JOBS, PODS, NODES, QUEUES, RESERVATIONS)}
    return snapshot_of(kinds, KubeSettings(patient=False), settings_from(""), NOW_S, runs=runs)


def seen(snapshot: Snapshot) -> PageState:
    return state_of(snapshot, outlook(snapshot.cluster, snapshot.now_s), Facts())


MIXED = (
    (NODES, gpu_node("gpu-1", rack="a")),
    (NODES, gpu_node("gpu-2", rack="a")),
    (JOBS, gpu_job("fits", 2, 4, time_limit="2h")),
    (JOBS, gpu_job("waits", 2, 8, time_limit="1h")),
    (JOBS, gpu_job("never", 1, 16)),
    (JOBS, gpu_job("held", 1, 1, hold="true")),
    (PODS, pod("notebook", "4", queue="default")),
    (PODS, pod("foreign", "8", scheduler="default-scheduler", node="gpu-1")),
)


def test_each_job_is_as_phalanx_jobs_has_it() -> None:
    snapshot = cluster(*MIXED)
    state = seen(snapshot)
    told = {view.id: view.record() for view in reading.views(snapshot, finished=True)}
    assert set(state.jobs) == set(told)
    assert len(told) == 5
    for name, record in told.items():
        row = state.jobs[name]
        assert (row.queue, row.state, row.priority) == (record["queue"], record["state"], record["priority"])
        assert (row.pods, row.placed) == (record["pods"]["wanted"], record["pods"]["placed"])
        assert row.limit_s == record["time_limit_s"]
        if record["reason"] is None:
            assert row.reason == ""
        else:
            reason = state.reasons[row.reason]
            assert (reason.code, reason.text) == (record["reason"]["code"], record["reason"]["text"])
            assert msgspec.json.encode(reason.numbers) == msgspec.json.encode(
                record["reason"]["numbers"], enc_hook=float
            )


def test_each_queue_is_as_phalanx_queues_has_it() -> None:
    snapshot = cluster(*MIXED)
    state = seen(snapshot)
    for view in queue_view.views(snapshot):
        row, record = state.queues[view.standing.queue], view.record()
        assert (row.running, row.waiting, row.parent) == (record["running"], record["pending"], record["parent"])


def test_amounts_are_of_gpus_where_a_node_has_any() -> None:
    state = seen(cluster(*MIXED))
    assert state.facts.unit == "nvidia.com/gpu"
    assert state.jobs["default/waits"].units == 16
    assert state.jobs["default/waits"].each == 8
    assert state.nodes["gpu-1"].units == 8
    assert state.nodes["gpu-1"].group == "a"
    assert state.nodes["gpu-1"].cpu == (8, 64)


def test_amounts_are_of_cores_where_no_node_has_a_gpu() -> None:
    state = seen(cluster((NODES, node("laptop", 8)), (JOBS, job("train", 2, "1500m"))))
    assert state.facts.unit == "cpu"
    assert state.jobs["default/train"].units == 3
    assert state.nodes["laptop"].units == 8


def test_nodes_come_in_the_order_in_which_people_count() -> None:
    state = seen(cluster(*((NODES, gpu_node(f"gpu-{number}")) for number in (10, 9, 1))))
    assert list(state.nodes) == ["gpu-1", "gpu-9", "gpu-10"]


def test_a_job_that_can_never_start_is_told_from_one_that_waits() -> None:
    state = seen(cluster(*MIXED))
    never = {name for name, row in state.jobs.items() if row.reason and state.reasons[row.reason].never}
    assert never == {"default/never"}


def test_expected_starts_are_those_of_the_forecast_and_say_what_is_not_known() -> None:
    state = seen(cluster(*MIXED))
    assert state.jobs["default/held"].start_s == ()
    assert state.jobs["default/never"].start_s == ()
    assert "default/never" not in state.played
    waits = state.jobs["default/waits"]
    fits = state.jobs["default/fits"]
    assert fits.soon
    assert waits.start_s
    assert waits.start_s[-1] == pytest.approx(NOW_S + 7200)
    run = state.played["default/waits"]
    assert run.end_s == pytest.approx(run.start_s + 3600)
    assert dict(run.places) == {"gpu-1": 8, "gpu-2": 8}


def told(name: str, run_s: float) -> RunTold:
    shape = Shape(requests=amounts({"cpu": 1000, "nvidia.com/gpu": 4, "pods": 1}))
    return RunTold(Job(id=name, queue="default", roles=(Role(name="", count=2, minimum=2, shape=shape),)), run_s)


def test_what_would_start_it_sooner_is_played_forward() -> None:
    snapshot = cluster(*MIXED)
    reason = snapshot.reasons["default/waits"]
    asked = answer(snapshot.cluster, "default/waits", "", reason, NOW_S)
    assert asked["start_s"] == pytest.approx(NOW_S + 7200)
    keys = {one["key"] for one in asked["changes"]}
    assert {"pods", "nodes", "priority"} <= keys
    assert all(one["command"] for one in asked["changes"])
    more = answer(snapshot.cluster, "default/waits", "nodes", reason, NOW_S)
    assert more["start_s"] == pytest.approx(NOW_S)
    fewer = answer(snapshot.cluster, "default/waits", "pods", reason, NOW_S)
    assert fewer["start_s"] == pytest.approx(NOW_S)
    assert snapshot.cluster.jobs["default/waits"].job.roles[0].count == 2, "the cluster itself is not changed"


def test_what_cannot_be_changed_is_refused() -> None:
    snapshot = cluster(*MIXED)
    with pytest.raises(PhalanxError, match="no waiting job"):
        answer(snapshot.cluster, "default/none", "", None, NOW_S)
    with pytest.raises(PhalanxError, match="no change"):
        answer(snapshot.cluster, "default/waits", "magic", None, NOW_S)


def test_hostile_names_are_rows_like_any_others() -> None:
    hostile = gpu_job("x" * 253, 1, 1, time_limit="1h")
    hostile["metadata"]["labels"] |= {f"l{number}": "</script>" for number in range(1000)}
    hostile["metadata"]["annotations"] = {"phalanx.dev/user": "<script>alert(1)</script>\u202e"}
    state = seen(cluster(*MIXED, (JOBS, hostile)))
    row = state.jobs[f"default/{'x' * 253}"]
    assert len(msgspec.json.encode(row)) < 1200
