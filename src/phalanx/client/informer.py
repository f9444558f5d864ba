"""A cache of one kind, kept true by list and watch.

The protocol is that of client-go's reflector: list once (consistently, no resourceVersion), watch from the list's
version with bookmarks, resume a broken watch from the last version seen, and list again when the server says 410: the
difference to the cache is then told as ordinary changes, so that a subscriber never notices.

Answers to own writes and the watch are two unordered streams. `observe` takes both; per object only what is newer
(by resourceVersion, an integer in every server we know) is kept, and another uid under an old name is told as a
deletion and an addition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import Kind

log = logging.getLogger(__name__)

_WATCH_S = 290
_QUIET_S = 330.0  # longer than a watch lasts: only a dead connection is silent so long
_BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`old` is None for a new object, `new` is None for one that is gone (then `old` is its last known state)."""

    kind: Kind
    old: Object | None
    new: Object | None


Subscriber = Callable[[Change], None]


def key_of(obj: Object) -> str:
    """`namespace/name`, or `name` alone for a cluster-scoped object."""
    meta = obj["metadata"]
    space = meta.get("namespace")
    return f"{space}/{meta['name']}" if space else str(meta["name"])


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


class Informer:
    """`objects` maps `namespace/name` to the newest known state. Subscribers are called in order, synchronously."""

    def __init__(self, connection: Connection, kind: Kind, *, namespace: str = "", **selectors: str) -> None:
        """`selectors`: labelSelector and fieldSelector as the API takes them."""
        self.kind = kind
        self.objects: dict[str, Object] = {}
        self.synced = asyncio.Event()  # the first list is in `objects`
        self._connection, self._namespace, self._selectors = connection, namespace, selectors
        self._subscribers: list[Subscriber] = []
        self._deleted: dict[str, int] = {}  # uid -> version at deletion, against answers that arrive late
        self._version = ""
        self._cause = ""  # why it cannot be watched, as logged

    def subscribe(self, subscriber: Subscriber) -> None:
        """Every later change; what is cached already is told at once as additions."""
        self._subscribers.append(subscriber)
        for obj in list(self.objects.values()):
            subscriber(Change(kind=self.kind, old=None, new=obj))

    def observe(self, obj: Object) -> bool:
        """Take in a state read from the watch or from an answer; False if something newer was known."""
        key, version = key_of(obj), version_of(obj)
        uid, old = obj["metadata"]["uid"], self.objects.get(key)
        if version <= self._deleted.get(uid, -1):
            return False
        if old is not None and old["metadata"]["uid"] != uid:
            if version < version_of(old):
                return False
            self._remove(key, old, version)
            old = None
        if old is not None and version <= version_of(old):
            return False
        self.objects[key] = obj
        self._tell(Change(kind=self.kind, old=old, new=obj))
        return True

    def forget(self, obj: Object) -> None:
        """The watch says that `obj` (its last state, at its deletion's version) is gone."""
        key = key_of(obj)
        old = self.objects.get(key)
        if old is None or old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._deleted[obj["metadata"]["uid"]] = version_of(obj)
            return
        self._remove(key, obj, version_of(obj))

    async def run(self) -> None:
        """List and watch until cancelled."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._list()
                told = await self._watch()
                failures = 0 if told else failures + 1  # a server that closes at once must not be hammered
            except ApiRefusal as error:
                if error.code != 410:
                    self._complain(str(error))
                    failures += 1
                self._version = ""
            except ApiError as error:
                log.info("watching %s: %s", self.kind.plural, error)
                failures += 1
            if failures:
                await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1])

    # --- inside ---------------------------------------------------------------------------------------------------

    def _complain(self, cause: str) -> None:
        """Once per cause: a right that is missing is asked for again every few seconds."""
        if cause != self._cause:
            log.warning("%s cannot be watched, which is tried again until it can: %s", self.kind.plural, cause)
            self._cause = cause

    async def _list(self) -> None:
        listing = await self._connection.list(self.kind, self._namespace, **self._selectors)
        self._connection.tally.filled(self.kind.path(self._namespace))
        version = listing["metadata"]["resourceVersion"]
        seen = set()
        for obj in listing["items"]:
            obj.setdefault("apiVersion", self.kind.api_version)
            obj.setdefault("kind", self.kind.name)
            seen.add(key_of(obj))
            self.observe(obj)
        for key in [key for key, obj in self.objects.items() if key not in seen and version_of(obj) <= int(version)]:
            self._remove(key, self.objects[key], int(version))
        self._version = version
        self.synced.set()

    async def _watch(self) -> int:
        """Follow one watch to its end; how many events it told."""
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
            "resourceVersion": self._version,
            **self._selectors,
        }
        told = 0
        async with self._connection.stream(self.kind.path(self._namespace), params, _QUIET_S) as lines:
            self._cause = ""
            async for line in lines:
                self._take(msgspec.json.decode(line))
                told += 1
        return told

    def _take(self, event: Object) -> None:
        obj = event["object"]
        match event["type"]:
            case "ADDED" | "MODIFIED":
                self.observe(obj)
            case "DELETED":
                self.forget(obj)
            case "ERROR":
                raise ApiRefusal(obj.get("code", 0), obj.get("reason", ""), obj.get("message", ""))
            case _:  # a bookmark says only how far we are
                pass
        self._version = obj["metadata"]["resourceVersion"]

    def _remove(self, key: str, last: Object, version: int) -> None:
        del self.objects[key]
        self._deleted[last["metadata"]["uid"]] = version
        if len(self._deleted) > 100_000:  # answers that late do not exist
            for uid in list(self._deleted)[:50_000]:
                del self._deleted[uid]
        self._tell(Change(kind=self.kind, old=last, new=None))

    def _tell(self, change: Change) -> None:
        for subscriber in self._subscribers:
            subscriber(change)
