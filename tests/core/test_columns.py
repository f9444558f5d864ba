"""The columns of nodes over a long life: what nodes come to say and cease to say is not kept for ever."""

from __future__ import annotations

from dataclasses import replace

from phalanx.core import fit
from phalanx.model.columns import FEW_FACTS, Columns
from phalanx.model.demand import Where
from phalanx.model.node import Taint

from .builders import node


def test_names_of_nodes_that_are_gone_are_forgotten() -> None:
    columns = Columns()
    columns.see(node("stays", labels={"zone": "a"}, cpu=8))
    for number in range(3 * FEW_FACTS):
        columns.see(node(f"n{number}", labels={"host": f"n{number}"}, cpu=8))
        columns.lose(f"n{number}")
    assert columns.facts.remembered < 2 * FEW_FACTS
    rows = fit.matching(columns.facts, Where((("zone", "a"),), (), ()))
    assert rows.nonzero()[0].tolist() == [columns.row_of["stays"]]


def test_taints_with_a_time_in_them_are_forgotten() -> None:
    """As an autoscaler sets on nodes that it may remove."""
    columns, plain = Columns(), node("a", cpu=8)
    for second in range(3 * FEW_FACTS):
        columns.see(replace(plain, taints=(Taint("candidate", str(second), "PreferNoSchedule"),)))
    assert columns.facts.prefers
    assert columns.facts.remembered < 2 * FEW_FACTS
    columns.see(plain)
    assert not columns.facts.prefers
