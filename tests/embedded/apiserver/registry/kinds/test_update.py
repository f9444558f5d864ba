"""What may change about a pod, its status, its size."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.kinds.pods.pod import PodStrategy
from tests.embedded.apiserver.registry.kinds.writes import (
    CONTAINER,
    Object,
    pod,
    resource,
    status,
    status_refusal,
    stored,
    update,
    update_refusal,
)


def container(**fields: Any) -> Object:
    return stored("pods", pod())["spec"]["containers"][0] | fields


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [container(image="j")]},
        {"activeDeadlineSeconds": 60},
        {"tolerations": [*stored("pods", pod())["spec"]["tolerations"], {"key": "k", "operator": "Exists"}]},
    ],
)
def test_some_fields_may_change_and_make_a_new_generation(change: Object) -> None:
    changed = update("pods", stored("pods", pod()), {"spec": change})
    assert changed["metadata"]["generation"] == 2


def test_a_change_of_labels_alone_is_no_new_generation() -> None:
    changed = update("pods", stored("pods", pod()), {"metadata": {"labels": {"a": "b"}}})
    assert changed["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"schedulerName": "other"}, '+ "SchedulerName": "other",'),
        ({"nodeSelector": {"a": "b"}}, '+ "NodeSelector": {\n+  "a": "b"\n+ },'),
        ({"containers": [container(command=["x"])]}, '+   "Command": [\n+    "x"\n+   ],'),
        ({"terminationGracePeriodSeconds": 1}, '+ "TerminationGracePeriodSeconds": 1,'),
        ({"nodeName": "n"}, '+ "NodeName": "n",'),
    ],
)
def test_the_rest_of_the_spec_is_fixed(change: Object, difference: str) -> None:
    (line,) = update_refusal("pods", stored("pods", pod()), {"spec": change})
    assert line.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,")
    assert difference in line


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"containers": [CONTAINER, {"name": "d", "image": "i"}]},
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            {"tolerations": []},
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            {"schedulingGates": [{"name": "g"}]},
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
        ),
    ],
)
def test_forbidden_changes_are_named(change: Object, line: str) -> None:
    assert update_refusal("pods", stored("pods", pod()), {"spec": change}) == [line]


def test_a_deadline_only_shrinks() -> None:
    old = stored("pods", pod(activeDeadlineSeconds=60))
    assert update_refusal("pods", old, {"spec": {"activeDeadlineSeconds": 30}}) == []
    assert update_refusal("pods", old, {"spec": {"activeDeadlineSeconds": 90}}) == [
        "spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal to previous value"
    ]


def test_a_gated_pod_may_lose_its_gates_and_narrow_its_nodes() -> None:
    old = stored("pods", pod(schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"}))
    assert update_refusal("pods", old, {"spec": {"schedulingGates": None}}) == []
    assert update_refusal("pods", old, {"spec": {"nodeSelector": {"c": "d"}}}) == []
    assert update_refusal("pods", old, {"spec": {"nodeSelector": {"a": "x"}}}) == [
        'spec.nodeSelector: Invalid value: {"a":"x"}: '
        "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    ]


def test_the_status_is_no_business_of_an_update() -> None:
    old = stored("pods", pod())
    assert update("pods", old, {"status": {"phase": "Running"}})["status"]["phase"] == "Pending"


def test_a_status_update_leaves_spec_and_owners_and_takes_labels() -> None:
    old = stored("pods", pod())
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}
    meta = {"labels": {"a": "b"}, "ownerReferences": [owner]}
    new = status("pods", old, {"metadata": meta, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
    assert new["spec"] == old["spec"]
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert new["metadata"]["labels"] == {"a": "b"}
    assert "ownerReferences" not in new["metadata"]


def test_a_container_that_ended_for_good_stays_ended() -> None:
    ended = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]}
    old = status("pods", stored("pods", pod(restartPolicy="Never")), {"status": ended})
    again = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    assert status_refusal("pods", old, {"status": again}) == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_the_qos_class_never_changes() -> None:
    assert status_refusal("pods", stored("pods", pod()), {"status": {"qosClass": "Guaranteed"}}) == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]


# --- resize ----------------------------------------------------------------------------------------------------------


def resized(old: Object, resources: Object, **fields: Any) -> tuple[Object, list[str]]:
    strategy = resource("pods").strategy
    assert isinstance(strategy, PodStrategy)
    new = {**old, "spec": {**old["spec"], "containers": [{**CONTAINER, **fields, "resources": resources}]}}
    strategy.prepare_resize(new, old)
    return new, [cause.line() for cause in strategy.validate_resize(new, old)]


def sized(**resources: Any) -> Object:
    return stored("pods", pod(containers=[{**CONTAINER, "resources": resources}]))


def test_a_resize_takes_resources_and_nothing_else() -> None:
    old = sized(requests={"cpu": "100m"}, limits={"cpu": "200m"})
    new, lines = resized(old, {"requests": {"cpu": "150m"}, "limits": {"cpu": "200m"}}, image="j")
    assert lines == []
    assert new["spec"]["containers"][0]["image"] == "i"
    assert new["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "150m"}
    assert new["metadata"]["generation"] == 2
    assert old["metadata"]["generation"] == 1


def test_a_resize_keeps_the_qos_class_and_removes_nothing() -> None:
    old = sized(requests={"cpu": "100m", "memory": "1Gi"}, limits={"cpu": "200m", "memory": "1Gi"})
    equal = {"cpu": "200m", "memory": "1Gi"}
    assert resized(old, {"requests": equal, "limits": equal})[1] == [
        'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'
    ]
    assert resized(old, {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}})[1] == [
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
    ]


# --- ephemeral containers --------------------------------------------------------------------------------------------


def with_debugger(old: Object, **fields: Any) -> tuple[Object, list[str]]:
    strategy = resource("pods").strategy
    assert isinstance(strategy, PodStrategy)
    debugger = container(name="debug") | fields
    new = {**old, "metadata": dict(old["metadata"]), "spec": {**old["spec"], "ephemeralContainers": [debugger]}}
    strategy.prepare_ephemeral(new, old)
    return new, [cause.line() for cause in strategy.validate_ephemeral(new, old)]


def test_a_debugger_is_added_and_stays() -> None:
    new, lines = with_debugger(stored("pods", pod()))
    assert lines == []
    assert with_debugger(new, image="other")[1] == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be changed\n'
    ]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"name": "c"}, 'spec.ephemeralContainers[0].name: Duplicate value: "c"'),
        ({"targetContainerName": "x"}, 'spec.ephemeralContainers[0].targetContainerName: Not found: "x"'),
        (
            {"resources": {"requests": {"cpu": "1"}}},
            "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
        ),
    ],
)
def test_a_debugger_serves_nothing(fields: Object, line: str) -> None:
    assert with_debugger(stored("pods", pod()), **fields)[1] == [line]
