"""Points 6 and 16 of the protocol: what a pod costs its node, and what its template will cost."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.kube.read.node import read_node
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.template.node_affinity import required_node_affinity, unsupported
from phalanx.kube.read.template.pod_requests import pod_requests
from phalanx.kube.read.template.pod_shape import ShapeCache, covers
from phalanx.model.pod import Operator, Requirement, Shape
from phalanx.model.reason import ReasonCode

GI = 2**30


def container(*, name: str = "c", sidecar: bool = False, limits: Any = None, **requests: str) -> dict[str, Any]:
    resources = {"requests": requests} | ({"limits": limits} if limits else {})
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if sidecar else {})


def cost(**spec: Any) -> dict[str, int]:
    return dict(pod_requests(spec))


def test_containers_add_up() -> None:
    assert cost(containers=[container(cpu="1500m", memory="1Gi"), container(cpu="1")]) == {
        "cpu": 2500,
        "memory": GI,
        "pods": 1,
    }


def test_only_the_largest_init_container_counts() -> None:
    assert cost(initContainers=[container(cpu="3"), container(cpu="2")], containers=[container(cpu="1")])["cpu"] == 3000


def test_a_sidecar_stays_beside_the_containers() -> None:
    assert cost(initContainers=[container(cpu="2", sidecar=True)], containers=[container(cpu="1")])["cpu"] == 3000


def test_an_init_container_runs_beside_the_sidecars_before_it() -> None:
    both = [container(cpu="2", sidecar=True), container(cpu="4")]
    assert cost(initContainers=both, containers=[container(cpu="1")])["cpu"] == 6000
    assert cost(initContainers=both[::-1], containers=[container(cpu="1")])["cpu"] == 4000


def test_pod_level_resources_override_and_overhead_comes_on_top() -> None:
    found = cost(containers=[container(cpu="1")], resources={"requests": {"cpu": "5"}}, overhead={"cpu": "250m"})
    assert found["cpu"] == 5250


def test_a_limit_alone_is_a_request() -> None:
    assert cost(containers=[container(limits={"nvidia.com/gpu": "2"})])["nvidia.com/gpu"] == 2


def test_while_it_is_resized_the_larger_of_asked_allocated_and_actual_counts() -> None:
    state = {"name": "c", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2"}}}
    spec = {"containers": [container(cpu="1")]}
    assert dict(pod_requests(spec, {"containerStatuses": [state]}))["cpu"] == 3000


def test_a_resize_that_can_never_be_does_not_count() -> None:
    state = {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
    stuck = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    status = {"containerStatuses": [state], "conditions": stuck}
    assert dict(pod_requests({"containers": [container(cpu="64")]}, status))["cpu"] == 1000


def test_a_template_gets_what_admission_will_add() -> None:
    around = AdmissionDefaults(
        limit_ranges={
            "default/l": {
                "metadata": {"namespace": "default"},
                "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi", "cpu": "9"}}]},
            }
        },
        runtime_classes={
            "kata": {"overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {"nodeSelector": {"kata": "y"}}}
        },
        priority_classes={"high": {"value": 1000}},
    )
    spec = {"containers": [container(cpu="1")], "runtimeClassName": "kata", "priorityClassName": "high"}
    shape = around.requirements("default", spec).shape
    assert (dict(shape.requests), shape.selector) == ({"cpu": 1250, "memory": GI, "pods": 1}, (("kata", "y"),))
    assert around.priority(spec) == 1000


def test_template_and_pod_share_a_shape() -> None:
    """Admission gives every pod two tolerations that no template has."""
    shapes, spec = ShapeCache(), {"containers": [container(cpu="1")]}
    added = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    assert shapes.of_pod(spec) == shapes.of_pod({**spec, "tolerations": [added]})


def test_smaller_is_covered_and_larger_is_not() -> None:
    small, large = Shape((("cpu", 1000), ("pods", 1))), Shape((("cpu", 2000), ("pods", 1)))
    assert covers(large, small)
    assert not covers(small, large)
    assert not covers(large, Shape(small.requests, selector=(("zone", "a"),)))


def test_a_quantity_that_is_none_is_told() -> None:
    ask = ShapeCache().of_pod({"containers": [container(cpu="lots")]})
    assert ask.obstacle is not None
    assert ask.obstacle.code is ReasonCode.INVALID
    assert "'lots' is not a quantity" in ask.obstacle.text


def test_required_node_affinity_is_read() -> None:
    term = {
        "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert required_node_affinity({"affinity": {"nodeAffinity": required}}) == (
        (
            Requirement("gpu", Operator.IN, ("a100",)),
            Requirement("metadata.name", Operator.NOT_IN, ("n1",), field=True),
        ),
    )


def test_what_fit_does_not_understand_fails_closed() -> None:
    chosen = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [chosen]}
    specs: list[dict[str, Any]] = [
        {"resourceClaims": [{"name": "gpu"}]},
        {"affinity": {"podAntiAffinity": rule}},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "matchLabelKeys": ["app"]}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "nodeTaintsPolicy": "Honor"}]},
    ]
    for spec in specs:
        reason = unsupported(spec)
        assert reason is not None
        assert reason.code is ReasonCode.UNSUPPORTED
    assert unsupported({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}) is None


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
