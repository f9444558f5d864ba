"""The pending Workloads and their positions, from the objects alone, as in a cluster's visibility API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from phalanx.dialects.frame.dialect import GangStage, Object
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.names import key_of
from phalanx.dialects.kueue.answers.pending import Lean, of_workloads, visible
from tests.dialects.kueue.test_workload_status import DEFINED, told
from tests.dialects.kueue.written import cluster_queue, group, local_queue, objects

OF_A = ("v1beta2", "clusterqueues", "a", "pendingworkloads")
OF_L = ("v1beta2", "namespaces", "default", "localqueues", "l", "pendingworkloads")


def workload(name: str, at: int, queue: str = "l", *said: str, owners: int = 1, **spec: Any) -> Object:
    """A Workload that came then, with these conditions True."""
    meta = {"name": f"job-{name}-abcde", "namespace": "default", "creationTimestamp": f"2026-01-01T00:00:{at:02}Z"}
    owner = [{"kind": "Job", "name": name}][:owners]
    conditions = [{"type": one, "status": "True"} for one in said] + [{"type": "Evicted", "status": "False"}]
    return {
        "metadata": {**meta, "ownerReferences": owner, "labels": {"app": "x"}},
        "spec": {"queueName": queue, "podSets": [], **spec},
        "status": {"conditions": conditions},
    }


def cluster(*workloads: Object) -> Any:
    queues = objects(
        cluster_queues=[cluster_queue(name, group(f={"cpu": 1})) for name in ("a", "b")],
        local_queues=[local_queue("l", "a"), local_queue("m", "a"), local_queue("n", "b")],
    )
    found = {**queues, kinds.WORKLOADS: {one["metadata"]["name"]: one for one in workloads}}
    return {kind: {key: msgspec.convert(one, Lean) for key, one in some.items()} for kind, some in found.items()}


def rows(answer: Object) -> list[tuple[Any, ...]]:
    return [
        (
            one["metadata"]["ownerReferences"][0]["name"],
            one["localQueueName"],
            one["priority"],
            one["positionInClusterQueue"],
            one["positionInLocalQueue"],
        )
        for one in answer["items"]
    ]


def test_they_stand_by_priority_and_then_as_they_came() -> None:
    found = cluster(
        workload("late", 9),
        workload("urgent", 20, priority=10),
        workload("early", 3, "m"),
        workload("same", 9),
        workload("elsewhere", 1, "n"),
    )
    answer = of_workloads(found, OF_A, {})
    assert (answer["kind"], answer["apiVersion"]) == (
        "PendingWorkloadsSummary",
        "visibility.kueue.x-k8s.io/v1beta2",
    )
    assert rows(answer) == [
        ("urgent", "l", 10, 0, 0),
        ("early", "m", 0, 1, 0),
        ("late", "l", 0, 2, 1),
        ("same", "l", 0, 3, 2),
    ]
    assert set(answer["items"][0]["metadata"]) == {"name", "namespace", "creationTimestamp", "ownerReferences"}
    assert [one[0] for one in rows(of_workloads(found, OF_L, {}))] == ["urgent", "late", "same"]
    assert [one[3] for one in rows(of_workloads(found, OF_L, {"limit": "1", "offset": "1"}))] == [2]


def test_who_does_not_wait_is_not_listed() -> None:
    found = cluster(
        workload("reserved", 1, "l", "QuotaReserved"),
        workload("over", 2, "l", "Finished"),
        workload("stopped", 3, active=False),
        workload("nobody's", 4, owners=0),
        workload("of-no-queue", 5, "gone"),
        workload("waits", 6, active=True, priority=None),
    )
    assert rows(of_workloads(found, OF_A, {})) == [("waits", "l", 0, 0, 0)]


def test_a_job_is_listed_from_the_moment_at_which_its_workload_exists() -> None:
    first = told(GangStage.WAITING, placed=0)
    owner = {**first.owners[0], "metadata": {**first.owners[0]["metadata"], "name": "k", "uid": "2"}}
    jobs = [first, replace(first, id="default/k", owners=(owner,), created_s=1.0)]
    found = {kinds.WORKLOADS: {key_of(DEFINED, jobs[1]): workload("k", 1)}}
    assert rows(visible(DEFINED, jobs, found, OF_A, {})) == [("k", "l", 0, 0, 0)]
    found[kinds.WORKLOADS][key_of(DEFINED, first)] = workload("j", 2)
    assert rows(visible(DEFINED, jobs, found, OF_A, {})) == [("j", "l", 0, 0, 0), ("k", "l", 0, 1, 1)]


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        (("v1beta2", "clusterqueues", "none", "pendingworkloads"), {}, 404),
        (("v1beta2", "namespaces", "other", "localqueues", "l", "pendingworkloads"), {}, 404),
        (("v1beta2", "clusterqueues", "a", "status"), {}, 404),
        (OF_A, {"limit": "many"}, 400),
        (OF_A, {"offset": "-1"}, 400),
    ],
)
def test_what_cannot_be_answered_is_refused(path: tuple[str, ...], query: dict[str, str], code: int) -> None:
    assert of_workloads(cluster(), path, query)["code"] == code
