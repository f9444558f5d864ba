"""Filling the nodes front to back skips what cannot hold the pod; it must skip nothing else."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from phalanx.core.backfill.shadow_time import limited_to
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.packing import PackedPods, fill
from phalanx.core.placement.packing_order import Column
from phalanx.model.node import Node
from phalanx.model.pod import MAX_AMOUNT, Shape, amounts
from phalanx.state.classes import Demand, InternTable
from phalanx.state.nodes.table import NodeTable


def some_nodes(count: int, seed: Random) -> NodeTable:
    """Some with devices, many equally full, and some that may have but a few pods."""
    columns = NodeTable()
    for at in range(count):
        room = {
            "cpu": seed.choice([4, 8]) * 1000,
            "memory": 64,
            "pods": seed.choice([2, 20]),
            "gpu": seed.choice([0, 4]),
        }
        columns.update(Node(name=f"n{at}", allocatable=amounts(room)))
    return columns


def some_demand(interned: InternTable, seed: Random) -> Demand:
    asks = {"cpu": seed.choice([0, 500, 1000, 3000]), "memory": seed.choice([0, 1, 10]), "gpu": seed.choice([0, 0, 1])}
    return interned.demand(Shape(requests=amounts(asks)))


def one_after_the_other(draft: Draft, demand: Demand, count: int) -> tuple[list[PackedPods], int]:
    """What `fill` would take, found by looking at every node and every amount."""
    shares = []
    for position in range(len(draft)):
        most = min(draft.views[name][position] // amount for name, amount in demand.asks)
        if count and most > 0:
            shares.append((0, position, min(most, count)))
            count -= min(most, count)
    return shares, count


def first(draft: Draft, asks: dict[str, int]) -> int:
    """Return the position at which a search begins, which it takes if all nodes have capacity."""
    order, demand = draft.packing_order, InternTable().demand(Shape(requests=amounts(asks)))
    free = {name: column.copy() for name, column in order.free.items()}
    for column in order.free.values():
        column[:] = MAX_AMOUNT
    found, _ = next(order.holding(demand, None), (len(order), 0))
    for name, column in free.items():
        order.free[name][:] = column
    return found


def half(draft: Draft) -> dict[str, Column]:
    """Of what is free, by row."""
    free = {name: np.zeros(draft.columns.capacity, np.int64) for name in draft.free}
    for name, column in draft.free.items():
        free[name][draft.rows] = column // 2
    return free


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 20, 33, 200])
def test_every_node_with_room_is_taken_in_order(count: int) -> None:
    """Whatever was given back, or closed for a moment, since the same demand was looked for."""
    seed, interned = Random(count), InternTable()
    draft, skipped = Draft(some_nodes(count, seed)), 0
    for _ in range(400):
        demand, pods = some_demand(interned, seed), seed.randrange(12)
        expected, shares = one_after_the_other(draft, demand, pods), list[PackedPods]()
        mark = draft.mark()
        skipped += first(draft, demand.amounts)
        assert (fill(draft, demand, 0, pods, shares), shares) == (expected[1], expected[0])
        match seed.randrange(8):
            case 0:
                draft.rewind(mark)
            case 1 if shares:  # a running pod on the node is preempted
                draft.vacate(shares[0][1], demand)
            case 2:
                draft.settle()
            case 3:
                with limited_to(draft, half(draft)):
                    fill(draft, demand, 0, pods, shares)
    assert skipped or count < 33


def test_before_the_first_no_node_holds_the_pod() -> None:
    """Nodes without a free device come first, so that a search for a device can skip them."""
    columns = NodeTable()
    for at in range(100):
        columns.update(Node(name=f"n{at}", allocatable=amounts({"cpu": 8000, "pods": 9, "gpu": 2 * (at % 2)})))
    draft = Draft(columns)
    assert first(draft, {"cpu": 1000, "gpu": 1, "pods": 1}) == 50
    assert first(draft, {"cpu": 1000, "pods": 1}) == 0


def test_where_room_was_given_back_the_order_says_nothing() -> None:
    columns, interned = NodeTable(), InternTable()
    for at in range(40):
        columns.update(Node(name=f"n{at:02}", allocatable=amounts({"cpu": 8000, "pods": 2})))
        columns.charge(f"n{at:02}", amounts({"cpu": 7000 if at else 8000, "pods": 1}))
    draft, demand = Draft(columns), interned.demand(Shape(requests=amounts({"cpu": 1000})))
    assert first(draft, demand.amounts) == 1
    draft.vacate(0, demand)
    shares: list[PackedPods] = []
    assert fill(draft, demand, 0, 1, shares) == 0
    assert shares == [(0, 0, 1)]
