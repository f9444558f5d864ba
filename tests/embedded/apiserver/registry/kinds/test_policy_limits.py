"""Limit ranges and resource quotas: default values, and invalid objects."""

from __future__ import annotations

import pytest

from tests.embedded.apiserver.registry.kinds.writes import create, named, refusal


def test_limits_of_containers_default_from_each_other() -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    (found,) = create("limitranges", named(spec={"limits": [item]}))["spec"]["limits"]
    assert found["default"] == {"cpu": "2"}
    assert found["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


def test_a_range_is_not_empty() -> None:
    item = {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}
    assert refusal("limitranges", named(spec={"limits": [item]})) == [
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'
    ]


@pytest.mark.parametrize(
    ("name", "amount", "problems"),
    [
        ("requests.cpu", "1", ()),
        ("requests.nvidia.com/gpu", "8", ()),
        ("count/jobs.batch", "5", ()),
        ("pods", "1500m", ("must be an integer",)),
        (
            "cores",
            "1",
            ("must be a standard resource type or fully qualified", "must be a standard resource for quota"),
        ),
        ("storage", "1", ("must be a standard resource for quota",)),
    ],
)
def test_quotas_are_on_known_resources(name: str, amount: str, problems: tuple[str, ...]) -> None:
    value = amount if amount != "1" else name
    expected = [f'spec.hard[{name}]: Invalid value: "{value}": {problem}' for problem in problems]
    assert refusal("resourcequotas", named(spec={"hard": {name: amount}})) == expected


def test_limits_are_on_known_resources() -> None:
    item = {"type": "Container", "max": {"cores": "1"}, "default": {"a/b/c": "1"}}
    found = refusal("limitranges", named(spec={"limits": [item]}))
    standard = "must be a standard resource type or fully qualified"
    assert found[:2] == [
        f'spec.limits[0].max[cores]: Invalid value: "cores": {standard}',
        'spec.limits[0].max[cores]: Invalid value: "cores": must be a standard resource for containers',
    ]
    assert any(
        line.startswith('spec.limits[0].default[a/b/c]: Invalid value: "a/b/c": a valid label key') for line in found
    )
