"""HyperNodes as a topology of ours: a level for each tier, and for each node the HyperNodes that it is in.

A node's label of a tier is the highest HyperNode around it of that tier or a lower one, so that a request for a tier is
met by what is closer as well ("one HyperNode of tier <= highestTierAllowed"). A node in no HyperNode has no label: it
is under Volcano's virtual root alone, which no hard request reaches. Of several HyperNodes of one tier around a node
the first by name counts. A HyperNode that contains itself is in none above it.

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
class Member:
    """A member: a node or HyperNode (`is_node`) by `name`, by regular expression (`pattern`), or by labels
    (`selector`, a node)."""

    is_node: bool
    name: str = ""
    pattern: str = ""
    selector: str = ""  # as `_selector_key` writes it: this class is hashable


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A HyperNode. A lower `tier` is closer together."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class Members:
    """The members of one kind of all HyperNodes, nodes or HyperNodes, so that those around one are soon found."""

    def __init__(self, all: Iterable[HyperNode], *, are_nodes: bool) -> None:
        pairs = [(one, each) for each in all for one in each.members if one.is_node is are_nodes]
        self._named: dict[str, list[HyperNode]] = {}
        for one, each in pairs:
            if one.name:
                self._named.setdefault(one.name, []).append(each)
        self._matched = [(one, each) for one, each in pairs if not one.name]

    def around(self, name: str, labels: Mapping[str, str]) -> list[HyperNode]:
        """Return the HyperNodes that have this member, by name."""
        matched = [each for one, each in self._matched if _matches(one, name, labels)]
        return sorted({*self._named.get(name, ()), *matched}, key=lambda each: each.name)


@dataclass(frozen=True)
class HyperNodes:
    """All HyperNodes, in the order of their names."""

    all: tuple[HyperNode, ...] = ()

    @cached_property
    def _nodes(self) -> Members:
        return Members(self.all, are_nodes=True)

    @cached_property
    def _hyper_nodes(self) -> Members:
        return Members(self.all, are_nodes=False)

    @cached_property
    def tiers(self) -> tuple[int, ...]:
        """Return the tiers that there are, lowest (closest) first."""
        return tuple(sorted({each.tier for each in self.all}))

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the levels, coarse to fine."""
        return tuple(level(tier) for tier in reversed(self.tiers))

    def tier_named(self, name: str) -> int | None:
        """Return the tier of that name; None: there is none."""
        return next((each.tier for each in self.all if each.tier_name == name), None)

    def around(self, node: str, labels: Mapping[str, str]) -> Mapping[int, str]:
        """Return the HyperNodes that a node is in, by tier."""
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
        """Return the labels of the levels that a node has."""
        around, said = self.around(node, labels), dict[str, str]()
        highest = ""
        for tier in self.tiers:
            highest = around.get(tier, highest)
            if highest:
                said[level(tier)] = highest
        return said

    def allowed(self, highest: int | None) -> str:
        """Return the level of the highest tier up to `highest`, or that no node has; None: of the lowest tier."""
        tiers = self.tiers
        if highest is None:
            return level(tiers[0]) if tiers else ""
        return level(max((tier for tier in tiers if tier <= highest), default=highest))


NO_HYPER_NODES: Final = HyperNodes()


def level(tier: int) -> str:
    """Return the node label of a tier."""
    return f"{_LEVEL}{tier}"


def read_hyper_nodes(objects: Mapping[str, Object]) -> HyperNodes:
    """Return the HyperNodes. What of one cannot be read is no member of it."""
    return HyperNodes(tuple(_read(name, objects[name].get("spec") or {}) for name in sorted(objects)))


# --- inside -----------------------------------------------------------------------------------------------------------


def _read(name: str, spec: Mapping[str, Any]) -> HyperNode:
    tier = spec.get("tier")
    members = tuple(_members(spec.get("members")))
    return HyperNode(name, tier if isinstance(tier, int) else 0, str(spec.get("tierName") or ""), members)


def _members(listed: Any) -> Iterator[Member]:
    for one in listed if isinstance(listed, list) else ():
        selector = one.get("selector") or {}
        is_node = one.get("type") == "Node"
        if name := (selector.get("exactMatch") or {}).get("name"):
            yield Member(is_node, name=str(name))
        elif pattern := (selector.get("regexMatch") or {}).get("pattern"):
            yield Member(is_node, pattern=str(pattern))
        elif is_node and (labels := selector.get("labelMatch")) is not None:
            yield Member(is_node, selector=_selector_key(labels))


def _selector_key(selector: Mapping[str, Any]) -> str:
    return msgspec.json.encode(selector, order="sorted").decode()


@lru_cache(maxsize=4096)
def _selector(key: str) -> Mapping[str, Any]:
    return msgspec.json.decode(key, type=dict[str, Any])


@lru_cache(maxsize=4096)
def _pattern(text: str) -> Any:
    """Return the pattern as Go reads it, found in linear time; None: it is none."""
    try:
        return re2.compile(text)
    except re2.error:
        return None


def _matches(member: Member, name: str, labels: Mapping[str, str]) -> bool:
    if member.selector:
        return selects(_selector(member.selector), labels)
    found = _pattern(member.pattern)
    return found is not None and bool(found.search(name))
