"""`kube/read/node.py`: convert a Node object into `model.Node`."""

from __future__ import annotations

import pytest

from phalanx.kube.read.node import read_node


def test_a_node_is_what_it_can_allocate_and_whom_it_repels() -> None:
    obj = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m"}, "conditions": []},
    }
    node = read_node(obj)
    assert (node.allocatable, node.ready, node.unschedulable) == ((("cpu", 7500),), False, True)


@pytest.mark.parametrize(
    ("key", "effect", "closed"),
    [
        ("ToBeDeletedByClusterAutoscaler", "NoSchedule", True),
        ("karpenter.sh/disrupted", "NoSchedule", True),
        ("karpenter.sh/unregistered", "NoExecute", True),
        ("startup-taint.cluster-autoscaler.kubernetes.io/driver", "NoSchedule", True),
        ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule", False),
        ("startup-taint.cluster-autoscaler.kubernetes.io/driver", "PreferNoSchedule", False),
        ("nvidia.com/gpu", "NoSchedule", False),
    ],
)
def test_nodes_that_an_autoscaler_removes_or_starts_take_no_pod_that_tolerates_all(
    key: str, effect: str, closed: bool
) -> None:
    obj = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": key, "effect": effect}]}, "status": {}}
    assert read_node(obj).unschedulable is closed


@pytest.mark.parametrize(
    ("key", "value", "protected"),
    [
        ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true", True),
        ("karpenter.sh/do-not-disrupt", "true", True),
        ("karpenter.sh/do-not-disrupt", "false", False),
        ("else", "true", False),
    ],
)
def test_nodes_that_must_not_be_removed_say_so(key: str, value: str, protected: bool) -> None:
    assert read_node({"metadata": {"name": "n", "annotations": {key: value}}}).protected is protected
