"""Pods as the server stores them: QoS class, scheduling gates, fields for field selectors, and grace period."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, create, pod, resource


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_the_qos_class_follows_the_resources(resources: Any, expected: str) -> None:
    obj = create("pods", pod(containers=[{**CONTAINER, "resources": resources}]))
    assert obj["status"]["qosClass"] == expected


def test_a_gated_pod_says_that_it_is_not_scheduled() -> None:
    obj = create("pods", pod(schedulingGates=[{"name": "example.com/wait"}]))
    assert [(one["type"], one["status"], one["reason"]) for one in obj["status"]["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


def test_pods_are_selected_by_node_phase_and_scheduler() -> None:
    obj = create("pods", pod(nodeName="n1", schedulerName="phalanx"))
    strategy = resource("pods").strategy
    found = strategy.selectable_fields(obj)
    assert (found["spec.nodeName"], found["status.phase"], found["spec.schedulerName"]) == ("n1", "Pending", "phalanx")
    assert set(found) == set(strategy.selectable_names())


@pytest.mark.parametrize(
    ("spec", "phase", "asked_s", "grace_s"),
    [
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", -1, 1),
        ({"nodeName": "n"}, "Succeeded", 30, 0),
    ],
)
def test_only_a_bound_and_running_pod_has_time_to_go(spec: Any, phase: str, asked_s: int | None, grace_s: int) -> None:
    obj = create("pods", pod(**spec))
    obj["status"]["phase"] = phase
    assert resource("pods").strategy.deletion_grace_s(obj, asked_s) == grace_s
