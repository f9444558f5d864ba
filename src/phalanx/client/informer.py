"""A cache of one kind, kept up to date by list and watch.

- The protocol is that of client-go's reflector. The informer lists once (consistently, without a resourceVersion), and
  then watches from the list's version, with bookmarks. It resumes a broken watch from the last version, and lists again
  after a 410. Differences between a list and the cache are reported to the subscribers as ordinary changes.
- If the server supports KEP-3157, the watch begins with all objects and replaces the list. Then neither the server nor
  the informer holds the whole list in memory.
- A watch without events may be dead, because a load balancer dropped it or the server hangs. So the kernel probes the
  connection (`http`), and each watch ends after some minutes.
- The watch and the responses to writes both contain new states of an object, and an older state may arrive later. So
  `observe` keeps the state with the highest resourceVersion, which is an integer in every known server.
- If an object is replaced by an object with the same name and another uid, a deletion and an addition are reported.
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

_WATCH_S = (120, 180)  # the range of a watch's duration; random, so that the watches do not all end at once
_QUIET_S = 15.0  # a watch from which nothing arrives for this long after its planned end counts as lost
_SHORT_S = 10.0  # after a watch that was shorter than this and had no events, the informer pauses
_PATIENCE = 6  # after this number of failed or empty watches, list again: the server may be restored from a backup
_FORGOTTEN = 410
_SPECS = 10_000  # the size of the cache of decoded specs
_INITIAL = "k8s.io/initial-events-end"
_BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


class Change(msgspec.Struct, frozen=True, kw_only=True):  # a Struct for speed: every event creates one
    """A change of an object. `old`: the object before the change; None if the object is new. `new`: the object after
    the change; None if the object was deleted."""

    kind: Kind
    old: Object | None
    new: Object | None


Subscriber = Callable[[Change], None]


def key_of(obj: Object) -> str:
    """Return `namespace/name`, or `name` for a cluster-scoped object."""
    meta = obj["metadata"]
    space = meta.get("namespace")
    return f"{space}/{meta['name']}" if space else str(meta["name"])


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _decoder(lean: type | None) -> Callable[[bytes], Any]:
    """Return a function that decodes a line of a watch. If `lean` is a type, only the fields of this type are decoded;
    if `lean` is None, all fields are decoded. An object that does not match this type is decoded with all fields, so
    that no object can end a watch.

    If `lean` is given, specs with the same bytes share one Python object. Sharing saves decoding, because most events
    do not change the spec, and many objects are created from one template."""
    if lean is None:
        return msgspec.json.decode
    fields, specs = get_type_hints(lean), dict[bytes, Any]()
    of_spec = msgspec.json.Decoder(fields.get("spec", Any)).decode
    fields["spec"] = msgspec.Raw
    parts = TypedDict("Parts", fields, total=False)  # type: ignore[misc]  # made at run time
    typed = msgspec.json.Decoder(TypedDict("Event", {"type": str, "object": parts})).decode  # type: ignore[operator]  # likewise

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
    def trim(obj: object) -> object:
        try:
            return msgspec.convert(obj, lean)
        except msgspec.ValidationError:
            return obj

    return trim


class Informer:
    """The cache of one kind. `objects`: `namespace/name` -> the newest known state. Subscribers are called
    synchronously and in order. A subscriber that raises an exception misses that change and receives the next one."""

    def __init__(
        self, connection: Connection, kind: Kind, *, namespace: str = "", lean: type | None = None, **selectors: str
    ) -> None:
        """Make an empty cache. `selectors`: labelSelector and fieldSelector in the API's syntax. `lean`: a TypedDict of
        the fields to keep; None: all fields."""
        self.kind = kind
        self.objects: dict[str, Object] = {}
        self.synced = asyncio.Event()  # set when the first list is in `objects`
        self._connection, self._namespace, self._selectors = connection, namespace, selectors
        self.decode = _decoder(lean)  # decodes a line of a watch
        self._trim: Callable[[Any], Any] = (lambda obj: obj) if lean is None else _trimmer(lean)
        self._subscribers: list[Subscriber] = []
        self._deleted: dict[str, int] = {}  # uid -> version of the deletion, to ignore late responses
        self._version = ""
        self._highest = 0  # the highest version seen
        self._listed: dict[str, Object] | None = None  # the objects of an incomplete list; None if it is complete
        self._cause = ""  # the last logged reason why the kind cannot be watched

    def subscribe(self, subscriber: Subscriber) -> None:
        """Report every cached object to the subscriber as an addition, and then report every later change."""
        self._subscribers.append(subscriber)
        for obj in list(self.objects.values()):
            self._tell_one(subscriber, Change(kind=self.kind, old=None, new=obj))

    async def follow(self, subscriber: Subscriber, most_s: float = 0.02) -> None:
        """Do the same as `subscribe`, but let other tasks of the event loop run every `most_s` seconds. An object that
        changes before it was reported is reported once, as an addition with its new state."""
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
        """Store an object's state from the watch or from a response. Return False if a newer state is known."""
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
        """Remove a deleted object. `obj`: the object's last state, with the resource version of the deletion."""
        key = key_of(obj)
        old = self.objects.get(key)
        if old is None or old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._deleted[obj["metadata"]["uid"]] = version_of(obj)
            return
        self._remove(key, obj, version_of(obj))

    async def run(self) -> None:
        """List and watch until this task is cancelled."""
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
            except Exception:  # the watch must go on, or the users of this cache would see no more changes
                log.exception(
                    "the server's response about %s cannot be read; all of them are listed again", self.kind.plural
                )
                self._version = ""
                failures += 1
            if failures and failures % _PATIENCE == 0:
                self._version = ""
            if failures:
                await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1])

    async def list_again(self) -> None:
        """List all objects once more while the watch continues. Report each difference between the list and the cache
        as a change. Raises ApiError."""
        listed, version = set[str](), 0
        async for page in self._connection.pages(self.kind, self._namespace, **self._selectors):
            version = int(page["metadata"]["resourceVersion"])
            for obj in self._objects_of(page):
                listed.add(key_of(obj))
                self.observe(obj)
        for key, obj in list(self.objects.items()):
            if key not in listed and version_of(obj) <= version:
                self._remove(key, obj, version)

    # --- internal -------------------------------------------------------------------------------------------------

    def _refused(self, error: ApiRefusal) -> bool:
        """Handle a refused list or watch. Return whether to pause before the next attempt."""
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
        """Log why the kind cannot be watched (`cause`), unless the last logged cause was the same. Otherwise a refused
        watch, which is retried every few seconds, would fill the log."""
        if cause != self._cause:
            log.warning("%s cannot be watched; the watch is retried: %s", self.kind.plural, cause)
            self._cause = cause

    async def _list(self) -> None:
        self._listed = {}
        try:
            async for page in self._connection.pages(self.kind, self._namespace, **self._selectors):
                self._take_page(page)  # page by page, so that only the kept fields stay in memory
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
        """Finish a list: remove the cached objects that it did not contain."""
        version, listed, self._listed = int(self._version), self._listed or {}, None
        if version < self._highest:
            self._turn_back(listed)
        for key in [key for key, obj in self.objects.items() if key not in listed and version_of(obj) <= version]:
            self._remove(key, self.objects[key], version)
        self._highest = version
        self._connection.tally.filled(self.kind.path(self._namespace))
        self.synced.set()

    def _turn_back(self, listed: dict[str, Object]) -> None:
        """Replace the cache by the list. The caller calls this method if the server was restored from a backup, so that
        the server's resource versions are lower than the cached ones."""
        log.warning("the server's %s are older than those it sent before; all of them are replaced", self.kind.plural)
        for key, known in list(self.objects.items()):
            self._remove(key, known, 0)
        self._deleted.clear()
        for obj in listed.values():
            self.observe(obj)

    async def _watch(self) -> int:
        """Process the events of one watch until it ends, and return their number."""
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
        if self._listed is not None:  # the server ignored sendInitialEvents
            self._connection.lists_by_watch = False
        return told

    def take(self, line: bytes) -> None:
        """Process a line of the watch. Raises ApiRefusal or ApiUnknown if the line reports the end of the watch."""
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
                    if self._listed is not None:  # with an old etcd, each watch that begins with all objects fails
                        self._connection.lists_by_watch = False
                    raise ApiUnknown(obj.get("message") or "the watch broke")
                raise ApiRefusal(obj.get("code", 0), obj.get("reason", ""), obj.get("message", ""))
            case _:  # a bookmark, which contains only a resource version
                if self._listed is not None and _INITIAL in (obj["metadata"].get("annotations") or {}):
                    self._version = obj["metadata"]["resourceVersion"]
                    self._complete()
        if self._listed is None:  # until the list is complete, a broken watch must start again from the beginning
            self._version = obj["metadata"]["resourceVersion"]
            self._highest = max(self._highest, int(self._version))

    def _remove(self, key: str, last: Object, version: int) -> None:
        del self.objects[key]
        self._deleted[last["metadata"]["uid"]] = version
        if len(self._deleted) > 100_000:  # no late response is expected about the oldest 50,000 deletions
            for uid in list(self._deleted)[:50_000]:
                del self._deleted[uid]
        self._tell(Change(kind=self.kind, old=last, new=None))

    def _tell(self, change: Change) -> None:
        for subscriber in self._subscribers:
            self._tell_one(subscriber, change)

    def _tell_one(self, subscriber: Subscriber, change: Change) -> None:
        """Report a change to one subscriber. If the subscriber raises an exception, log it, so that it stops neither
        the watch nor other subscribers."""
        try:
            subscriber(change)
        except Exception:  # a bug in the subscriber
            obj = change.new or change.old
            key = "" if obj is None else key_of(obj)
            log.exception(
                "%s %s: a subscriber failed on a change, and continues without this change", self.kind.name, key
            )
