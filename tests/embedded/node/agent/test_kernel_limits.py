"""`agent/starting/kernel_limits.py`: the limits of containers and of whole pods."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.node.agent.starting.kernel_limits import default_memory_bytes, pod_limits, resource_limits
from tests.embedded.node.test_surroundings import surroundings

MIB = 1 << 20


def container(memory: str | None = None, cpu: str | None = None, **more: Any) -> dict[str, Any]:
    limits = {name: text for name, text in (("memory", memory), ("cpu", cpu)) if text is not None}
    return {"name": "c", "resources": {"limits": limits}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "mib"),
    [
        ({"containers": [container("1Mi"), container("2Mi")]}, 3),
        ({"containers": [container("1Mi")], "initContainers": [container("4Mi"), container("2Mi")]}, 4),
        ({"containers": [container("1Mi")], "initContainers": [container("2Mi", **SIDECAR)]}, 3),
        # an init container runs beside the sidecars before it
        ({"containers": [container("1Mi")], "initContainers": [container("1Mi", **SIDECAR), container("4Mi")]}, 5),
        ({"containers": [container("1Mi")], "initContainers": [container("4Mi"), container("1Mi", **SIDECAR)]}, 4),
        ({"containers": [container("1Mi"), container()]}, None),
        ({"containers": [container("1Mi")], "initContainers": [container()]}, None),
    ],
)
def test_the_memory_of_a_pod_is_the_most_that_runs_at_a_time(spec: dict[str, Any], mib: int | None) -> None:
    found = pod_limits(surroundings(), spec).memory_limit_bytes
    assert found == (None if mib is None else mib * MIB)


def test_a_missing_limit_is_the_default_and_never_below_the_request() -> None:
    machine = surroundings(settings={"default_memory_bytes": 2 * MIB})
    assert resource_limits(machine, {}, {}).memory_limit_bytes == 2 * MIB
    assert resource_limits(machine, {"memory": 3 * MIB}, {}).memory_limit_bytes == 3 * MIB
    assert resource_limits(machine, {}, {"memory": MIB}).memory_limit_bytes == MIB


@pytest.mark.parametrize(
    ("settings", "default"),
    [({}, 0), ({"shared": True}, 2 << 30), ({"shared": True, "default_memory_bytes": 0}, 0)],
)
def test_on_a_shared_machine_the_default_is_the_memory_of_a_cpu(settings: dict[str, Any], default: int) -> None:
    assert default_memory_bytes(surroundings(settings=settings)) == default
