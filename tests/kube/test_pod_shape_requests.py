"""Points 6 and 16 of the protocol: what a pod costs its node, and what its template will cost."""

from __future__ import annotations

from typing import Any

from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.template.pod_shape import pod_requests

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
