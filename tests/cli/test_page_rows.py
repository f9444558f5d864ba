"""The page's state says of each job, queue and node what the command line says, since both come from one snapshot."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.cli.views import queue_view
from phalanx.cli.views.job import reading
from phalanx.client.kind import JOBS, NODES
from tests.cli.page_clusters import MIXED, NOW_S, cluster, gpu_job, gpu_node, seen
from tests.kube.double import job, node


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


def test_hostile_names_are_rows_like_any_others() -> None:
    hostile = gpu_job("x" * 253, 1, 1, time_limit="1h")
    hostile["metadata"]["labels"] |= {f"l{number}": "</script>" for number in range(1000)}
    hostile["metadata"]["annotations"] = {"phalanx.dev/user": "<script>alert(1)</script>\u202e"}
    state = seen(cluster(*MIXED, (JOBS, hostile)))
    row = state.jobs[f"default/{'x' * 253}"]
    assert len(msgspec.json.encode(row)) < 1200
