"""A cache of one kind, kept true by list and watch.

The protocol is that of client-go's reflector: list once (consistently, no resourceVersion), watch from the list's
version with bookmarks, resume a broken watch from the last version seen, and list again when the server says 410: the
difference to the cache is then told as ordinary changes, so that a subscriber never notices. Where the server can, the
list is the beginning of the watch (KEP-3157): it need not build all of it at once, nor we.

A watch that says nothing may be dead without anybody having said so (a load balancer that forgot it, a server that
hangs): the kernel asks the peer whether it lives (`http`), and each watch ends by itself after a while.

Answers to own writes and the watch are two unordered streams. `observe` takes both; per object only what is newer
(by resourceVersion, an integer in every server we know) is kept, and another uid under an old name is told as a
deletion and an addition.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any, TypedDict, get_type_hints

import msgspec

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.kind import Kind

log = logging.getLogger(__name__)

_WATCH_S = (120, 180)  # so long is a watch: not all kinds at once
_QUIET_S = 15.0  # a watch that is silent for so much longer than it lasts is dead
_SHORT_S = 10.0  # who closes watches sooner, and tells nothing, must not be hammered
_PATIENCE = 6  # after so many watches in a row that told nothing we list again: the server may have been restored
_FORGOTTEN = 410
_SPECS = 10_000  # so many are remembered
_INITIAL = "k8s.io/initial-events-end"
_BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


class Change(msgspec.Struct, frozen=True, kw_only=True):  # made for every event: ten times faster than a dataclass
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


def _decoder(lean: type | None) -> Callable[[bytes], Any]:
    """Return the decoder of a watch's lines. What is not as the type has it is decoded whole: no odd object may end a
    watch.

    Of a lean type, specs that are the same to the byte are one object: most events say nothing new of it, and objects
    are made from templates."""
    if lean is None:
        return msgspec.json.decode
    fields, specs = get_type_hints(lean), dict[bytes, Any]()
    of_spec = msgspec.json.Decoder(fields.get("spec", Any)).decode
    fields["spec"] = msgspec.Raw
    parts = TypedDict("Parts", fields, total=False)  # type: ignore[misc]  # made at run time
    typed = msgspec.json.Decoder(TypedDict("Event", {"type": str, "object": parts})).decode  # type: ignore[operator]  # too

    def decode(line: bytes) -> Any:
        try:
            event: Any = typed(line)
            if "spec" in (obj := event["object"]):
                text = bytes(obj["spec"])
                if (spec := specs.get(text)) is None:
                    if len(specs) >= _SPECS:
                        specs.clear()
                    spec = specs[text] = of_spec(text)
                obj["spec"] = spec
        except msgspec.ValidationError:
            return msgspec.json.decode(line)
        return event

    return decode


def _trimmer(lean: type) -> Callable[[Any], Any]:
    def trim(obj: Any) -> Any:
        try:
            return msgspec.convert(obj, lean)
        except msgspec.ValidationError:
            return obj

    return trim


class Informer:
    """The cache of one kind. `objects` maps `namespace/name` to the newest known state. Subscribers are called in
    order, synchronously; one that raises misses that change and is told the next."""

    def __init__(
        self, connection: Connection, kind: Kind, *, namespace: str = "", lean: type | None = None, **selectors: str
    ) -> None:
        """Make an empty cache. `selectors`: labelSelector and fieldSelector as the API takes them. `lean`: a TypedDict
        of the fields that are kept, for who needs few of many; None: all."""
        self.kind = kind
        self.objects: dict[str, Object] = {}
        self.synced = asyncio.Event()  # the first list is in `objects`
        self._connection, self._namespace, self._selectors = connection, namespace, selectors
        self.decode = _decoder(lean)  # a line of a watch
        self._trim: Callable[[Any], Any] = (lambda obj: obj) if lean is None else _trimmer(lean)
        self._subscribers: list[Subscriber] = []
        self._deleted: dict[str, int] = {}  # uid -> version at deletion, against answers that arrive late
        self._version = ""
        self._highest = 0  # version that was seen
        self._listed: dict[str, Object] | None = None  # while a watch begins with what exists: what of it was told
        self._cause = ""  # why it cannot be watched, as logged

    def subscribe(self, subscriber: Subscriber) -> None:
        """Every later change; what is cached already is told at once as additions."""
        self._subscribers.append(subscriber)
        for obj in list(self.objects.values()):
            self._tell_one(subscriber, Change(kind=self.kind, old=None, new=obj))

    async def follow(self, subscriber: Subscriber, most_s: float = 0.02) -> None:
        """Tell the subscriber as `subscribe` does, in pieces: after `most_s` seconds of it others get their turn. What
        changes meanwhile is told once: an object of which nothing was told yet comes as an addition, as it is then."""
        clock = asyncio.get_running_loop().time
        untold = set(self.objects)

        def take(change: Change) -> None:
            key = key_of(change.new or change.old or {})
            if key not in untold:
                subscriber(change)
                return
            untold.discard(key)
            if change.new is not None:
                subscriber(Change(kind=self.kind, old=None, new=change.new))

        self._subscribers.append(take)
        began_s = clock()
        for key in list(self.objects):
            if key in untold:
                untold.discard(key)
                subscriber(Change(kind=self.kind, old=None, new=self.objects[key]))
            if clock() - began_s > most_s:
                await asyncio.sleep(0)
                began_s = clock()
        self._subscribers[self._subscribers.index(take)] = subscriber

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
                if not self._version and not self._connection.lists_by_watch:
                    await self._list()
                began_s = asyncio.get_running_loop().time()
                told = await self._watch()
                lasted_s = asyncio.get_running_loop().time() - began_s
                failures = 0 if told or lasted_s > _SHORT_S else failures + 1
            except ApiRefusal as error:
                failures += self._refused(error)
            except ApiError as error:
                log.info("watching %s: %s", self.kind.plural, error)
                failures += 1
            if failures and failures % _PATIENCE == 0:
                self._version = ""
            if failures:
                await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1])

    async def list_again(self) -> None:
        """List all once more, beside the watch: whatever the cache has otherwise is told as a change. Raises
        ApiError."""
        listed, version = set[str](), 0
        async for page in self._connection.pages(self.kind, self._namespace, **self._selectors):
            version = int(page["metadata"]["resourceVersion"])
            for obj in self._objects_of(page):
                listed.add(key_of(obj))
                self.observe(obj)
        for key, obj in list(self.objects.items()):
            if key not in listed and version_of(obj) <= version:
                self._remove(key, obj, version)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _refused(self, error: ApiRefusal) -> bool:
        """Return what of our asking was wrong; whether to wait before we ask again."""
        if error.code == _FORGOTTEN:
            self._version = ""
            return False
        if not self._version and self._connection.lists_by_watch and error.code in {400, 405, 422}:
            self._connection.lists_by_watch = False
            return False
        if error.code not in {401, 403, 404, 429}:
            self._version = ""
        if error.code != 429:
            self._complain(str(error))
        return True

    def _complain(self, cause: str) -> None:
        """Once per cause: a right that is missing is asked for again every few seconds."""
        if cause != self._cause:
            log.warning("%s cannot be watched, which is tried again until it can: %s", self.kind.plural, cause)
            self._cause = cause

    async def _list(self) -> None:
        self._listed = {}
        try:
            async for page in self._connection.pages(self.kind, self._namespace, **self._selectors):
                self._take_page(page)  # at once, so that only what is kept of it stays in memory
        except ApiRefusal as error:
            if error.code != _FORGOTTEN:
                raise
            self._listed = {}
            self._take_page(await self._connection.list(self.kind, self._namespace, **self._selectors))
        self._complete()

    def _take_page(self, page: Object) -> None:
        assert self._listed is not None
        for obj in self._objects_of(page):
            self._listed[key_of(obj)] = obj
            self.observe(obj)
        self._version = page["metadata"]["resourceVersion"]

    def _objects_of(self, page: Object) -> Iterator[Object]:
        for obj in map(self._trim, page["items"]):
            obj.setdefault("apiVersion", self.kind.api_version)
            obj.setdefault("kind", self.kind.name)
            yield obj

    def _complete(self) -> None:
        """All that exists at our version was told: what was not is gone."""
        version, listed, self._listed = int(self._version), self._listed or {}, None
        if version < self._highest:
            self._turn_back(listed)
        for key in [key for key, obj in self.objects.items() if key not in listed and version_of(obj) <= version]:
            self._remove(key, self.objects[key], version)
        self._highest = version
        self._connection.tally.filled(self.kind.path(self._namespace))
        self.synced.set()

    def _turn_back(self, listed: dict[str, Object]) -> None:
        """The server was restored from a backup: what it says is true though it is older than what we know."""
        log.warning("the server knows no %s as new as it told us before: all are read anew", self.kind.plural)
        for key, known in list(self.objects.items()):
            self._remove(key, known, 0)
        self._deleted.clear()
        for obj in listed.values():
            self.observe(obj)

    async def _watch(self) -> int:
        """Follow one watch to its end; how many events it told."""
        watch_s = random.randint(*_WATCH_S)
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(watch_s),
            **({"resourceVersion": self._version} if self._version else {}),
            **self._selectors,
        }
        if not self._version:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            self._listed = {}
        told = 0
        async with self._connection.stream(self.kind.path(self._namespace), params, watch_s + _QUIET_S) as lines:
            self._cause = ""
            async for line in lines:
                self.take(line)
                told += 1
        if self._listed is not None:  # it does not know how to begin with what exists, and did not say so
            self._connection.lists_by_watch = False
        return told

    def take(self, line: bytes) -> None:
        """Take in what a line of the watch says. Raises as the watch does when it says that it is over."""
        try:
            event = self.decode(line)
        except msgspec.DecodeError as error:
            raise ApiUnknown(f"a watch of {self.kind.plural} broke within a line") from error
        obj = event["object"]
        match event["type"]:
            case "ADDED" | "MODIFIED":
                if self._listed is not None:
                    self._listed[key_of(obj)] = obj
                self.observe(obj)
            case "DELETED":
                self.forget(obj)
            case "ERROR":
                if int(obj.get("code") or 0) >= 500:
                    raise ApiUnknown(obj.get("message") or "the watch broke")
                raise ApiRefusal(obj.get("code", 0), obj.get("reason", ""), obj.get("message", ""))
            case _:  # a bookmark says only how far we are
                if self._listed is not None and _INITIAL in (obj["metadata"].get("annotations") or {}):
                    self._version = obj["metadata"]["resourceVersion"]
                    self._complete()
        if self._listed is None:  # until then a watch that breaks begins anew
            self._version = obj["metadata"]["resourceVersion"]
            self._highest = max(self._highest, int(self._version))

    def _remove(self, key: str, last: Object, version: int) -> None:
        del self.objects[key]
        self._deleted[last["metadata"]["uid"]] = version
        if len(self._deleted) > 100_000:  # answers that late do not exist
            for uid in list(self._deleted)[:50_000]:
                del self._deleted[uid]
        self._tell(Change(kind=self.kind, old=last, new=None))

    def _tell(self, change: Change) -> None:
        for subscriber in self._subscribers:
            self._tell_one(subscriber, change)

    def _tell_one(self, subscriber: Subscriber, change: Change) -> None:
        """Tell one subscriber. What it cannot take must end neither the watch nor what others are told."""
        try:
            subscriber(change)
        except Exception:  # a defect of the subscriber's that this object brings out
            obj = change.new or change.old
            key = "" if obj is None else key_of(obj)
            log.exception("%s %s: a subscriber cannot take its change, and goes on without", self.kind.name, key)
