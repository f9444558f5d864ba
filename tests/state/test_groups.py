"""`state/nodes/groups.py`: when a requested node has arrived, and what is forgotten about nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.model.node import Node, NodeGroup, Taint
from phalanx.state.nodes.groups import ComingNode, NodeGroups, has_arrived
from tests.core.builders import node

GPU_ONLY, STARTUP = Taint("gpu"), Taint("node.cilium.io/agent-not-ready", effect="NoExecute")
GROUP = NodeGroup(name="g", template=replace(node("template", cpu=8), taints=(GPU_ONLY,)))


@pytest.mark.parametrize(
    ("seen", "arrived"),
    [
        (replace(node("n"), taints=(GPU_ONLY,)), True),
        (replace(node("n"), taints=(GPU_ONLY, STARTUP)), False),
        (replace(node("n"), taints=(GPU_ONLY, Taint("soft", effect="PreferNoSchedule"))), True),
        (replace(node("n"), taints=(Taint("gpu", "other"),)), True),
        (replace(node("n"), ready=False), False),
        (replace(node("n"), unschedulable=True), False),
    ],
)
def test_a_node_has_arrived_when_it_takes_pods_as_its_group_says(seen: Node, arrived: bool) -> None:
    assert has_arrived(GROUP, seen) is arrived


def test_nothing_is_kept_about_a_node_that_is_gone_and_a_copy_changes_alone() -> None:
    groups = NodeGroups()
    groups.coming["n"] = ComingNode("g", 0.0, 180.0, 900.0)
    groups.releasing["n"], groups.idle_since_s["n"], groups.notes["job"] = False, 5.0, "a node comes"
    copy = groups.copy()
    copy.forget("n")
    assert (copy.coming, copy.releasing, copy.idle_since_s) == ({}, {}, {})
    assert copy.notes == {"job": "a node comes"}
    assert "n" in groups.coming
    assert "n" in groups.idle_since_s
