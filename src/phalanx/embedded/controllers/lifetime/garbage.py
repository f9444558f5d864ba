"""The garbage collector. It deletes objects whose owners were deleted, in the background or in the foreground, or
orphans them.

The collector watches every kind that the server can delete, custom resources included, and keeps the graph of owners
(`ownership`). An object is never deleted because of the graph alone. The collector first reads from the server that the
owner is absent, because the watch of the owner's kind may lag, or the owner may never have existed.

- Background: the owner no longer exists; the collector deletes its dependents one by one.
- Foreground: the owner has the finalizer `foregroundDeletion`. The collector deletes the dependents, and removes the
  finalizer when no dependent that blocks the owner is left.
- Orphan: the owner has the finalizer `orphan`. The collector removes the references to the owner from its dependents,
  and then the finalizer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import CRDS, Kind
from phalanx.embedded.controllers.lifetime.ownership import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Keep,
    OwnedObject,
    OwnerGraph,
    OwnerState,
    Reference,
    Unlink,
    judge,
    node_of,
    same_links,
)
from phalanx.embedded.controllers.runtime.calls import JSON_PATCH, Calls, gone
from phalanx.embedded.controllers.runtime.discovery import IGNORED, Catalog, discover
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue

log = logging.getLogger(__name__)

_MOST_ABSENT = 10_000
_REFRESH_S = 30.0
_SYNC_S = 30.0  # the wait for the first lists, as in kube-controller-manager


class UnknownKind(ApiError):
    """Raised if the server does not serve the kind of an owner. Then it is unknown whether the owner exists, so its
    dependents are not deleted."""


class GarbageCollector:
    """The garbage collector; call `run`. For built-in kinds it uses the shared caches of `calls.cache`. For custom
    resources it has watches of its own."""

    def __init__(self, connection: Connection, calls: Calls, *, retry: Retry | None = None, workers: int = 32) -> None:
        self._connection, self._calls = connection, calls
        self.graph = OwnerGraph()
        self._absent: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._caches: dict[Kind, Informer] = {}
        self._watches: dict[Kind, asyncio.Task[None]] = {}
        self._catalog: Catalog | None = None
        self._stale = asyncio.Event()
        self._queue = WorkQueue("garbage", self._look, workers=workers, retry=retry or Retry(first_s=0.2, most_s=30.0))

    async def run(self) -> None:
        """Delete or orphan dependents until cancelled."""
        self._calls.cache(CRDS).subscribe(lambda _: self._stale.set())
        await self._calls.cache(CRDS).synced.wait()
        try:
            async with asyncio.TaskGroup() as group:
                while not (await self._refresh(group) and await self._synced()):
                    await self._wait_for_change()
                group.create_task(self._queue.run())
                while True:
                    await self._wait_for_change()
                    await self._refresh(group)
        finally:
            for kind in list(self._watches):
                self._unwatch(kind)

    # --- the watched kinds ----------------------------------------------------------------------------------------

    async def _synced(self) -> bool:
        """Wait for the first list of each watched kind, but not longer than `_SYNC_S`, because the collector may not be
        allowed to list every served kind. Return False if the set of served kinds changed in the meantime: a kind that
        was removed is never listed."""
        lists = asyncio.ensure_future(self._all_listed())
        change = asyncio.ensure_future(self._stale.wait())
        try:
            done, _ = await asyncio.wait((lists, change), timeout=_SYNC_S, return_when=asyncio.FIRST_COMPLETED)
            return lists in done or change not in done
        finally:
            lists.cancel()
            change.cancel()

    async def _all_listed(self) -> None:
        """Wait until every cache is filled, one after the other. (asyncio.gather, when it is cancelled, leaves an
        exception that is never retrieved.)"""
        for cache in list(self._caches.values()):
            await cache.synced.wait()

    async def _wait_for_change(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_REFRESH_S):
                await self._stale.wait()
            await asyncio.sleep(0.1)  # the server lists a new kind a moment after the creation of its definition

    async def _refresh(self, group: asyncio.TaskGroup) -> bool:
        """Watch exactly the kinds that the server serves now. Return False if the server could not list all kinds."""
        self._stale.clear()
        try:
            self._catalog = await discover(self._calls)
        except ApiError as error:
            log.info("discovery: %s", error)
            asyncio.get_running_loop().call_later(1.0, self._stale.set)
            return False
        wanted = {kind for kind in self._catalog.kinds if (kind.group, kind.plural) not in IGNORED}
        custom = self._custom_groups()
        for kind in wanted - set(self._caches):
            self._watch(group, kind, own=kind.group in custom and not self._calls.shares(kind))
        for kind in set(self._caches) - wanted:
            self._unwatch(kind)
        return True

    def _custom_groups(self) -> set[str]:
        return {definition["spec"]["group"] for definition in self._calls.cache(CRDS).objects.values()}

    def _watch(self, group: asyncio.TaskGroup, kind: Kind, *, own: bool) -> None:
        if own:
            cache = Informer(self._connection, kind)
            self._calls.attach(kind, cache)
            self._watches[kind] = group.create_task(cache.run())
        else:
            cache = self._calls.cache(kind)
        self._caches[kind] = cache
        cache.subscribe(self._changed)

    def _unwatch(self, kind: Kind) -> None:
        """Forget the kind and all its objects, because the server does not serve the kind any more."""
        if (watch := self._watches.pop(kind, None)) is not None:
            watch.cancel()
            self._calls.detach(kind)
        for obj in self._caches.pop(kind).objects.values():
            self._changed(Change(kind=kind, old=obj, new=None))

    # --- changes of Jobs and pods ---------------------------------------------------------------------------------

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
        """Return True if every owner of the object exists and is not waiting for its dependents. Then there is nothing
        to do."""
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
        states = {owner.uid: await self._state(node, owner) for owner in node.owners}
        match judge(node, lambda owner: states[owner.uid], bool(self.graph.dependents(node.uid))):
            case Unlink(owners=owners):
                await self._unlink(node, set(owners))
            case Delete(policy=policy):
                await self._delete(node, policy)
            case Keep():
                pass

    async def _state(self, node: OwnedObject, owner: Reference) -> OwnerState:
        known = self.graph.nodes.get(owner.uid)
        if known is not None and known.name == owner.name and known.namespace in {"", node.namespace}:
            return OwnerState.WAITING if known.waits_for_dependents else OwnerState.SOLID
        if (owner.uid, node.namespace) in self._absent:
            return OwnerState.ABSENT
        return await self._ask(node, owner)

    async def _ask(self, node: OwnedObject, owner: Reference) -> OwnerState:
        """Read the owner from the server, by the kind and name in the dependent's reference, and return its state.
        Raises UnknownKind."""
        kind = self._catalog.named.get((owner.api_version, owner.kind)) if self._catalog else None
        if kind is None:
            self._stale.set()
            raise UnknownKind(f"{node.name} is owned by a {owner.kind} of {owner.api_version}, which is not served")
        if kind.namespaced and not node.namespace:
            return OwnerState.ABSENT  # a namespaced object cannot own a cluster-scoped one
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

    # --- writes ---------------------------------------------------------------------------------------------------

    async def _delete(self, node: OwnedObject, policy: str) -> None:
        """Delete the object, but only in the version about which the collector decided. An object that has got a new
        owner since then must stay."""
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
        cache = self._caches.get(node.kind)
        obj = cache.objects.get(f"{node.namespace}/{node.name}" if node.namespace else node.name) if cache else None
        return obj if obj is not None and obj["metadata"]["uid"] == node.uid else None

    async def _reread(self, node: OwnedObject) -> None:
        try:
            await self._calls.get(node.kind, node.name, node.namespace)
        except ApiRefusal as refusal:
            if (obj := self._object(node)) is not None and gone(refusal):
                self._calls.forget(node.kind, obj)


def _removals(obj: Object, owners: set[str], finalizer: str) -> list[dict[str, object]]:
    """Return a JSON patch that removes the entries and fails if the object is no longer in the state that was read."""
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
