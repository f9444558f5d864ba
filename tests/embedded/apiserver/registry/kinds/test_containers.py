"""The containers of a pod: what is refused of them (messages recorded from kube-apiserver 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, pod, refusal


@pytest.mark.parametrize(
    ("resources", "lines"),
    [
        (
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            {"requests": {"nvidia.com/gpu": "1"}},
            ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            {"limits": {"nvidia.com/gpu": "500m"}},
            [
                'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
                'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
            ],
        ),
        (
            {"requests": {"cpu": "-1"}},
            ['spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            {"requests": {"cores": "1"}},
            [
                'spec.containers[0].resources.requests[cores]: Invalid value: "cores": '
                "must be a standard resource type or fully qualified",
                'spec.containers[0].resources.requests[cores]: Invalid value: "cores": '
                "must be a standard resource for containers",
            ],
        ),
    ],
)
def test_wrong_resources_are_refused(resources: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(containers=[{**CONTAINER, "resources": resources}])) == lines


@pytest.mark.parametrize(
    ("profile", "lines"),
    [
        ({"type": "RuntimeDefault"}, []),
        ({"type": "Localhost", "localhostProfile": "mine"}, []),
        ({"type": ""}, [".type: Required value: type is required when appArmorProfile is set"]),
        (
            {"type": "X"},
            ['.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"'],
        ),
        ({"type": "Localhost"}, [".localhostProfile: Required value: must be set when AppArmor type is Localhost"]),
        (
            {"type": "Localhost", "localhostProfile": " x"},
            ['.localhostProfile: Invalid value: " x": must not be padded with whitespace'],
        ),
        (
            {"type": "Unconfined", "localhostProfile": "x"},
            ['.localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost'],
        ),
    ],
)
def test_profiles_of_apparmor(profile: dict[str, Any], lines: list[str]) -> None:
    found = refusal("pods", pod(containers=[{**CONTAINER, "securityContext": {"appArmorProfile": profile}}]))
    assert found == [f"spec.containers[0].securityContext.appArmorProfile{line}" for line in lines]
    found = refusal("pods", pod(securityContext={"appArmorProfile": profile}))
    assert found == [f"spec.securityContext.appArmorProfile{line}" for line in lines]


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"containers": []}, ["spec.containers: Required value"]),
        (
            {"containers": [{}]},
            ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        ({"containers": [CONTAINER, CONTAINER]}, ['spec.containers[1].name: Duplicate value: "c"']),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 70000}, {"containerPort": 1, "protocol": "X"}]}]},
            [
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: "
                "must be between 1 and 65535, inclusive",
                'spec.containers[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            ],
        ),
        (
            {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]},
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
    ],
)
def test_wrong_containers_are_refused(spec: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(**spec)) == lines
