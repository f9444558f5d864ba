"""The watches, and the events that each gets.

The store calls `Hub.publish` with the events of every commit. The bytes of an event are appended to the buffer of each
watch that selects it. The bytes are created once for each representation (JSON of a version, Table …) and shared. A
slow client fills only its own buffer, and is disconnected when the buffer exceeds its limit; it then lists and watches
again, as every client must be able to. No other client waits for it.

With a selector, changes are translated for the watcher (k8s.io/apiserver/pkg/storage/cacher): an object that begins to
match is ADDED, and an object that no longer matches is DELETED, with its old content and the version of the change.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from phalanx.embedded.apimachinery.meta.selectors import Predicate
from phalanx.embedded.apiserver.storage.store import Event, Key, Store, Stored, encode

Object = dict[str, Any]

# A function that renders an object in one representation, and a name that watchers with the same representation share.
Render = Callable[[Stored], bytes]
# A function that encodes an event type and an object as a piece of a stream.
Frame = Callable[[str, bytes], bytes]
_PIECE_BYTES = 256 * 1024


class Watch:
    """A stream of events, from the moment that it is opened. `take` gives its bytes, None when it is over."""

    def __init__(
        self,
        *,
        namespace: str | None,
        matches: Predicate | None,
        look: object,
        render: Render,
        limit_bytes: int,
        frame: Frame,
        opening: Render | None = None,
    ) -> None:
        self._opening, self._frame = opening, frame
        self.namespace, self.matches, self.look, self.render = namespace, matches, look, render
        self._limit_bytes = limit_bytes
        self._buffer: deque[bytes] = deque()
        self.buffered_bytes = 0
        self._over = False
        self._wake: asyncio.Future[None] | None = None
        self.overrun = False
        self._initial: Iterator[bytes] = iter(())

    def begin(self, present: Iterable[Stored], past: Iterable[Event], last: Stored | None = None) -> None:
        """Queue the initial events of the watch: the existing objects, the events since a version, and the bookmark
        that ends them. They are rendered while the client reads, so that they need no buffer, even for 100,000 pods.
        """
        matching = (one for one in present if self.matches is None or self.matches(one.obj))
        lines = itertools.chain(
            (self._frame("ADDED", self._look_at(one)) for one in matching),
            (line for event in past if (line := self._seen(event)) is not None),
            (self.bookmark(one) for one in (last,) if one is not None),
        )
        first = next(lines, b"")  # now, so that the first line of the stream is the one with the opening
        self._initial = itertools.chain((first,), lines)

    def offer(self, event: Event) -> None:
        """Take in a committed event, if this watch is about its object."""
        if not self._over and (line := self._seen(event)) is not None:
            self.send(line)

    def _seen(self, event: Event) -> bytes | None:
        """Return the event as a line for this watch; None if the watch does not select it."""
        if self.namespace is not None and event.namespace != self.namespace:
            return None
        if self.matches is None:
            return self._line(event, event.type, event.new)
        old_matches = event.old is not None and self.matches(event.old.obj)
        if event.type != "DELETED" and self.matches(event.new.obj):
            return self._line(event, "MODIFIED" if old_matches else "ADDED", event.new)
        if event.old is not None and old_matches:
            last = event.new if event.type == "DELETED" else _as_of(event.old, event.new.version)
            return self._line(event, "DELETED", last)
        return None

    def _look_at(self, stored: Stored) -> bytes:
        """Return an object as this watch renders it. The first object is rendered by the opening function, if there is
        one."""
        if self._opening is None:
            return self.render(stored)
        opening, self._opening = self._opening, None
        return opening(stored)

    def bookmark(self, stored: Stored) -> bytes:
        """Return the line with an empty object that says how far the watch has come."""
        return self._frame("BOOKMARK", self._look_at(stored))

    def _line(self, event: Event, kind: str, stored: Stored) -> bytes:
        if self._opening is not None:
            return self._frame(kind, self._look_at(stored))
        key = (kind, self.look)
        line = event.encoded.get(key)
        if line is None:
            line = event.encoded[key] = self._frame(kind, self.render(stored))
        return line

    def send(self, line: bytes) -> None:
        """Append a rendered line, unless the watch has ended. (After dropped events, a bookmark would tell the client
        that it has seen them.)"""
        if self._over:
            return
        self._buffer.append(line)
        self.buffered_bytes += len(line)
        if self.buffered_bytes > self._limit_bytes:
            self.overrun = True
            self._buffer.clear()
            self.buffered_bytes = 0
            self.end()
        self._notify()

    def end(self) -> None:
        """End the watch: no more events are added, but events in the buffer are still delivered."""
        self._over = True
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def take(self) -> bytes | None:
        """Return the initial events, in pieces, and then the events that have arrived, at least one line. Return None
        when the watch has ended."""
        if (piece := self._next_piece()) and not self.overrun:
            return piece
        while not self._buffer:
            if self._over:
                return None
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        joined = b"".join(self._buffer)
        self._buffer.clear()
        self.buffered_bytes = 0
        return joined

    def _next_piece(self) -> bytes:
        lines, size = [], 0
        for line in self._initial:
            lines.append(line)
            size += len(line)
            if size >= _PIECE_BYTES:
                break
        return b"".join(lines)


def line_of(kind: str, rendered: bytes) -> bytes:
    """Return one event of a stream."""
    return b'{"type":"' + kind.encode() + b'","object":' + rendered + b"}\n"


def _as_of(stored: Stored, version: int) -> Stored:
    """Return an old object with `version`, the version of the change by which it stopped matching."""
    obj = stored.obj | {"metadata": stored.obj["metadata"] | {"resourceVersion": str(version)}}
    return Stored(version, encode(obj), obj)


class Hub:
    """All watches of a server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # (kind, namespace) -> its watches; None: all namespaces.
        self._watches: dict[tuple[Key, str | None], dict[Watch, None]] = {}
        store.subscribe(self.publish)

    def publish(self, events: list[Event]) -> None:
        """Offer the events to the watches of their kind in their namespace or in all namespaces; other watches cost
        nothing."""
        for event in events:
            for namespace in (None, event.namespace):
                for watch in tuple(self._watches.get((event.key, namespace), ())):
                    watch.offer(event)

    def open(self, key: Key, watch: Watch) -> None:
        self._watches.setdefault((key, watch.namespace), {})[watch] = None

    def close(self, key: Key, watch: Watch) -> None:
        watches = self._watches.get((key, watch.namespace), {})
        watches.pop(watch, None)
        if not watches:
            self._watches.pop((key, watch.namespace), None)
        watch.end()

    def end_all(self, key: Key | None = None) -> None:
        """End all streams, or those of one kind: because the server stops, or because the kind is no longer served."""
        for (one, _), watches in tuple(self._watches.items()):
            if key is None or one == key:
                for watch in tuple(watches):
                    watch.end()

    def buffered_bytes(self) -> int:
        """Return the number of bytes that clients have not read yet."""
        return sum(watch.buffered_bytes for watches in self._watches.values() for watch in watches)

    def count(self) -> int:
        return sum(map(len, self._watches.values()))
