"""The node order that the cluster state keeps between cycles: after any changes of nodes it equals a newly built
one."""

from __future__ import annotations

from random import Random

import pytest

from phalanx.core.placement.packing_order import PackingOrder, ordered_nodes
from phalanx.model.node import Node
from phalanx.model.pod import Amounts, amounts
from phalanx.state.nodes.table import NodeTable


def some_nodes(count: int, seed: Random) -> NodeTable:
    """Of two sizes, some with devices, so that many are equally full."""
    columns = NodeTable()
    for at in range(count):
        room = {"cpu": seed.choice([8, 16]) * 1000, "memory": 64, "pods": 20, "gpu": seed.choice([0, 8])}
        columns.update(Node(name=f"n{at}", allocatable=amounts(room)))
    return columns


def happen(columns: NodeTable, held: list[tuple[str, Amounts]], seed: Random) -> None:
    """A pod comes, which may be more than its node has, or one of those goes."""
    if held and seed.random() < 0.5:
        columns.discharge(*held.pop(seed.randrange(len(held))))
        return
    asks = {"cpu": seed.choice([500, 1000, 9000]), "memory": seed.randrange(20), "pods": 1, "gpu": seed.choice([0, 1])}
    held.append((f"n{seed.randrange(len(columns))}", amounts(asks)))
    columns.charge(*held[-1])


def shown(layout: PackingOrder) -> tuple[object, ...]:
    return layout.rows.tolist(), {name: column.tolist() for name, column in layout.free.items()}


@pytest.mark.parametrize(("count", "packed"), [(1, True), (2, True), (40, True), (300, True), (40, False)])
def test_what_is_kept_becomes_what_is_made_anew(count: int, packed: bool) -> None:
    seed, held, followed = Random(count), list[tuple[str, Amounts]](), 0
    columns = some_nodes(count, seed)
    for _ in range(200):
        for _ in range(seed.randrange(4)):
            happen(columns, held, seed)
        before = columns.packing_order
        layout = ordered_nodes(columns, packed=packed)
        followed += layout is before
        assert shown(layout) == shown(PackingOrder(columns, packed=packed))
        if len(layout) and seed.random() < 0.5:  # a decision takes room of its own, and comes to nothing
            positions = [seed.randrange(len(layout)) for _ in range(3)]
            for position in positions:
                layout.views["cpu"][position] -= 100
            layout.strayed += positions
        columns.packing_order = layout
    assert followed > 50


def test_another_node_is_laid_out_anew() -> None:
    columns = some_nodes(3, Random(1))
    columns.packing_order = ordered_nodes(columns, packed=True)
    columns.update(Node(name="more", allocatable=amounts({"cpu": 1, "memory": 1, "pods": 1})))
    assert "more" in [columns.names[row] for row in ordered_nodes(columns, packed=True).rows]


def test_while_a_decision_has_it_the_book_has_none() -> None:
    columns = some_nodes(3, Random(1))
    columns.packing_order = ordered_nodes(columns, packed=True)
    ordered_nodes(columns, packed=True)  # and is never given back
    assert columns.packing_order is None
