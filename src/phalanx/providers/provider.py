"""The protocol of a *provider*, which adds nodes to the cluster and removes them. Every provider has the same two
calls.

`scale` requests nodes and removes nodes. If the answer was lost, the call may be repeated with the same names, and a
repeated call changes nothing. `status` returns the requested nodes that have not arrived yet.

Nodes are removed only when they are empty (`EmptyNodes`). First the node is cordoned and checked for pods. Then the
provider removes the node, and its Node object is deleted.

The scheduler requests the removal of a node only if no pod is on the node in the scheduler's state. But another
scheduler may bind a pod to the node at the same moment. So the node is cordoned first, and its pods are listed some
time later. If the node has a pod by then, the node is kept and uncordoned. An annotation marks the nodes whose removal
has begun, so that a restarted scheduler continues the removal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import NODES, PODS
from phalanx.errors import PhalanxError


class ProviderError(PhalanxError):
    """Raised if a call has failed. The call may be repeated. The text states the reason."""


class Requested(NamedTuple):
    """A requested node that has not arrived. `since_s`: the time of the request (seconds since the epoch)."""

    name: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a group. `requested`: the nodes that have not arrived. `failed`: the nodes that will not arrive,
    with the provider's reasons. `removing`: the nodes whose removal has begun."""

    requested: tuple[Requested, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    removing: tuple[str, ...] = ()


class Provider(Protocol):
    """A provider of one or several groups."""

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        """Request the nodes `add`, and remove the nodes `remove` (or cancel their requests). Return the nodes that are
        not added or not removed, with the reasons. Raises ProviderError."""

    async def status(self, group: str) -> Status:
        """Return the status of the group. Raises ProviderError."""


log = logging.getLogger(__name__)

REMOVING = "phalanx.dev/removing"  # the annotation of nodes that are being removed; its value is the group
BINDINGS_S = 2.0  # after this time, other schedulers are assumed to have noticed the cordon
ENDED = ("Succeeded", "Failed")
MIRROR = "kubernetes.io/config.mirror"  # annotation of static pods
_GONE = 404


class EmptyNodes:
    """Wraps `provider`: only nodes without pods are removed, and all other calls are passed on. `deletes`: True if this
    class deletes the Node objects; False if `provider` deletes them."""

    def __init__(self, provider: Provider, connection: Connection, *, deletes: bool = True) -> None:
        self._provider, self._connection, self._deletes = provider, connection, deletes

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        if not remove:
            return await self._provider.scale(group, add, ())
        try:
            present = [name for name in remove if await self._cordon(group, name)]
            if present:
                await asyncio.sleep(BINDINGS_S)
            kept = {name: why for name in present if (why := await self._why_kept(name))}
            gone = [name for name in remove if name not in kept]
            refused = dict(await self._provider.scale(group, add, gone)) if gone or add else {}
            for name in present:
                if name in kept or name in refused:
                    await self._uncordon(name)
                elif self._deletes:
                    await self._delete(name)
        except ApiError as error:
            raise ProviderError(f"the nodes {', '.join(remove)} cannot be removed: {error}") from error
        return {**refused, **kept}

    async def status(self, group: str) -> Status:
        found = await self._provider.status(group)
        try:
            nodes = (await self._connection.list(NODES))["items"]
        except ApiError as error:
            raise ProviderError(f"the nodes cannot be listed: {error}") from error
        marked = (one["metadata"] for one in nodes)
        removing = tuple(meta["name"] for meta in marked if (meta.get("annotations") or {}).get(REMOVING) == group)
        return replace(found, removing=removing)

    async def _cordon(self, group: str, name: str) -> bool:
        """Cordon the node, so that no pod is placed on it. Return False if there is no such node."""
        try:
            node = await self._connection.get(NODES, name)
            if not (node.get("spec") or {}).get("unschedulable"):
                body = {"metadata": {"annotations": {REMOVING: group}}, "spec": {"unschedulable": True}}
                await self._connection.patch(NODES, name, body)
        except ApiRefusal as error:
            if error.code != _GONE:
                raise
            return False
        return True

    async def _uncordon(self, name: str) -> None:
        """Uncordon the node, unless another client has cordoned it."""
        try:
            node = await self._connection.get(NODES, name)
            if REMOVING in (node["metadata"].get("annotations") or {}):
                body = {"metadata": {"annotations": {REMOVING: None}}, "spec": {"unschedulable": None}}
                await self._connection.patch(NODES, name, body)
        except ApiRefusal as error:
            if error.code != _GONE:
                raise

    async def _delete(self, name: str) -> None:
        try:
            await self._connection.delete(NODES, name)
        except ApiRefusal as error:
            if error.code != _GONE:
                raise

    async def _why_kept(self, name: str) -> str:
        """Return why the node must not be removed; empty if no pod keeps it (see `keeps_node`)."""
        found = await self._connection.list(PODS, fieldSelector=f"spec.nodeName={name}")
        pods = [pod for pod in found["items"] if keeps_node(pod)]
        if not pods:
            return ""
        meta = pods[0]["metadata"]
        return f"the pod {meta['namespace']}/{meta['name']} runs on node {name}"


def keeps_node(pod: Object) -> bool:
    """Return True if the pod prevents the removal of its node. Ended pods, static pods and pods of DaemonSets do not
    prevent it."""
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or ()
    resident = any(one.get("kind") == "DaemonSet" for one in owners) or MIRROR in (meta.get("annotations") or {})
    return not resident and (pod.get("status") or {}).get("phase") not in ENDED
