"""HyperNodes as levels of a topology: which nodes are in which, and what a request for a tier means."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.volcano.answers import hyper_nodes
from phalanx.dialects.volcano.definitions.hyper_nodes import HyperNodes, read_hyper_nodes
from phalanx.dialects.volcano.pod_groups import NetworkTopology, closeness


def hyper_node(tier: int, *members: Any, name: str = "") -> Object:
    return {"spec": {"tier": tier, "tierName": name, "members": list(members)}}


def node(**selector: Any) -> Object:
    return {"type": "Node", "selector": selector}


def below(*names: str) -> list[Object]:
    return [{"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in names]


TREE = read_hyper_nodes(
    {
        "s0": hyper_node(1, node(exactMatch={"name": "n0"}), node(regexMatch={"pattern": "^n[12]$"}), name="leaf"),
        "s1": hyper_node(1, node(labelMatch={"matchLabels": {"rack": "r1"}})),
        "s2": hyper_node(3, *below("s0", "s1"), name="spine"),
        "s3": hyper_node(3, node(exactMatch={"name": "far"})),
    }
)


def test_a_node_is_in_its_hyper_nodes_and_those_above() -> None:
    assert TREE.around("n0", {}) == TREE.around("n2", {}) == {1: "s0", 3: "s2"}
    assert TREE.around("n9", {"rack": "r1"}) == {1: "s1", 3: "s2"}
    assert (TREE.around("far", {}), TREE.around("n9", {})) == ({3: "s3"}, {})
    assert TREE.levels == ("topology.volcano.sh/tier-3", "topology.volcano.sh/tier-1")


def test_a_higher_tier_is_met_by_what_is_closer() -> None:
    alone = read_hyper_nodes({"s0": hyper_node(1, node(exactMatch={"name": "n0"})), "s2": hyper_node(2)})
    assert alone.node_labels("n0", {}) == {"topology.volcano.sh/tier-1": "s0", "topology.volcano.sh/tier-2": "s0"}


def test_one_that_contains_itself_and_a_pattern_that_is_none_are_in_nothing() -> None:
    odd = read_hyper_nodes({"a": hyper_node(1, *below("a", "b")), "b": hyper_node(1, *below("a"))})
    assert odd.around("n0", {}) == {}
    assert read_hyper_nodes({"a": hyper_node(1, node(regexMatch={"pattern": "("}))}).around("n0", {}) == {}
    slow = read_hyper_nodes({"a": hyper_node(1, node(regexMatch={"pattern": "(a+)+$"}))})
    assert slow.around("a" * 60 + "!", {}) == {}  # in linear time


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, {}),
        (NetworkTopology(), {}),  # hard without a tier is no request, as in Volcano
        (NetworkTopology(highest=1), {"phalanx.dev/closeness": "topology.volcano.sh/tier-1"}),
        (NetworkTopology(highest=2), {"phalanx.dev/closeness": "topology.volcano.sh/tier-1"}),
        (NetworkTopology(highest=9), {"phalanx.dev/closeness": "topology.volcano.sh/tier-3"}),
        (NetworkTopology(highest=0), {"phalanx.dev/closeness": "topology.volcano.sh/tier-0"}),  # no node has it
        (NetworkTopology(highest_name="spine"), {"phalanx.dev/closeness": "topology.volcano.sh/tier-3"}),
        (NetworkTopology(soft=True), {"phalanx.dev/preferred-closeness": "topology.volcano.sh/tier-1"}),
    ],
)
def test_requests(asked: NetworkTopology | None, expected: dict[str, str]) -> None:
    assert closeness(TREE, asked) == expected


def test_a_tier_name_that_no_hyper_node_has() -> None:
    with pytest.raises(LookupError, match="no HyperNode has the tierName block"):
        closeness(TREE, NetworkTopology(highest_name="block"))
    assert closeness(HyperNodes(), NetworkTopology(soft=True)) == {}


def test_nodes_are_counted_with_those_below() -> None:
    nodes: dict[str, Object] = {name: {"metadata": {"name": name}} for name in ("n0", "n1", "far", "else")}
    found = {each.key: (each.status or {})["nodeCount"] for each in hyper_nodes(TREE, {NODES: nodes})}
    assert found == {"s0": 2, "s1": 0, "s2": 2, "s3": 1}
