"""The requests of a pod, and amounts as quantities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from phalanx.dialects.frame.pod_requests import amounts, container_requests, pod_requests, quantity


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("1", **SIDECAR)]}, 2000),
        # an init container runs together with the sidecars before it in the list, and never with later sidecars
        ({"containers": [container("1")], "initContainers": [container("1", **SIDECAR), container("4")]}, 5000),
        ({"containers": [container("1")], "initContainers": [container("4"), container("1", **SIDECAR)]}, 4000),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": None, "initContainers": None}, 0),
    ],
)
def test_requests_of_a_pod(spec: dict[str, Any], cpu: int) -> None:
    assert pod_requests(spec).get("cpu", 0) == cpu


def test_a_limit_counts_where_there_is_no_request() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert container_requests({"resources": resources}) == {"cpu": 1000, "memory": 1 << 30}
    assert container_requests({}) == {}


def test_what_is_no_amount_is_left_out_and_none_is_negative() -> None:
    assert amounts({"cpu": "x", "memory": [], "pods": "-1", "a": 1}) == {"pods": 0, "a": 1}
    assert amounts(["cpu"]) == amounts(None) == {}


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 << 30, "3Gi"),
        ("memory", (1 << 30) + 1, "1073741825"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("nvidia.com/gpu", Fraction(1, 2), "500m"),
        ("nvidia.com/gpu", Fraction(2), "2"),
    ],
)
def test_amounts_as_quantities(resource: str, value: int | Fraction, text: str) -> None:
    assert quantity(resource, value) == text
