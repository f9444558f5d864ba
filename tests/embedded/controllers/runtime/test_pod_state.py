"""The state of a pod, as kube-controller-manager reads it from the object."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.embedded.controllers.runtime.pod_state import (
    deletion_cost,
    failure_cause,
    finished_at,
    is_active,
    is_terminating,
    removal_rank,
    restarts,
)

MADE = "2026-01-01T00:00:00Z"
MADE_S = 1767225600.0


def pod(name: str = "p", phase: str = "Running", *, node: str = "n1", **status: Any) -> Object:
    meta = {"name": name, "namespace": "n", "uid": name, "creationTimestamp": MADE, "annotations": {}}
    return {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase, **status}}


def ready(since: str, status: str = "True") -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, "lastTransitionTime": since}]


def ended(at: str | None) -> dict[str, Any]:
    return {"name": "c", "state": {"terminated": {"finishedAt": at}} if at else {"running": {}}}


def test_a_pod_that_ends_while_it_is_deleted_is_neither_active_nor_terminating() -> None:
    going = pod()
    going["metadata"]["deletionTimestamp"] = MADE
    assert (is_active(pod()), is_terminating(pod())) == (True, False)
    assert (is_active(going), is_terminating(going)) == (False, True)
    going["status"]["phase"] = "Failed"
    assert (is_active(going), is_terminating(going)) == (False, False)


def test_a_pod_finished_with_its_last_container_else_when_it_was_not_ready_or_deleted() -> None:
    both = pod(containerStatuses=[ended("2026-01-01T00:00:10Z"), ended("2026-01-01T00:00:20Z")])
    assert finished_at(both) == MADE_S + 20
    one_runs = pod(
        containerStatuses=[ended("2026-01-01T00:00:10Z"), ended(None)],
        conditions=ready("2026-01-01T00:00:30Z", "False"),
    )
    assert finished_at(one_runs) == MADE_S + 30
    deleted = pod()
    deleted["metadata"] |= {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 15}
    assert finished_at(deleted) == MADE_S + 45
    assert finished_at(pod()) == MADE_S


def test_the_cause_is_that_of_the_pod_that_failed_first_and_says_one() -> None:
    silent = pod("silent", "Failed", containerStatuses=[ended("2026-01-01T00:00:01Z")])
    first = pod("first", "Failed", message="out of disk", containerStatuses=[ended("2026-01-01T00:00:02Z")])
    second = pod("second", "Failed", message="lost", containerStatuses=[ended("2026-01-01T00:00:03Z")])
    assert failure_cause([second, first, silent, pod("runs", message="no failure")]) == "pod first: out of disk"
    assert failure_cause([silent]) == ""


def test_a_surplus_leaves_in_the_order_of_kubernetes() -> None:
    """Source: ActivePodsWithRanks of k8s.io/kubernetes/pkg/controller."""
    old, young = ready("2026-01-01T00:00:10Z"), ready("2026-01-01T00:00:20Z")
    order = [
        pod("unbound", "Pending", node=""),
        pod("pending", "Pending"),
        pod("unready"),
        pod("restarted", conditions=young, containerStatuses=[{"restartCount": 3}]),
        pod("young", conditions=young),
        pod("old", conditions=old),
    ]
    assert sorted([order[at] for at in (3, 0, 5, 1, 4, 2)], key=removal_rank) == order
    costly, cheap = pod("costly", conditions=young), pod("cheap", conditions=old)
    assert removal_rank(cheap, cost=-5) < removal_rank(costly, cost=5)
    assert removal_rank(cheap, peers_on_node=3) < removal_rank(costly, peers_on_node=1)


def test_restarts_count_init_containers_too() -> None:
    assert restarts(pod(initContainerStatuses=[{"restartCount": 1}], containerStatuses=[{"restartCount": 2}, {}])) == 3
    assert restarts(pod()) == 0


@pytest.mark.parametrize(("text", "cost"), [("7", 7), ("-7", -7), ("a", 0), ("1" * 12, 0), ("", 0), ("1.5", 0)])
def test_a_wrong_cost_of_deletion_counts_as_none(text: str, cost: int) -> None:
    found = pod()
    found["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = text
    assert deletion_cost(found) == cost
