"""`dialects/yunikorn/configuration.py`: parses `queues.yaml`."""

from __future__ import annotations

import pytest

from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.configuration import YuniKornConfigurationError
from tests.dialects.yunikorn.test_dialect import in_queue


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("partitions: [", 1, "no YAML"),
        ("a: &a [*a]", 1, "more than 100 levels"),
        ("a: " + "[" * 5000, 1, "lists and mappings are nested more than 200 levels deep"),
        ("a: [" + "b, " * 200_000 + "]", 1, "more than 100000 names and values"),
        ("a: &a [" + "b, " * 30_000 + "]\nc: *a", 1, "more than 50000 values"),
        ("partitions:\n  - queues:\n" + "    - {name: a%s}\n" * 5000 % (*range(5000),), 5002, "more than 5000 queues"),
        ("partitions:\n  - name: default\n    colour: red", 3, "no field 'colour' of partitions"),
        ("partitions:\n  - name: default", 2, "no queues"),
        ("partitions:\n  - queues: [{name: a}]\n    queues: []", 3, "twice"),
        ("partitions:\n  - {queues: [{name: a}]}\n  - {name: Default, queues: [{name: a}]}", 3, "is listed twice"),
        (
            "partitions:\n  - queues:\n      - name: root\n        resources: {max: {vcore: 1}}",
            4,
            "root must not set resources",
        ),
        ("partitions:\n  - queues: [{name: A}, {name: a}]", 2, "the queue 'a' is listed twice"),
        ("partitions:\n  - queues: [{name: a.b}]", 2, "and no dot"),
        (in_queue("parent: true\nchildtemplate:\n  resources:\n    max: {memory: 1.5}"), 7, "without fractions"),
        (
            in_queue("parent: true\nchildtemplate:\n  resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}"),
            6,
            "max of the child template",
        ),
        (in_queue("maxapplications: -1"), 4, "cannot be read"),
        (in_queue("submitacl: a b c"), 4, "one blank"),
        (in_queue("resources:\n  max: {memory: 1.5}"), 5, "without fractions"),
        (in_queue("resources:\n  max: {memory: 500m}"), 5, "without fractions"),
        (in_queue("resources:\n  max:\n    memory:"), 6, "is not an amount"),
        (in_queue("resources:\n  max: {memory: 9999999E}"), 5, "is too large"),
        (in_queue("resources:\n  guaranteed: {vcore: 2}\n  max: {vcore: 1}"), 5, "more than the max of the queue 'a'"),
        (in_queue("resources: {max: {vcore: 1}}\nqueues:\n  - {name: b, resources: {max: {vcore: 2}}}"), 6, "above"),
        (
            in_queue("resources: {guaranteed: {vcore: 1}}\nqueues: [{name: b, resources: {guaranteed: {vcore: 2}}}]"),
            4,
            "less",
        ),
        (
            in_queue("resources: {max: {vcore: 1}}\nqueues: [{name: b, resources: {guaranteed: {vcore: 2}}}]"),
            4,
            "together",
        ),
        (
            in_queue("maxapplications: 1\nqueues:\n  - {name: b, maxapplications: 2}"),
            6,
            "maxapplications of the queue above (1)",
        ),
        (in_queue("maxapplications: 1\nqueues:\n  - {name: b}"), 6, "must have one, too"),
        (in_queue("limits: [{maxapplications: 1}]"), 4, "names no users"),
        (in_queue("limits: [{users: [u]}]"), 4, "has no effect"),
        (in_queue("limits: [{users: [u], maxresources: {vcore: 0}}]"), 4, "all amounts are 0"),
        (in_queue("limits: [{users: ['0u'], maxapplications: 1}]"), 4, "not a valid name of a user"),
        (in_queue("limits: [{users: [u, u], maxapplications: 1}]"), 4, "has two limits in this queue"),
        (in_queue("limits: [{users: ['*', u], maxapplications: 1}]"), 4, "must be the last"),
        (in_queue("limits: [{groups: ['*'], maxapplications: 1}]"), 4, "set the queue's max"),
        (
            in_queue("maxapplications: 1\nlimits: [{users: [u], maxapplications: 2}]"),
            5,
            "maxapplications of the queue (1)",
        ),
        (in_queue("resources: {max: {vcore: 1}}\nlimits: [{users: [u], maxresources: {vcore: 2}}]"), 5, "the max of"),
        (
            "partitions:\n  - limits: [{users: ['*'], maxresources: {vcore: 1}}]\n    queues:\n"
            "      - name: a\n        limits: [{users: [u], maxresources: {vcore: 2}}]",
            5,
            "a limit in a queue above allows 'u'",
        ),
        (
            "partitions:\n  - limits: [{users: [u], maxapplications: 1}]\n    queues:\n"
            "      - name: a\n        limits: [{users: [u], maxresources: {vcore: 2}}]",
            5,
            "allows 'u' 1 applications",
        ),
        (
            "partitions:\n  - limits: [{users: [u], maxapplications: 1}]\n    queues:\n"
            "      - {name: root, limits: [{users: [u], maxapplications: 2}]}",
            2,
            "must not differ from the limits of root",
        ),
        ("partitions:\n  - queues: [{name: a}]\n    nodesortpolicy: {type: spread}", 3, "neither fair nor"),
        ("partitions:\n  - queues: [{name: a}]\n    nodesortpolicy: {resourceweights: {vcore: -1}}", 3, "negative"),
        (
            "partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: 'my rule'}]",
            3,
            "not the name of a placement rule",
        ),
        ("partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: user, filter: {type: no}}]", 3, "allow"),
        (
            "partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: user, filter: {users: ['a[b']}}]",
            3,
            "expression",
        ),
        ("partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: fixed, value: b}]", 3, "no queue 'root.b'"),
        (
            "partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: fixed, value: a.b, create: true}]",
            3,
            "a leaf",
        ),
        (
            "partitions:\n  - queues: [{name: a, parent: true, queues: [{name: b}]}]\n"
            "    placementrules: [{name: fixed, value: root.a}]",
            3,
            "only in leaf queues",
        ),
        (
            "partitions:\n  - queues: [{name: a}]\n"
            "    placementrules: [{name: user, parent: {name: fixed, value: root.a}}]",
            3,
            "cannot be the parent",
        ),
        (
            "partitions:\n  - queues: [{name: a}]\n"
            "    placementrules: [{name: fixed, value: root.a, parent: {name: fixed, value: a}}]",
            3,
            "cannot have a parent",
        ),
    ],
)
def test_refused_whole_with_the_line(text: str, line: int, said: str) -> None:
    with pytest.raises(YuniKornConfigurationError) as refused:
        read(text)
    assert said in refused.value.text
    assert refused.value.line == line


def test_a_file_has_bounds() -> None:
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
    )
    for text in (bomb, "x" * 2_000_000, "[" * 5000):
        with pytest.raises(YuniKornConfigurationError, match=r"more than|no YAML"):
            read(text)
