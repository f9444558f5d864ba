"""Find out whether the owner of an object exists: from the graph of known objects, or else from the server."""

from __future__ import annotations

from collections import OrderedDict

from phalanx.client.connection import ApiError, ApiRefusal
from phalanx.embedded.controllers.lifetime.ownership import OwnedObject, OwnerGraph, OwnerState, Reference, node_of
from phalanx.embedded.controllers.lifetime.watched_kinds import WatchedKinds
from phalanx.embedded.controllers.runtime.calls import Calls

_MOST_ABSENT = 10_000


class UnknownKind(ApiError):
    """Raised if the server does not serve the kind of an owner. It is then unknown whether the owner exists, so the
    dependents of the owner are not deleted."""


class OwnerStates:
    """The states of owners. An owner that the server has reported as absent is not requested again, because a uid is
    never used twice."""

    def __init__(self, graph: OwnerGraph, kinds: WatchedKinds, calls: Calls) -> None:
        self._graph, self._kinds, self._calls = graph, kinds, calls
        self._absent: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def of(self, node: OwnedObject, owner: Reference) -> OwnerState:
        known = self._graph.nodes.get(owner.uid)
        if known is not None and known.name == owner.name and known.namespace in {"", node.namespace}:
            return OwnerState.WAITING if known.waits_for_dependents else OwnerState.SOLID
        if (owner.uid, node.namespace) in self._absent:
            return OwnerState.ABSENT
        return await self._ask(node, owner)

    async def _ask(self, node: OwnedObject, owner: Reference) -> OwnerState:
        """Read the owner from the server, by the kind and name in the dependent's reference, and return its state.
        Raises UnknownKind."""
        kind = self._kinds.named(owner.api_version, owner.kind)
        if kind is None:
            raise UnknownKind(f"{node.name} is owned by a {owner.kind} of {owner.api_version}, which is not served")
        if kind.namespaced and not node.namespace:
            return OwnerState.ABSENT  # a namespaced object cannot own a cluster-scoped object
        try:
            found = await self._calls.get(kind, owner.name, node.namespace if kind.namespaced else "")
        except ApiRefusal as refusal:
            if refusal.code != 404:
                raise
            found = {"metadata": {"uid": ""}}
        if found["metadata"]["uid"] == owner.uid:
            return OwnerState.WAITING if node_of(kind, found).waits_for_dependents else OwnerState.SOLID
        self._absent[owner.uid, node.namespace] = None
        if len(self._absent) > _MOST_ABSENT:
            self._absent.popitem(last=False)
        return OwnerState.ABSENT
