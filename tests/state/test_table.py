"""The columns of nodes over a long life: what nodes come to say and cease to say is not kept for ever."""

from __future__ import annotations

from dataclasses import replace

from phalanx.core.placement.filters import matching
from phalanx.model.node import Taint
from phalanx.state.classes import NodeConstraints
from phalanx.state.nodes.table import FEW_FACTS, NodeTable
from tests.core.builders import node


def test_names_of_nodes_that_are_gone_are_forgotten() -> None:
    columns = NodeTable()
    columns.update(node("stays", labels={"zone": "a"}, cpu=8))
    for number in range(3 * FEW_FACTS):
        columns.update(node(f"n{number}", labels={"host": f"n{number}"}, cpu=8))
        columns.remove(f"n{number}")
    assert columns.attributes.remembered < 2 * FEW_FACTS
    rows = matching.matching(columns.attributes, NodeConstraints((("zone", "a"),), (), ()))
    assert rows.nonzero()[0].tolist() == [columns.row_of["stays"]]


def test_taints_with_a_time_in_them_are_forgotten() -> None:
    """As an autoscaler sets on nodes that it may remove."""
    columns, plain = NodeTable(), node("a", cpu=8)
    for second in range(3 * FEW_FACTS):
        columns.update(replace(plain, taints=(Taint("candidate", str(second), "PreferNoSchedule"),)))
    assert columns.attributes.soft_tainted.any()
    assert columns.attributes.remembered < 2 * FEW_FACTS
    columns.update(plain)
    assert not columns.attributes.soft_tainted.any()
