"""Metrics of pods and nodes, from the summaries of nodes."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.endpoints.subresources.metrics import _nodes, _pods

METRICS: Any = Resource(group="metrics.k8s.io", version="v1beta1", kind="PodMetrics", plural="pods", namespaced=True)
STATS = {
    "cpu": {"time": "now", "usageNanoCores": 5},
    "memory": {"workingSetBytes": 2047},
    "windowSeconds": 1.5,
}


def owner(uid: str = "u", **meta: Any) -> Any:
    return {"metadata": {"name": "p", "namespace": "ns", "uid": uid, "annotations": {"a": "b"}, **meta}, "spec": {}}


def test_a_pod_has_the_usage_of_each_container() -> None:
    summary = {"pods": [{"podRef": {"uid": "u"}, "containers": [{"name": "c", **STATS}]}]}
    [found] = _pods(METRICS, [owner(labels={"l": "1"}), owner("another")], summary)
    assert found["containers"] == [{"name": "c", "usage": {"cpu": "5n", "memory": "1Ki"}}]
    assert (found["timestamp"], found["window"]) == ("now", "1.500s")
    assert found["metadata"] == {"name": "p", "namespace": "ns", "labels": {"l": "1"}}


def test_a_pod_without_containers_has_no_metrics() -> None:
    assert list(_pods(METRICS, [owner()], {"pods": [{"podRef": {"uid": "u"}, "containers": []}]})) == []


def test_a_node_has_its_own_usage() -> None:
    [found] = _nodes(METRICS, [owner()], {"node": STATS})
    assert found["usage"] == {"cpu": "5n", "memory": "1Ki"}
