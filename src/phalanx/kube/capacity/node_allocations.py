"""Track the usage of every node independently of the core, so that a node can be checked again right before a pod is
bound to it.

Between a decision and its binding, another scheduler's pod may take the capacity, and the node may be cordoned or
deleted. The API server accepts a binding without a check of the node. The kubelet would then reject the pod, and a
rejected pod fails permanently. So this module checks each binding again, against the usage of the pods in the cache and
of the bindings that the API server has not answered yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.model.node import HARD, Node, Taint, tolerates
from phalanx.model.pod import Amounts, Shape, Toleration


class NodeAllocations:
    """The nodes by name, and the usage of each pod by uid. A node or pod that is added again replaces its earlier
    entry."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._allocatable: dict[str, dict[str, int]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._held: dict[str, tuple[str, Amounts]] = {}

    def see_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._allocatable[node.name] = dict(node.allocatable)

    def lose_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._allocatable.pop(name, None)

    def largest(self) -> dict[str, int]:
        """Return the largest amount of each resource that any node has."""
        most: dict[str, int] = {}
        for allocatable in self._allocatable.values():
            for name, value in allocatable.items():
                if value > most.get(name, 0):
                    most[name] = value
        return most

    def allocate(self, uid: str, node: str, requests: Amounts) -> None:
        if self._held.get(uid) == (node, requests):
            return
        self.release(uid)
        self._held[uid] = (node, requests)
        used = self._used.setdefault(node, {})
        for name, value in requests:
            used[name] = used.get(name, 0) + value

    def claim(self, wanted: Iterable[tuple[str, str, Shape]]) -> set[str]:
        """Charge each pod to its node if the node has the capacity. `wanted`: the uid, the node and the shape of each
        pod. Return the uids of the pods whose node lacks the capacity; these pods are not charged to any node."""
        lost: set[str] = set()
        for uid, node, shape in wanted:
            self.release(uid)
            if self.fits(node, shape):
                self.allocate(uid, node, shape.requests)
            else:
                lost.add(uid)
        return lost

    def release(self, uid: str) -> None:
        node, requests = self._held.pop(uid, ("", ()))
        for name, value in requests:
            self._used[node][name] -= value

    def fits(self, node: str, shape: Shape) -> bool:
        """Return True if the free resources, the taints and the state of the node allow one more pod of this shape
        now."""
        known = self.nodes.get(node)
        if known is None or known.unschedulable or not known.ready or _repels(known.taints, shape.tolerations):
            return False
        allocatable, used = self._allocatable[node], self._used.get(node, {})
        return all(used.get(name, 0) + value <= allocatable.get(name, 0) for name, value in shape.requests)


def _repels(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    return any(taint.effect in HARD and not tolerates(tolerations, taint) for taint in taints)
