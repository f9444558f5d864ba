"""The defaults of a new pod."""

from __future__ import annotations

import pytest

from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, create, pod, resource


def test_a_minimal_pod_gets_every_default() -> None:
    obj = create("pods", pod())
    assert obj["spec"]["containers"] == [
        {
            "name": "c",
            "image": "i",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]
    expected = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert {key: obj["spec"][key] for key in expected} == expected
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj["metadata"]["generation"] == 1


def test_defaults_are_idempotent() -> None:
    probe = {"httpGet": {"port": 80}}
    volumes = [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}, {"name": "h", "hostPath": {"path": "/"}}]
    once = create("pods", pod(containers=[{**CONTAINER, "livenessProbe": probe}], volumes=volumes))
    again = {**once, "spec": dict(once["spec"])}
    resource("pods").strategy.default(again)
    assert again == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("x:1", "IfNotPresent"),
        ("reg.io:5000/x", "Always"),
        ("reg.io:5000/x:1", "IfNotPresent"),
        ("x@sha256:" + "a" * 64, "IfNotPresent"),
        ("localhost/x", "Always"),
        ("Bad", "IfNotPresent"),
        ("x-", "IfNotPresent"),
        ("x" * 300, "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    obj = create("pods", pod(containers=[{"name": "c", "image": image}]))
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_default_from_limits() -> None:
    resources = {"limits": {"cpu": "0.5", "example.com/gpu": "2"}, "requests": {"cpu": "0.1"}}
    obj = create("pods", pod(containers=[{**CONTAINER, "resources": resources}]))
    assert obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "example.com/gpu": "2"}
