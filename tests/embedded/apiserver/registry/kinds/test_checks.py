"""Checks that kinds share: label selectors, names and amounts of resources, counts and percentages."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.kinds import checks


def selector(*expressions: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"matchLabels": labels, "matchExpressions": list(expressions)}


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ({"key": "app", "operator": "In", "values": ["a", "b"]}, ["a", "b"]),
        ({"key": "app", "operator": "NotIn", "values": ["a"]}, ["b", None]),
        ({"key": "app", "operator": "Exists"}, ["a", "b"]),
        ({"key": "app", "operator": "DoesNotExist"}, [None]),
    ],
    ids=str,
)
def test_an_expression_selects_labels(expression: dict[str, Any], selected: list[str | None]) -> None:
    """NotIn also selects objects without the label."""
    values = ("a", "b", None)
    found = [value for value in values if checks.selects(selector(expression), {"app": value} if value else {})]
    assert found == selected


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not checks.selects(None, {"app": "a"})
    assert checks.selects({}, {"app": "a"})
    both = selector({"key": "tier", "operator": "Exists"}, app="a")
    assert checks.selects(both, {"app": "a", "tier": "x"})
    assert not checks.selects(both, {"app": "a"})


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        (
            {"key": "a", "operator": "In"},
            "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"key": "a", "operator": "Exists", "values": ["b"]},
            "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
            "'DoesNotExist'",
        ),
        (
            {"key": "a", "operator": "Like"},
            's.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
        ),
    ],
    ids=str,
)
def test_a_wrong_selector_is_refused(expression: dict[str, Any], line: str) -> None:
    found: checks.Found = []
    checks.label_selector(found, selector(expression), "s")
    assert [cause.line() for cause in found] == [line]


@pytest.mark.parametrize(
    ("name", "native", "extended", "overcommitable"),
    [
        ("cpu", True, False, True),
        ("hugepages-2Mi", True, False, False),
        ("kubernetes.io/batteries", True, False, True),
        ("nvidia.com/gpu", False, True, False),
        ("requests.nvidia.com/gpu", False, False, False),
    ],
)
def test_what_a_resource_is_follows_from_its_name(
    name: str, native: bool, extended: bool, overcommitable: bool
) -> None:
    assert checks.is_native(name) is native
    assert checks.is_extended(name) is extended
    assert checks.is_overcommitable(name) is overcommitable


def test_huge_pages_need_another_resource_and_are_requested_as_limited() -> None:
    found: checks.Found = []
    checks.requirements(found, {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}, "r")
    assert [cause.line() for cause in found] == [
        'r.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi',
        "r: Forbidden: HugePages require cpu or memory",
    ]


@pytest.mark.parametrize(
    ("value", "wrong", "beyond"),
    [(0, False, False), (-1, True, False), ("100%", False, False), ("101%", False, True), ("x%", True, False)],
)
def test_a_value_is_a_count_or_a_percentage(value: int | str, wrong: bool, beyond: bool) -> None:
    found: checks.Found = []
    checks.count_or_percent(found, value, "v")
    assert bool(found) is wrong
    found.clear()
    checks.at_most_all(found, value, "v")
    assert [cause.line() for cause in found] == ['v: Invalid value: "101%": must not be greater than 100%'] * beyond
