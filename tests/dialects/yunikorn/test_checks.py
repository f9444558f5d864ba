"""`dialects/yunikorn/checks.py`: checks a parsed queue configuration for contradictions."""

from __future__ import annotations

import pytest

from phalanx.dialects.yunikorn.checks import added, percent, read
from tests.dialects.yunikorn.test_dialect import in_queue


@pytest.mark.parametrize(
    "text",
    [
        "",
        "checksum: ABC",
        "partitions: [{queues: [{name: one}, {name: two}]}]",
        in_queue("resources: {max: {vcore: 10, memory: 10 G, pods: '10'}}"),
        in_queue("adminacl: 'kim,sue dev,ops'"),
        in_queue("limits: [{users: [user.name@lab$], maxapplications: 1}, {groups: [g, '*'], maxapplications: 2}]"),
        in_queue("properties: {any.thing: ~}"),
        "partitions: [{queues: [{name: a, parent: yes}], placementrules: [{name: fixed, value: a.b, create: on}]}]",
        "partitions: [{queues: [{name: a}], placementrules: [{name: user, filter: {type: DENY, users: ['^s.*']}}]}]",
        "partitions: [{queues: [{name: a}], limits: [{users: ['*'], maxapplications: 5}]}]",
    ],
)
def test_taken(text: str) -> None:
    assert read(text) is not None


def test_amounts_are_added_by_resource() -> None:
    assert added([{"vcore": 500, "pods": 1}, {"vcore": 250}, {}]) == {"vcore": 750, "pods": 1}


def test_a_percentage_needs_a_bound() -> None:
    used, bound = {"vcore": 2, "memory": 5, "pods": 1}, {"vcore": 3, "memory": 0}
    assert percent(used, bound) == {"vcore": 66}
