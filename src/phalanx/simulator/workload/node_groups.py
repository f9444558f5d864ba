"""Node groups of a simulated cluster: what a provider offers, and how often it is late or fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from phalanx.model.node import Node, NodeGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGroup:
    """A node group with the faults of its provider.

    `refused`: the probability that the provider refuses a requested node, after the group's delay.
    `never`: the probability that a requested node never arrives.
    `late`, `late_s`: the probability that a node arrives late, and by how much at most.
    `lifetime_s`: the mean of the exponential time after which a node is lost, as spot nodes are; 0: never."""

    group: NodeGroup
    refused: float = 0.0
    never: float = 0.0
    late: float = 0.0
    late_s: float = 300.0
    lifetime_s: float = 0.0

    def nodes(self, count: int) -> Iterator[Node]:
        """Yield the first nodes of the group, ready."""
        for number in range(1, count + 1):
            yield self.node(f"{self.group.name}-{number}")

    def node(self, name: str) -> Node:
        """Return a node of the group that has arrived."""
        template = self.group.template
        return Node(
            name=name,
            allocatable=template.allocatable,
            labels=template.labels,
            taints=template.taints,
            devices=template.devices,
            zones=template.zones,
            group=self.group.name,
        )
