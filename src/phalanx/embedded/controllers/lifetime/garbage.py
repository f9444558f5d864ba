"""The garbage collector. It deletes objects whose owners were deleted (in the background or in the foreground), or it
orphans them.

The collector watches every kind whose objects can be deleted (`watched_kinds`), and keeps the graph of owners
(`ownership`). The graph alone does not prove that an owner is absent, because the watch of the owner's kind may lag, or
the owner may never have existed. So the collector first checks at the server that the owner is absent (`owner_states`).

- Background: the owner no longer exists; the collector deletes its dependents one by one.
- Foreground: the owner has the finalizer `foregroundDeletion`. The collector deletes the dependents, and removes the
  finalizer when no dependent with `blockOwnerDeletion` is left.
- Orphan: the owner has the finalizer `orphan`. The collector removes the references to the owner from its dependents,
  and then the finalizer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Change
from phalanx.embedded.controllers.lifetime.owner_states import OwnerStates
from phalanx.embedded.controllers.lifetime.ownership import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Keep,
    OwnedObject,
    OwnerGraph,
    Reference,
    Unlink,
    judge,
    node_of,
    same_links,
)
from phalanx.embedded.controllers.lifetime.watched_kinds import WatchedKinds
from phalanx.embedded.controllers.runtime.calls import JSON_PATCH, Calls, gone
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue


class GarbageCollector:
    """The garbage collector; call `run`."""

    def __init__(self, connection: Connection, calls: Calls, *, retry: Retry | None = None, workers: int = 32) -> None:
        self._calls = calls
        self.graph = OwnerGraph()
        self._kinds = WatchedKinds(connection, calls, self._changed)
        self._owners = OwnerStates(self.graph, self._kinds, calls)
        self._queue = WorkQueue("garbage", self._look, workers=workers, retry=retry or Retry(first_s=0.2, most_s=30.0))

    async def run(self) -> None:
        """Delete or orphan dependents until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._kinds.begin(group)
                group.create_task(self._queue.run())
                await self._kinds.follow(group)
        finally:
            self._kinds.close()

    # --- changes of objects ---------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if change.new is None:
            assert change.old is not None
            self._dropped(node_of(change.kind, change.old))
            return
        if change.old is not None and same_links(change.old, change.new):
            return
        node, old = node_of(change.kind, change.new), self.graph.nodes.get(change.new["metadata"]["uid"])
        if old == node:
            return
        self.graph.put(node)
        if node.waits_for_dependents or node.orphans_dependents:
            self._queue.add(node.uid)
        if node.owners and (old is None or old.owners != node.owners) and not self._all_known(node):
            self._queue.add(node.uid)
        if old is not None and old.owners != node.owners:
            self._wake_waiting(old.owners)

    def _dropped(self, node: OwnedObject) -> None:
        self.graph.drop(node.uid)
        self._add_all(self.graph.dependents(node.uid))
        self._wake_waiting(node.owners)

    def _all_known(self, node: OwnedObject) -> bool:
        """Return True if every owner of the object exists and is not waiting for its dependents. Such an object needs
        no action."""
        owners = [self.graph.nodes.get(owner.uid) for owner in node.owners]
        return all(owner is not None and not owner.waits_for_dependents for owner in owners)

    def _wake_waiting(self, owners: Iterable[Reference]) -> None:
        for owner in owners:
            known = self.graph.nodes.get(owner.uid)
            if known is not None and known.waits_for_dependents:
                self._queue.add(owner.uid)

    def _add_all(self, nodes: Iterable[OwnedObject]) -> None:
        for node in nodes:
            self._queue.add(node.uid)

    # --- reconciliation of one object -----------------------------------------------------------------------------

    async def _look(self, uid: str) -> None:
        node = self.graph.nodes.get(uid)
        if node is None:
            return
        if node.orphans_dependents:
            await self._orphan_dependents(node)
        elif node.waits_for_dependents:
            await self._release_if_last(node)
        elif not node.deleting:
            await self._judge(node)

    async def _orphan_dependents(self, node: OwnedObject) -> None:
        for dependent in self.graph.dependents(node.uid):
            await self._unlink(dependent, {node.uid})
        await self._edit(node, finalizer=ORPHAN)

    async def _release_if_last(self, node: OwnedObject) -> None:
        if self.graph.blockers(node.uid):
            self._add_all(one for one in self.graph.dependents(node.uid) if not one.deleting)
        else:
            await self._edit(node, finalizer=FOREGROUND)

    async def _judge(self, node: OwnedObject) -> None:
        states = {owner.uid: await self._owners.of(node, owner) for owner in node.owners}
        match judge(node, lambda owner: states[owner.uid], bool(self.graph.dependents(node.uid))):
            case Unlink(owners=owners):
                await self._unlink(node, set(owners))
            case Delete(policy=policy):
                await self._delete(node, policy)
            case Keep():
                pass

    # --- writes ---------------------------------------------------------------------------------------------------

    async def _delete(self, node: OwnedObject, policy: str) -> None:
        """Delete the object if it still has the resourceVersion about which the collector decided. An object with a new
        owner must not be deleted."""
        if (obj := self._object(node)) is None:
            return
        try:
            await self._calls.delete(node.kind, obj, policy=policy, exact=True)
        except ApiRefusal as refusal:
            if refusal.code == 409:
                await self._reread(node)
                self._queue.add_after(node.uid, 0.05)
            elif refusal.code != 404:
                raise

    async def _unlink(self, node: OwnedObject, owners: set[str]) -> None:
        await self._edit(node, without=owners)

    async def _edit(self, node: OwnedObject, *, without: set[str] | None = None, finalizer: str = "") -> None:
        """Remove owner references or a finalizer. After a conflict, read the object again and retry later."""
        if (obj := self._object(node)) is None:
            return
        patch = _removals(obj, without or set(), finalizer)
        try:
            if patch:
                await self._calls.patch(node.kind, obj, patch, content_type=JSON_PATCH)
        except ApiRefusal as refusal:
            if refusal.code == 404:
                self._calls.forget(node.kind, obj)
                return
            await self._reread(node)
            raise

    def _object(self, node: OwnedObject) -> Object | None:
        obj = self._kinds.object(node.kind, f"{node.namespace}/{node.name}" if node.namespace else node.name)
        return obj if obj is not None and obj["metadata"]["uid"] == node.uid else None

    async def _reread(self, node: OwnedObject) -> None:
        try:
            await self._calls.get(node.kind, node.name, node.namespace)
        except ApiRefusal as refusal:
            if (obj := self._object(node)) is not None and gone(refusal):
                self._calls.forget(node.kind, obj)


def _removals(obj: Object, owners: set[str], finalizer: str) -> list[dict[str, object]]:
    """Return a JSON patch that removes these owner references and this finalizer. The patch fails if the object has
    changed since it was read."""
    meta = obj["metadata"]
    patch: list[dict[str, object]] = []
    kept = [one for one in meta.get("ownerReferences") or () if one["uid"] not in owners]
    if len(kept) < len(meta.get("ownerReferences") or ()):
        patch.append(_set("ownerReferences", kept))
    if finalizer in (meta.get("finalizers") or ()):
        patch.append(_set("finalizers", [one for one in meta["finalizers"] if one != finalizer]))
    test: dict[str, object] = {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
    return [test, *patch] if patch else []


def _set(field: str, value: list[object]) -> dict[str, object]:
    if value:
        return {"op": "replace", "path": f"/metadata/{field}", "value": value}
    return {"op": "remove", "path": f"/metadata/{field}"}
