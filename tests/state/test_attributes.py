"""`state/nodes/attributes.py`: labels, taints and readiness of nodes as columns."""

from __future__ import annotations

from dataclasses import replace

from phalanx.model.node import Taint
from phalanx.state.nodes.attributes import NodeAttributes
from tests.core.builders import node

SOFT = Taint("spot", effect="PreferNoSchedule")


def rows(attributes: NodeAttributes, **labels: str) -> list[int]:
    return list(attributes.labelled(tuple(labels.items())).nonzero()[0])


def test_rows_are_found_by_all_of_the_labels() -> None:
    attributes = NodeAttributes(4)
    attributes.write(0, node("n0", labels={"zone": "a", "gpu": "h100"}))
    attributes.write(2, node("n2", labels={"zone": "a"}))
    attributes.write(3, node("n3", labels={"zone": "b"}))
    assert rows(attributes, zone="a") == [0, 2]
    assert rows(attributes, zone="a", gpu="h100") == [0]
    assert rows(attributes, zone="nowhere") == []
    assert rows(attributes, unknown="a") == []


def test_a_row_that_is_written_again_has_only_the_new_labels() -> None:
    attributes = NodeAttributes(1)
    attributes.write(0, node("n", labels={"zone": "a"}))
    attributes.derived["anything"] = 1
    attributes.write(0, node("n", labels={"rack": "r"}))
    assert (rows(attributes, zone="a"), rows(attributes, rack="r")) == ([], [0])
    assert not attributes.derived
    attributes.write(0, None)
    assert rows(attributes, rack="r") == []
    assert not attributes.ready[0]


def test_soft_taints_of_ready_nodes_count() -> None:
    attributes = NodeAttributes(2)
    attributes.write(0, node("plain"))
    attributes.write(1, replace(node("n"), taints=(SOFT,), ready=False))
    assert not (attributes.ready & attributes.soft_tainted).any()
    attributes.write(1, replace(node("n"), taints=(SOFT,)))
    assert (attributes.ready & attributes.soft_tainted).any()


def test_equal_sets_of_taints_share_a_number_and_a_copy_changes_alone() -> None:
    attributes = NodeAttributes(3)
    for row in range(2):
        attributes.write(row, replace(node(f"n{row}"), taints=(SOFT,)))
    assert attributes.taints[0] == attributes.taints[1]
    assert attributes.taint_sets == [(), (SOFT,)]
    copy = attributes.copy()
    copy.write(2, node("n2", labels={"zone": "a"}))
    copy.resize(5)
    assert len(copy.ready) == 5
    assert (rows(copy, zone="a"), rows(attributes, zone="a")) == ([2], [])
