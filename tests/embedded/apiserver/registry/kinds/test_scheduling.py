"""The parts of objects that schedulers read: taints, priority classes and runtime classes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import Object, pod, refusal, stored, update_refusal


def node(**fields: Any) -> Object:
    return {"metadata": {"name": "n"}, **fields}


def test_wrong_taints_are_told_twice_on_an_update() -> None:
    """The real server validates a node anew and as an update, and both look at the taints."""
    twice = [{"key": "b", "effect": "NoSchedule"}] * 2
    line = (
        'metadata.taints[1]: Duplicate value: {"Key":"b","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
        "taints must be unique by key and effect pair"
    )
    assert update_refusal("nodes", stored("nodes", node()), {"spec": {"taints": twice}}) == [line, line]


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        ("high", 1_000_000_000, []),
        (
            "high",
            1_000_000_001,
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        ("system-node-critical", 2_000_001_000, []),
        (
            "system-mine",
            5,
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
                "only. error: system-mine is not a known system priority class"
            ],
        ),
    ],
)
def test_users_priorities_end_where_the_systems_begin(name: str, value: int, lines: list[str]) -> None:
    assert refusal("priorityclasses", {"metadata": {"name": name}, "value": value}) == lines


def test_a_priority_is_what_it_was() -> None:
    old = stored("priorityclasses", {"metadata": {"name": "p"}, "value": 5})
    assert (old["preemptionPolicy"], old["metadata"]["generation"]) == ("PreemptLowerPriority", 1)
    assert update_refusal("priorityclasses", old, {"value": 7, "preemptionPolicy": "Never"}) == [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "Never": field is immutable',
    ]


def test_a_runtime_class_keeps_its_handler() -> None:
    old = stored("runtimeclasses", {"metadata": {"name": "r"}, "handler": "runc"})
    assert update_refusal("runtimeclasses", old, {"handler": "kata"}) == [
        'handler: Invalid value: "kata": field is immutable'
    ]


NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"nodeSelector": {"a b": "c"}}, [f'spec.nodeSelector: Invalid value: "a b": {NAME_PART}']),
        (
            {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
            ["spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
        ),
    ],
)
def test_wrong_placements_of_pods_are_refused(spec: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(**spec)) == lines
