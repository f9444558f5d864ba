"""`kube/capacity/node_allocations.py`: the last check of a node before a binding is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.model.node import Node, Taint
from phalanx.model.pod import Shape, Toleration, amounts
from tests.core.builders import node

ASKS = Shape(requests=amounts({"cpu": 3, "pods": 1}))


def allocations(found: Node) -> NodeAllocations:
    usage = NodeAllocations()
    usage.see_node(found)
    return usage


def test_a_pod_counts_once_where_it_was_counted_last() -> None:
    usage = allocations(node("a", cpu=8))
    usage.see_node(node("b", cpu=4))
    for where in ("a", "a", "b"):
        usage.allocate("uid", where, ASKS.requests)
    assert usage.fits("a", replace(ASKS, requests=amounts({"cpu": 8, "pods": 1})))
    assert not usage.fits("b", ASKS)
    usage.release("uid")
    usage.release("unknown")
    assert usage.fits("b", ASKS)


def test_the_number_of_pods_is_an_amount_too() -> None:
    usage = allocations(node("a", cpu=8, pods=1))
    usage.allocate("uid", "a", amounts({"pods": 1}))
    assert not usage.fits("a", ASKS)


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"unschedulable": True}, False),
        ({"ready": False}, False),
        ({"taints": (Taint("gpu"),)}, False),
        ({"taints": (Taint("gpu", effect="PreferNoSchedule"),)}, True),
        ({"taints": (Taint("free", effect="NoExecute"),)}, True),
    ],
)
def test_a_node_that_takes_no_pod_of_this_kind_fits_none(change: dict[str, object], fits: bool) -> None:
    tolerant = replace(ASKS, tolerations=(Toleration(key="free", operator="Exists"),))
    assert allocations(replace(node("a", cpu=8), **change)).fits("a", tolerant) is fits


def test_a_node_that_is_gone_fits_nothing_and_is_not_the_largest() -> None:
    usage = allocations(node("a", cpu=8, gpu=1))
    usage.see_node(node("b", cpu=9))
    assert usage.largest() == {"cpu": 9, "gpu": 1, "pods": 110}
    usage.lose_node("b")
    assert not usage.fits("b", ASKS)
    assert usage.largest() == {"cpu": 8, "gpu": 1, "pods": 110}


def test_a_smaller_node_fits_less_at_once() -> None:
    usage = allocations(node("a", cpu=8))
    usage.allocate("uid", "a", ASKS.requests)
    usage.see_node(node("a", cpu=5))
    assert not usage.fits("a", ASKS)
