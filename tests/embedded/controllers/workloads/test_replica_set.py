"""Which pods a ReplicaSet that shrinks deletes first: the order of ActivePodsWithRanks in k8s.io/kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.embedded.controllers.workloads.replica_set import going_first

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def pod(
    name: str,
    *,
    node: str | None = "n1",
    ready: str | None = EARLY,
    restarts: int = 0,
    born: str = EARLY,
    cost: str = "",
) -> Object:
    """A running pod on the node; `node`: None for a pod that waits. `ready`: since when; None for a pod that is not."""
    key = "controller.kubernetes.io/pod-deletion-cost"
    meta = {"name": name, "creationTimestamp": born, "annotations": {key: cost} if cost else {}}
    status: dict[str, Any] = {"phase": "Running" if node else "Pending"}
    if ready is not None and node:
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}]
    status["containerStatuses"] = [{"restartCount": restarts}]
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


@pytest.mark.parametrize(
    ("stays", "goes"),
    [
        pytest.param({}, {"node": None, "cost": "100"}, id="a pod that waits, whatever it costs"),
        pytest.param({}, {"ready": None, "cost": "100"}, id="a pod that is not ready, whatever it costs"),
        pytest.param({"cost": "100", "born": LATE}, {"cost": "-100"}, id="the lower cost"),
        pytest.param({"born": LATE}, {"cost": "-1"}, id="no cost counts as 0"),
        pytest.param({"cost": "9" * 40}, {"cost": "-1"}, id="a cost that is no 32-bit integer counts as 0"),
        pytest.param({}, {"ready": LATE}, id="the one that became ready later"),
        pytest.param({}, {"restarts": 2}, id="the one that restarted more often"),
        pytest.param({}, {"born": LATE}, id="the younger"),
    ],
)
def test_the_first_pod_to_go(stays: dict[str, Any], goes: dict[str, Any]) -> None:
    for pods in ([pod("stays", **stays), pod("goes", **goes)], [pod("goes", **goes), pod("stays", **stays)]):
        assert [one["metadata"]["name"] for one in going_first(pods)] == ["goes", "stays"]


def test_pods_that_share_a_node_go_before_one_that_is_alone() -> None:
    pods = [pod("alone", node="n1", born=LATE), pod("b", node="n2", born=LATE), pod("c", node="n2")]
    assert [one["metadata"]["name"] for one in going_first(pods)] == ["b", "c", "alone"]
