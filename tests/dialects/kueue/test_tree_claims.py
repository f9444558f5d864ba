"""`dialects/kueue/tree/claims.py`: the settings of a gang that names a LocalQueue."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import Said
from phalanx.dialects.kueue.tree.claims import claim
from phalanx.model.pod import Amounts, amounts
from phalanx.model.reason import ReasonCode
from tests.dialects.kueue.written import cluster_queue, defined, group, local_queue, named


def said(**more: Any) -> Said:
    return Said(**{"gang": "default/j", "namespace": "default", "queue": "localqueue/default/l", "options": {}, **more})


def asking(*resources: str) -> frozenset[Amounts]:
    """One pod that asks for one of each."""
    return frozenset({amounts(dict.fromkeys(resources, 1))})


def test_a_gang_is_in_the_cluster_queue_of_its_local_queue() -> None:
    some = {"cluster_queues": [cluster_queue("a", group(f={"cpu": 1}))], "local_queues": [local_queue("l", "a")]}
    found = claim(defined(**some, priority_classes=[named("high", value=7)]), said(requests=asking("cpu", "pods")))
    assert found is not None
    assert (found.queue, found.priority, found.blocked) == ("clusterqueue/a", None, None)
    high = said(options={"kueue.x-k8s.io/priority-class": "high"})
    assert claim(defined(**some, priority_classes=[named("high", value=7)]), high).priority == 7  # type: ignore[union-attr]  # there is one
    assert claim(defined(**some), said(queue="default")) is None


def test_a_class_that_does_not_exist_keeps_a_job_waiting_but_not_one_whose_workload_has_it() -> None:
    some = defined(cluster_queues=[cluster_queue("a", group(f={"cpu": 1}))], local_queues=[local_queue("l", "a")])
    typo = said(options={"kueue.x-k8s.io/priority-class": "hihg"})
    waiting = claim(some, typo)
    assert waiting is not None
    assert waiting.blocked is not None
    assert (waiting.blocked.code, waiting.drained) == (ReasonCode.INVALID, False)
    assert "WorkloadPriorityClass hihg does not exist" in waiting.blocked.text
    deleted = claim(some, typo, {"spec": {"priority": 5, "priorityClassRef": {"name": "hihg"}}})
    assert deleted is not None
    assert (deleted.blocked, deleted.priority) == (None, 5)


OBSTACLES: list[tuple[dict[str, Any], dict[str, Any], ReasonCode, str]] = [
    ({"local_queues": []}, {}, ReasonCode.QUEUE_UNKNOWN, "LocalQueue l of namespace default does not exist"),
    (
        {"local_queues": [local_queue("l", "b")]},
        {},
        ReasonCode.QUEUE_UNKNOWN,
        "ClusterQueue b of LocalQueue l does not exist",
    ),
    (
        {"local_queues": [local_queue("l", "a", stopPolicy="Hold")]},
        {},
        ReasonCode.QUEUE_HELD,
        "LocalQueue l is stopped",
    ),
    (
        {"cluster_queues": [cluster_queue("a", stopPolicy="Hold")]},
        {},
        ReasonCode.QUEUE_HELD,
        "ClusterQueue a: Can't admit new workloads: is stopped.",
    ),
    (
        {"cluster_queues": [cluster_queue("a", namespaceSelector=None)]},
        {},
        ReasonCode.INVALID,
        "namespace default does not match the namespaceSelector of ClusterQueue a",
    ),
    ({}, {"requests": frozenset({(("gpu", 1),)})}, ReasonCode.NO_NODE_MATCHES, "ClusterQueue a has no quota for gpu"),
]


@pytest.mark.parametrize(("some", "asks", "code", "text"), OBSTACLES)
def test_why_a_gang_may_not_start(some: dict[str, Any], asks: dict[str, Any], code: ReasonCode, text: str) -> None:
    whole = {"cluster_queues": [cluster_queue("a", group(f={"cpu": 1}))], "local_queues": [local_queue("l", "a")]}
    found = claim(defined(**{**whole, **some}), said(**asks))
    assert found is not None
    assert found.blocked is not None
    assert (found.blocked.code, found.blocked.text) == (code, text)
