"""Translate HyperNodes to a topology. The topology has one level for each tier. For each level, a node gets a label
with the name of a HyperNode that contains the node.

The label for a tier names a HyperNode of this tier if one contains the node; otherwise it names the HyperNode of the
next lower tier that contains the node. So a HyperNode of a lower tier also satisfies a request for a tier ("one
HyperNode of tier <= highestTierAllowed"). A node that is in no HyperNode has no label, because only Volcano's virtual
root contains it, and the virtual root satisfies no hard request. If several HyperNodes of one tier contain a node, the
first one by name is used. A HyperNode that contains itself is treated as a member of no other HyperNode.


Source: pkg/scheduler/api/hyper_node_info.go of v1.15.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec
import re2

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.selectors import selects

_LEVEL: Final = "topology.volcano.sh/tier-"


@dataclass(frozen=True, slots=True)
class HyperNodeMember:
    """An entry of a HyperNode's member list. It selects nodes if `is_node` is set, and HyperNodes otherwise. It selects
    them by their name (`name`), by a regular expression for names (`pattern`), or, for nodes only, by labels
    (`selector`)."""

    is_node: bool
    name: str = ""
    pattern: str = ""
    selector: str = ""  # as text (`_selector_key`), so that this class is hashable


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A HyperNode. `tier`: a lower tier means closer nodes."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class Members:
    """An index that finds HyperNodes by their members of one kind (nodes or HyperNodes)."""

    def __init__(self, all: Iterable[HyperNode], *, are_nodes: bool) -> None:
        pairs = [(one, each) for each in all for one in each.members if one.is_node is are_nodes]
        self._named: dict[str, list[HyperNode]] = {}
        for one, each in pairs:
            if one.name:
                self._named.setdefault(one.name, []).append(each)
        self._matched = [(one, each) for one, each in pairs if not one.name]

    def around(self, name: str, labels: Mapping[str, str]) -> list[HyperNode]:
        """Return the HyperNodes that contain the member with this name and these labels, sorted by name."""
        matched = [each for one, each in self._matched if _matches(one, name, labels)]
        return sorted({*self._named.get(name, ()), *matched}, key=lambda each: each.name)


@dataclass(frozen=True)
class HyperNodes:
    """All HyperNodes in the order of their names."""

    all: tuple[HyperNode, ...] = ()

    @cached_property
    def _nodes(self) -> Members:
        return Members(self.all, are_nodes=True)

    @cached_property
    def _hyper_nodes(self) -> Members:
        return Members(self.all, are_nodes=False)

    @cached_property
    def tiers(self) -> tuple[int, ...]:
        """Return the existing tiers. The lowest tier, whose nodes are closest to each other, comes first."""
        return tuple(sorted({each.tier for each in self.all}))

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the levels from coarse to fine."""
        return tuple(level(tier) for tier in reversed(self.tiers))

    def tier_named(self, name: str) -> int | None:
        """Return the tier with this name; None if no tier has it."""
        return next((each.tier for each in self.all if each.tier_name == name), None)

    def around(self, node: str, labels: Mapping[str, str]) -> Mapping[int, str]:
        """Return the HyperNodes that contain a node, by their tier."""
        found = dict[int, str]()
        inside = self._nodes.around(node, labels)
        seen = set[str]()
        while inside:
            each = inside.pop(0)
            if each.name in seen:
                continue
            seen.add(each.name)
            found.setdefault(each.tier, each.name)
            inside += [above for above in self._hyper_nodes.around(each.name, {}) if above.tier > each.tier]
        return found

    def node_labels(self, node: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the labels of a node for all levels."""
        around, said = self.around(node, labels), dict[str, str]()
        highest = ""
        for tier in self.tiers:
            highest = around.get(tier, highest)
            if highest:
                said[level(tier)] = highest
        return said

    def allowed(self, highest: int | None) -> str:
        """Return the level of the highest existing tier that is not above `highest`. If there is no such tier, return a
        level for which no node has a label. If `highest` is None, return the level of the lowest tier."""
        tiers = self.tiers
        if highest is None:
            return level(tiers[0]) if tiers else ""
        return level(max((tier for tier in tiers if tier <= highest), default=highest))


NO_HYPER_NODES: Final = HyperNodes()


def level(tier: int) -> str:
    """Return the node label that represents a tier as a topology level."""
    return f"{_LEVEL}{tier}"


def read_hyper_nodes(objects: Mapping[str, Object]) -> HyperNodes:
    """Return the HyperNodes. Unreadable members are left out."""
    return HyperNodes(tuple(_read(name, objects[name].get("spec") or {}) for name in sorted(objects)))


# --- internal ---------------------------------------------------------------------------------------------------------


def _read(name: str, spec: Mapping[str, object]) -> HyperNode:
    tier = spec.get("tier")
    members = tuple(_members(spec.get("members")))
    return HyperNode(name, tier if isinstance(tier, int) else 0, str(spec.get("tierName") or ""), members)


def _members(listed: object) -> Iterator[HyperNodeMember]:
    for one in listed if isinstance(listed, list) else ():
        selector = one.get("selector") or {}
        is_node = one.get("type") == "Node"
        if name := (selector.get("exactMatch") or {}).get("name"):
            yield HyperNodeMember(is_node, name=str(name))
        elif pattern := (selector.get("regexMatch") or {}).get("pattern"):
            yield HyperNodeMember(is_node, pattern=str(pattern))
        elif is_node and (labels := selector.get("labelMatch")) is not None:
            yield HyperNodeMember(is_node, selector=_selector_key(labels))


def _selector_key(selector: Mapping[str, object]) -> str:
    return msgspec.json.encode(selector, order="sorted").decode()


@lru_cache(maxsize=4096)
def _selector(key: str) -> Mapping[str, Any]:
    return msgspec.json.decode(key, type=dict[str, Any])


@lru_cache(maxsize=4096)
def _pattern(text: str) -> Any:
    """Return the compiled pattern; None if it is invalid. The pattern has Go's syntax, and its evaluation takes linear
    time."""
    try:
        return re2.compile(text)
    except re2.error:
        return None


def _matches(member: HyperNodeMember, name: str, labels: Mapping[str, str]) -> bool:
    if member.selector:
        return selects(_selector(member.selector), labels)
    found = _pattern(member.pattern)
    return found is not None and bool(found.search(name))
