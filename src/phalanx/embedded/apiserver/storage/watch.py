"""The watches of clients, and the delivery of events to them.

The store calls `Hub.publish` with the events of every commit. The hub appends the bytes of an event to the buffer of
each watch that selects its object. These bytes are created once for each representation (JSON of one version, Table,
...), and all watches with this representation share them. A slow client fills only its own buffer. When the buffer
exceeds its limit, the server disconnects the client, which then must list and watch again; every Kubernetes client can
do so. No other client waits for a slow one.

A watch with a selector gets translated events, as in k8s.io/apiserver/pkg/storage/cacher. An object that begins to
match is reported as ADDED. An object that no longer matches is reported as DELETED, with its old content and the
version of the change.
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

# A function that renders an object in one representation.
Render = Callable[[Stored], bytes]
# A function that encodes an event type and a rendered object as one piece of a stream.
Frame = Callable[[str, bytes], bytes]
_PIECE_BYTES = 256 * 1024


class Watch:
    """A stream of events, which begins at the moment when the watch is opened. `take` returns its bytes, and None when
    the watch has ended."""

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
        that ends them. These events are rendered while the client reads them, so that they need no buffer, even for
        100,000 pods.
        """
        matching = (one for one in present if self.matches is None or self.matches(one.obj))
        lines = itertools.chain(
            (self._frame("ADDED", self._look_at(one)) for one in matching),
            (line for event in past if (line := self._seen(event)) is not None),
            (self.bookmark(one) for one in (last,) if one is not None),
        )
        first = next(lines, b"")  # render this line now, so that `opening` renders the first line of the stream
        self._initial = itertools.chain((first,), lines)

    def offer(self, event: Event) -> None:
        """Add a committed event to the buffer if the watch selects its object."""
        if not self._over and (line := self._seen(event)) is not None:
            self.send(line)

    def _seen(self, event: Event) -> bytes | None:
        """Return the event as a line of this watch; None if the watch does not select the object."""
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
        """Return an object as this watch renders it. The function `opening`, if there is one, renders the first
        object."""
        if self._opening is None:
            return self.render(stored)
        opening, self._opening = self._opening, None
        return opening(stored)

    def bookmark(self, stored: Stored) -> bytes:
        """Return the line of a bookmark. Its object is empty except for a version: the watch has delivered all events
        up to this version."""
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
        """Append a rendered line, unless the watch has ended. (If the watch has dropped events, a bookmark would
        wrongly confirm to the client that it has received them.)"""
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
        """End the watch: it gets no more events, but the client can still read the events in the buffer."""
        self._over = True
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def take(self) -> bytes | None:
        """Wait for events. The first calls return the initial events, in pieces. Every later call returns all events
        that have arrived since the last call, at least one. Return None when the watch has ended."""
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
    """Return one event of a stream as a line of JSON."""
    return b'{"type":"' + kind.encode() + b'","object":' + rendered + b"}\n"


def _as_of(stored: Stored, version: int) -> Stored:
    """Return an old object with another resourceVersion. `version`: the version of the change after which the object
    does not match the selector any more."""
    obj = stored.obj | {"metadata": stored.obj["metadata"] | {"resourceVersion": str(version)}}
    return Stored(version, encode(obj), obj)


class Hub:
    """All watches of a server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # (kind, namespace) -> the watches of this kind in this namespace; the namespace None stands for all namespaces.
        self._watches: dict[tuple[Key, str | None], dict[Watch, None]] = {}
        store.subscribe(self.publish)

    def publish(self, events: list[Event]) -> None:
        """Offer each event to the watches of its kind in its namespace and in all namespaces. Other watches are not
        visited, so they cost no time."""
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
        """End all streams because the server stops, or the streams of one kind because the kind is no longer served."""
        for (one, _), watches in tuple(self._watches.items()):
            if key is None or one == key:
                for watch in tuple(watches):
                    watch.end()

    def buffered_bytes(self) -> int:
        """Return the number of bytes in the buffers, which clients have not read yet."""
        return sum(watch.buffered_bytes for watches in self._watches.values() for watch in watches)

    def count(self) -> int:
        return sum(map(len, self._watches.values()))
