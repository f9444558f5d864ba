"""`dialects/kube_scheduler/koordinator/quota_usage.py`: computes Koordinator's *runtime*."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota_tree import ElasticQuota
from phalanx.dialects.kube_scheduler.koordinator.quota_usage import child_requests, request, runtimes


def elastic(name: str, least: int, most: int, *, weight: int = 0, lent: bool = True, parent: str = "") -> ElasticQuota:
    return ElasticQuota(
        name=name,
        key=f"s/{name}",
        parent=parent or kinds.ROOT,
        least={"cpu": least},
        most={"cpu": most},
        weights={"cpu": weight or most},
        lent=lent,
    )


@pytest.mark.parametrize(
    ("quotas", "asks", "total", "expected"),
    [
        ([("a", 4, 10), ("b", 4, 10)], {"a": 10, "b": 2}, 10, {"a": 8, "b": 2}),  # what b leaves is lent
        ([("a", 4, 10), ("b", 4, 10)], {"a": 10, "b": 9}, 12, {"a": 6, "b": 6}),
        ([("a", 2, 9), ("b", 2, 3)], {"a": 9, "b": 9}, 8, {"a": 5, "b": 3}),  # by weight, which is max: 3 : 1
        ([("a", 6, 9), ("b", 2, 9)], {"a": 9, "b": 9}, 4, {"a": 3, "b": 1}),  # min cut in proportion
        ([("a", 4, 10), ("b", 0, 10)], {"b": 10}, 10, {"a": 0, "b": 10}),
    ],
)
def test_runtime_is_min_and_a_part_of_the_rest(
    quotas: list[tuple[str, int, int]], asks: dict[str, int], total: int, expected: dict[str, int]
) -> None:
    found = {name: elastic(name, least, most) for name, least, most in quotas}
    inner = child_requests(found, {name: {"cpu": amount} for name, amount in asks.items()})
    runtime = runtimes(found, inner, {"cpu": total})
    assert {name: runtime[name]["cpu"] for name in found} == expected


def test_what_is_not_lent_is_kept_and_children_divide_their_parents_runtime() -> None:
    found = {
        "kept": elastic("kept", 4, 10, lent=False),
        "top": elastic("top", 2, 10),
        "x": elastic("x", 1, 10, parent="top"),
        "y": elastic("y", 1, 10, parent="top"),
    }
    inner = child_requests(found, {"x": {"cpu": 10}, "y": {"cpu": 13}})
    assert inner["top"] == {"cpu": 20}  # what y asks for is capped by its max
    assert [request(found[name], inner[name]) for name in ("kept", "y")] == [{"cpu": 4}, {"cpu": 13}]
    runtime = runtimes(found, inner, {"cpu": 10})
    assert [runtime[name]["cpu"] for name in ("kept", "top", "x", "y")] == [4, 6, 3, 3]


def test_quotas_below_each_other_in_a_circle_have_no_runtime_and_stop_nobody() -> None:
    found = {"a": elastic("a", 1, 2, parent="b"), "b": elastic("b", 1, 2, parent="a"), "c": elastic("c", 1, 5)}
    runtime = runtimes(found, child_requests(found, {"c": {"cpu": 3}}), {"cpu": 9})
    assert runtime["c"] == {"cpu": 3}
    assert "a" not in runtime


def test_the_quotas_beside_the_tree_have_their_max_and_no_part_of_what_is_shared() -> None:
    found = {name: elastic(name, 0, 7) for name in (kinds.DEFAULT, kinds.SYSTEM, "a")}
    inner = child_requests(found, {name: {"cpu": 9} for name in found})
    assert inner[kinds.ROOT] == {"cpu": 21}
    runtime = runtimes(found, inner, {"cpu": 5})
    assert {name: runtime[name]["cpu"] for name in found} == {kinds.DEFAULT: 7, kinds.SYSTEM: 7, "a": 5}


def test_without_a_weight_for_a_resource_a_quota_has_its_min_alone() -> None:
    light = replace(elastic("light", 2, 10), weights={"memory": 1})
    found = {"light": light, "a": elastic("a", 0, 3)}
    runtime = runtimes(found, child_requests(found, {name: {"cpu": 9} for name in found}), {"cpu": 10})
    assert (runtime["light"], runtime["a"]) == ({"cpu": 2}, {"cpu": 3})
