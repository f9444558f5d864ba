"""What a node takes, in the words of the kubelet: the scheduler's protocol depends on them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.node.pod.admission import admit, matches_node
from tests.embedded.node.objects import asking, node, pod

ALLOCATABLE = {"cpu": 6000, "memory": 8 << 30, "pods": 110, "nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("asked", "used", "reason", "message"),
    [
        ({"cpu": "1"}, {"cpu": 5000}, None, None),
        (
            {"cpu": "1"},
            {"cpu": 5100},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1000, used: 5100, capacity: 6000",
        ),
        (
            {"memory": "9Gi"},
            {},
            "OutOfmemory",
            f"Node didn't have enough resource: memory, requested: {9 << 30}, used: 0, capacity: {8 << 30}",
        ),
        (
            {"nvidia.com/gpu": "1"},
            {"nvidia.com/gpu": 2},
            "OutOfnvidia.com/gpu",
            "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 2, capacity: 2",
        ),
        (
            {},
            {"pods": 110},
            "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
        ),
        ({"example.org/licence": "1"}, {}, None, None),  # a resource of the cluster, which no node says it has
        ({"cpu": "0"}, {"cpu": 6500}, None, None),  # an overfull node still takes what asks nothing of it
    ],
)
def test_what_does_not_fit_is_rejected(asked: Any, used: Any, reason: str | None, message: str | None) -> None:
    found = admit(pod(asking(**asked)), node(), ALLOCATABLE, used)
    assert (found and found.reason, found and found.message) == (reason, message)


def test_what_others_say_of_a_node_is_its_own_too() -> None:
    batch = node()
    batch.setdefault("status", {})["allocatable"] = {"kubernetes.io/batch-cpu": "4k", "cpu": "1"}
    asked = pod(asking(cpu="3", **{"kubernetes.io/batch-cpu": "3000"}))
    assert admit(asked, batch, ALLOCATABLE, {}) is None
    found = admit(asked, batch, ALLOCATABLE, {"kubernetes.io/batch-cpu": 2000})
    assert found is not None
    assert found.reason == "OutOfkubernetes.io/batch-cpu"
    assert admit(asked, node(), ALLOCATABLE, {}) is not None


def test_a_node_of_the_wrong_kind_is_said_so() -> None:
    found = admit(pod(nodeSelector={"zone": "a"}), node(labels={"zone": "b"}), ALLOCATABLE, {})
    assert found is not None
    assert found.reason == "NodeAffinity"
    assert found.message == "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "NotIn", ["a"], False),
        ("disk", "NotIn", ["ssd"], True),
        ("zone", "Exists", [], True),
        ("disk", "DoesNotExist", [], True),
        ("cores", "Gt", ["16"], True),
        ("cores", "Lt", ["16"], False),
        ("zone", "Gt", ["16"], False),
    ],
)
def test_node_affinity(key: str, operator: str, values: list[str], matches: bool) -> None:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, term]}}
    assert matches_node({"affinity": {"nodeAffinity": required}}, node(labels={"zone": "a", "cores": "32"})) is matches


def test_affinity_to_a_node_by_name() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert matches_node({"affinity": {"nodeAffinity": required}}, node("n"))
    assert not matches_node({"affinity": {"nodeAffinity": required}}, node("other"))


def test_only_noexecute_taints_concern_the_node() -> None:
    gone = {"key": "gone", "value": "yes", "effect": "NoExecute"}
    assert admit(pod(), node("n", {}, {**gone, "effect": "NoSchedule"}), ALLOCATABLE, {}) is None
    rejection = admit(pod(), node("n", {}, gone), ALLOCATABLE, {})
    assert rejection is not None
    assert rejection.reason == "TaintToleration"
    tolerated = pod(tolerations=[{"key": "gone", "operator": "Equal", "value": "yes"}])
    assert admit(tolerated, node("n", {}, gone), ALLOCATABLE, {}) is None
