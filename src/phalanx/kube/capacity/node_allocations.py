"""The usage of every node, counted apart from the core, and checked right before a binding is sent.

Between a decision and its binding, another scheduler's pod may take the capacity, and the node may be cordoned or
deleted. The API server does not check this at a binding, and the kubelet would fail the pod for good. So this module
checks each binding again, against the listed pods and the bindings that are not answered yet.

List the cluster's objects again after a decision that overcommits a node, before anything of that decision is
written.

Such a decision (a *breach*) has one of two causes: a defect of the core, or an event that the core never got. A list
shows a lost event. So pods, Jobs, nodes and queues are listed again before any write of the plan (the resume of a Job,
the eviction of a victim). Differences from the caches become changes, and the check of the bind barrier then binds
nothing over capacity. If a defect causes a breach in each cycle, there is at most one list a minute. Breaches are
counted by the caller and logged by this module."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from math import inf

from phalanx.client.connection import ApiError
from phalanx.model.node import HARD, Node, Taint, tolerates
from phalanx.model.pod import Amounts, Shape, Toleration


class NodeAllocations:
    """The nodes by name, and the usage of each pod by uid. Adding an entry that exists replaces it, so an addition may
    be repeated."""

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
        """Return the most of each resource that any node has."""
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

    def release(self, uid: str) -> None:
        node, requests = self._held.pop(uid, ("", ()))
        for name, value in requests:
            self._used[node][name] -= value

    def fits(self, node: str, shape: Shape) -> bool:
        """Return True if one more pod of this shape may be bound to the node now, by the node's free amounts and
        taints."""
        known = self.nodes.get(node)
        if known is None or known.unschedulable or not known.ready or _repels(known.taints, shape.tolerations):
            return False
        allocatable, used = self._allocatable[node], self._used.get(node, {})
        return all(used.get(name, 0) + value <= allocatable.get(name, 0) for name, value in shape.requests)


def _repels(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    return any(taint.effect in HARD and not tolerates(tolerations, taint) for taint in taints)


log = logging.getLogger(__name__)

_REST_S = 60.0  # the least time between two lists


class BreachRelist:
    """The check for breaches. `breaches`: returns the number of decisions so far that overcommitted a node."""

    def __init__(self, breaches: Callable[[], int]) -> None:
        self._breaches, self._known = breaches, 0
        self._listed_s = -inf
        self._doubtful = False

    def must_relist(self) -> bool:
        """Return whether the latest decision must wait until all objects are listed again."""
        found, now_s = self._breaches(), time.monotonic()
        fresh, self._known = found > self._known, found
        if fresh and now_s - self._listed_s >= _REST_S:
            self._doubtful, self._listed_s = True, now_s
        return self._doubtful

    async def relist_if_due(self, list_again: Callable[[], Awaitable[None]]) -> None:
        """List the objects again if that is due. Kinds that cannot be listed keep their last known state."""
        if not self._doubtful:
            return
        log.error("a decision broke a promise, so all is listed again before it is carried out")
        try:
            await list_again()
        except ApiError as error:
            log.warning("it could not be listed again: %s", error)
        self._doubtful = False
