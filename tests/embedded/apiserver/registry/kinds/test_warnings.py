"""Warnings about probable mistakes in a pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, create, pod, resource


def test_a_name_that_is_no_host_name_is_warned_of() -> None:
    obj = create("pods", {**pod(), "metadata": {"name": "a.b"}})
    warnings = resource("pods").strategy.warnings(obj, None)
    assert warnings[0].startswith("metadata.name: this is used in the Pod's hostname")


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        ),
        (
            {"containers": [{**CONTAINER, "env": [{"name": "A"}, {"name": "A"}]}]},
            'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        ),
        (
            {"containers": [{**CONTAINER, "resources": {"requests": {"memory": "500m"}}}]},
            'spec.containers[0].resources.requests[memory]: fractional byte value "500m" is invalid, '
            "must be an integer",
        ),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 80}, {"containerPort": 80, "name": "b"}]}]},
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ),
        (
            {
                "containers": [
                    {**CONTAINER, "ports": [{"containerPort": 80}]},
                    {**CONTAINER, "name": "d", "ports": [{"containerPort": 80, "hostPort": 80}]},
                ]
            },
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            'spec.imagePullSecrets[1].name: duplicate name "a"',
        ),
        (
            {"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]},
            'spec.hostAliases[1].ip: duplicate ip "10.0.0.1"',
        ),
        (
            {"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]},
            "spec.volumes[0].gitRepo: deprecated in v1.11",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
                }
            },
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: "
            "a null labelSelector results in matching no pod",
        ),
    ],
)
def test_probable_mistakes_are_warned_of(spec: Any, warning: str) -> None:
    assert resource("pods").strategy.warnings(create("pods", pod(**spec)), None) == [warning]
