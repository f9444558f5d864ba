"""Watch every kind whose objects can be deleted, including custom resources. A kind that is no longer served is no
longer watched. Built-in kinds use the shared caches of `Calls.cache`; custom resources have separate caches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import CRDS, Kind
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.discovery import IGNORED, Catalog, discover

log = logging.getLogger(__name__)

_REFRESH_S = 30.0
_SYNC_S = 30.0  # the maximum wait for the first lists, as in kube-controller-manager


class WatchedKinds:
    """The kinds that the server serves now, with their caches. `changed`: a function that is called with each change of
    an object."""

    def __init__(self, connection: Connection, calls: Calls, changed: Callable[[Change], None]) -> None:
        self._connection, self._calls, self._changed = connection, calls, changed
        self._caches: dict[Kind, Informer] = {}
        self._watches: dict[Kind, asyncio.Task[None]] = {}
        self._catalog: Catalog | None = None
        self._stale = asyncio.Event()

    async def begin(self, group: asyncio.TaskGroup) -> None:
        """Watch all kinds, and wait until their objects are listed."""
        self._calls.cache(CRDS).subscribe(lambda _: self._stale.set())
        await self._calls.cache(CRDS).synced.wait()
        while not (await self._refresh(group) and await self._synced()):
            await self._wait_for_change()

    async def follow(self, group: asyncio.TaskGroup) -> None:
        """Follow the changes of the served kinds until cancelled."""
        while True:
            await self._wait_for_change()
            await self._refresh(group)

    def close(self) -> None:
        """End all watches."""
        for kind in list(self._watches):
            self._unwatch(kind)

    def named(self, api_version: str, name: str) -> Kind | None:
        """Return the served kind of this name. If there is none, return None, and request the list of kinds again
        soon."""
        kind = self._catalog.named.get((api_version, name)) if self._catalog else None
        if kind is None:
            self._stale.set()
        return kind

    def object(self, kind: Kind, key: str) -> Object | None:
        """Return the cached object, by `namespace/name` or by name."""
        cache = self._caches.get(kind)
        return cache.objects.get(key) if cache is not None else None

    # --- the served kinds -------------------------------------------------------------------------------------------

    async def _synced(self) -> bool:
        """Wait for the first list of each watched kind, but not longer than `_SYNC_S`, because the collector may not be
        allowed to list every served kind. Return False if the set of served kinds changed in the meantime: the list of
        a removed kind never arrives."""
        lists = asyncio.ensure_future(self._all_listed())
        change = asyncio.ensure_future(self._stale.wait())
        try:
            done, _ = await asyncio.wait((lists, change), timeout=_SYNC_S, return_when=asyncio.FIRST_COMPLETED)
            return lists in done or change not in done
        finally:
            lists.cancel()
            change.cancel()

    async def _all_listed(self) -> None:
        """Wait until every cache is filled, one after the other. (A cancelled asyncio.gather would leave an exception
        that is never retrieved.)"""
        for cache in list(self._caches.values()):
            await cache.synced.wait()

    async def _wait_for_change(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_REFRESH_S):
                await self._stale.wait()
            # wait, because a new kind is served only some time after the creation of its definition
            await asyncio.sleep(0.1)

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
