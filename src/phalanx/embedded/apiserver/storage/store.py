"""The store of all objects. Readers read the objects from memory. A write is on the disk before the server responds to
its writer.

The store keeps every live object both decoded and as JSON bytes. Responses to GET and LIST and the events of watches
are built by joining these bytes. Code on the event loop checks each write against the *head* of its object, and accepts
or refuses it. The head is the newest state, which includes accepted writes that are not on the disk yet. So a write
whose resourceVersion is outdated is always refused, while readers see only writes that are on the disk.

Writes are committed in groups: a writer thread stores the writes of one iteration of the event loop in one transaction.
Writes that are accepted during a commit form the next transaction. After a commit the store makes the committed writes
visible in the order of their versions, and passes their events to the subscribers. Then it reports success to the
writers.

If a commit fails (disk full, I/O error), its writes fail, and so do later writes to the same objects. Writes whose
success was already reported are not affected. The next write tries the disk again. On a full disk the store accepts
only writes that lead to a deletion. It uses reserved space for them (`reserve`). All other writes are refused until the
disk has free space again. Meanwhile the store keeps no history, so that a deletion frees more space than its record
needs. Clients that resume a watch must then list again. The versions of failed writes are not used again while the
server runs. The gaps in the sequence of versions do no harm.

The history (a sequence of `Past`, oldest first) is stored as bytes, and `Retention` limits it. The history serves
watches that resume, and snapshots. To compute a snapshot at an earlier version, the store undoes the later events on
the present state."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from phalanx.embedded.apimachinery.limits import OBJECT_BYTES
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.storage.acknowledged import SYNC_S
from phalanx.embedded.apiserver.storage.journal import DELETE, PUT, Journal, JournalRow, Prune
from phalanx.embedded.apiserver.storage.reserve import FULL, SIZE_BYTES, Reserve, storage_refusal
from phalanx.embedded.apiserver.storage.settings import Retention
from phalanx.embedded.apiserver.storage.tally import StoreTally

Object = dict[str, Any]
Key = tuple[str, str]  # (group, plural): all versions of a kind share one table
Place = tuple[Key, str, str]  # the kind, namespace and name of an object

_NEARLY_FULL = f"less than {2 * SIZE_BYTES // 2**20} MiB are free on a disk that is nearly full"
_LEASES: Key = ("coordination.k8s.io", "leases")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Stored:
    """A revision of an object, which is never changed. `obj`: the decoded object, which all readers share and must not
    edit. `partial`: the object as rendered for lists of partial objects, which programs request again and again; empty
    until the first such request."""

    __slots__ = ("_obj", "data", "partial", "version")

    def __init__(self, version: int, data: bytes, obj: Object | None = None) -> None:
        self.version, self.data, self._obj, self.partial = version, data, obj, b""

    @property
    def obj(self) -> Object:
        if self._obj is None:
            found: Object = decode(self.data)
            self._obj = found
        return self._obj


class Event:
    """A committed change. `new`: the object after the change; for a DELETED event, its last state with the version of
    the deletion.

    Watches share the encoded forms of an event (`encoded`), so that each form is encoded once for any number of
    watches.
    """

    __slots__ = ("encoded", "key", "name", "namespace", "new", "old", "type")

    def __init__(self, type: str, key: Key, namespace: str, name: str, new: Stored, old: Stored | None) -> None:
        self.type, self.key, self.namespace, self.name, self.new, self.old = type, key, namespace, name, new, old
        self.encoded: dict[object, bytes] = {}


class Past(NamedTuple):
    """An event of the history, for watches that resume. `old_data`: the object before the change. It is the same bytes
    object as the `data` of the earlier event."""

    version: int
    at_s: float
    type: str
    key: Key
    namespace: str
    name: str
    data: bytes
    old_version: int
    old_data: bytes | None

    def event(self) -> Event:
        old = None if self.old_data is None else Stored(self.old_version, self.old_data)
        return Event(self.type, self.key, self.namespace, self.name, Stored(self.version, self.data), old)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A write that is not on the disk yet. `head`: the object after the write. `base`: the head of the object before
    the write."""

    place: Place
    base: _Head | None
    head: _Head
    done: asyncio.Future[Stored]

    @property
    def frees_space(self) -> bool:
        """Return True if the store accepts the write on a full disk. It accepts writes that lead to a deletion, and
        renewals of Leases, because the programs that must delete objects need their leases."""
        gone = self.head.gone or "deletionTimestamp" in self.head.stored.obj["metadata"]
        return gone or self.place[0] == _LEASES

    @property
    def before(self) -> bytes | None:
        return None if self.base is None else self.base.data

    @property
    def after(self) -> bytes | None:
        return self.head.data


@dataclass(frozen=True, slots=True)
class _Head:
    """The newest revision of an object, whether it is on the disk already or not. `gone`: True if this revision is the
    deletion of the object."""

    stored: Stored
    gone: bool

    @property
    def data(self) -> bytes | None:
        return None if self.gone else self.stored.data


class Store:
    """All objects of one server. All methods must be called on the event loop, after `open` and before `close`."""

    def __init__(self, journal: Journal, retention: Retention) -> None:
        self._journal, self._retention = journal, retention
        self._reserve = Reserve(journal.path.with_suffix(".reserve"))
        # The error for writes that free no space, because the disk is full; None if the disk has space.
        self._short = None if self._reserve.held else storage_refusal(sqlite3.OperationalError(_NEARLY_FULL))
        self._tables: dict[Key, dict[str, dict[str, Stored]]] = {}
        self._order: dict[tuple[Key, str], list[str]] = {}
        self._past: deque[Past] = deque()
        self._past_bytes = 0
        self._heads: dict[Place, _Head] = {}
        self._queue: list[_Pending] = []
        self._committing = self._syncing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._subscribers: list[Callable[[list[Event]], None]] = []
        self.tally = StoreTally()
        self.horizon = journal.fact("horizon", 0)
        self.version = self.horizon
        self._load()
        self._next = self.version
        # rows that the next prune must delete, because the commit of an earlier prune failed
        self._leftover: list[int] = []

    def _load(self) -> None:
        newest: dict[Place, JournalRow] = {}
        for row in self._journal.rows():
            place = ((row.group, row.plural), row.namespace, row.name)
            if row.version > self.horizon:
                self._remember(_past(row, newest.get(place)))
            newest[place] = row
            self.version = max(self.version, row.version)
        for (key, namespace, name), row in newest.items():
            if row.operation == PUT:
                self._tables.setdefault(key, {}).setdefault(namespace, {})[name] = Stored(row.version, row.data)
                self.tally.change(key, namespace, None, row.data)

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, key: Key, namespace: str, name: str) -> Stored | None:
        """Return the committed object; None if it does not exist."""
        try:
            return self._tables[key][namespace].get(name)
        except KeyError:
            return None

    def head(self, key: Key, namespace: str, name: str) -> Stored | None:
        """Return the object in its newest state, even if that is not on the disk yet. The next write must be checked
        against this state."""
        head = self._heads.get((key, namespace, name))
        if head is not None:
            return None if head.gone else head.stored
        return self.get(key, namespace, name)

    def scan(self, key: Key, namespace: str | None = None) -> list[Stored]:
        """Return all committed objects of a kind, ordered by namespace and name."""
        tables = self._tables.get(key)
        if not tables or (namespace is not None and namespace not in tables):
            return []  # a shortcut: every write lists quotas and limit ranges, and most namespaces have none
        return [stored for _, _, stored in self.walk(key, namespace)]

    def decided(self, key: Key, namespace: str | None = None) -> Iterator[Stored]:
        """Yield all objects of a kind in their newest state (the heads), in no particular order. Checks that compare
        objects with each other (free addresses, quotas) need this state."""
        tables = self._tables.get(key, {})
        for space in [namespace] if namespace is not None else list(tables):
            for name, stored in tables.get(space, {}).items():
                if (key, space, name) not in self._heads:
                    yield stored
        for place, head in self._heads.items():
            if place[0] == key and not head.gone and namespace in (None, place[1]):
                yield head.stored

    def walk(self, key: Key, namespace: str | None = None) -> Iterator[tuple[str, str, Stored]]:
        """Yield (namespace, name, object) of the committed objects of a kind, in the order in which lists show them."""
        tables = self._tables.get(key, {})
        spaces = [namespace] if namespace is not None else sorted(tables, key=lambda one: one + "/")
        for space in spaces:
            table = tables.get(space)
            if table:
                yield from ((space, name, table[name]) for name in self._ordered(key, space, table))

    def _ordered(self, key: Key, namespace: str, table: dict[str, Stored]) -> list[str]:
        order = self._order.get((key, namespace))
        if order is None:
            order = self._order[key, namespace] = sorted(table)
        return order

    def count(self, key: Key, namespace: str) -> int:
        return len(self._tables.get(key, {}).get(namespace, ()))

    def keys(self) -> list[Key]:
        """Return the kinds of which an object exists or has existed."""
        return list(self._tables)

    def snapshot(self, key: Key, namespace: str | None, version: int) -> list[tuple[str, str, Stored]]:
        """Return the objects of a kind as (namespace, name, object) at an earlier version. Raises `StatusError` 410 if
        the history does not reach back to `version`."""
        if version >= self.version:
            return list(self.walk(key, namespace))
        if version < self.horizon:
            raise expired("The resourceVersion for the provided list is too old.")
        state = {(space, name): stored for space, name, stored in self.walk(key, namespace)}
        for past in self._since(version, newest_first=True):
            if past.key != key or (namespace is not None and past.namespace != namespace):
                continue
            if past.old_data is None:
                state.pop((past.namespace, past.name), None)
            else:
                state[past.namespace, past.name] = Stored(past.old_version, past.old_data)
        return [(*place, state[place]) for place in sorted(state, key=lambda one: (one[0] + "/", one[1]))]

    def events_since(self, version: int, key: Key) -> list[Event]:
        """Return the events of a kind after `version`. Raises `StatusError` 410 if the history does not reach back to
        `version`."""
        if version < self.horizon:
            raise expired(f"too old resource version: {version} ({self.horizon})")
        return [past.event() for past in self._since(version) if past.key == key]

    def _since(self, version: int, *, newest_first: bool = False) -> Iterable[Past]:
        start = bisect_right(self._past, version, key=lambda past: past.version)
        numbers = range(len(self._past) - 1, start - 1, -1) if newest_first else range(start, len(self._past))
        # access to the middle of a deque is slow, so copy the deque if the tail is long
        if len(numbers) > len(self._past) // 2:
            copy = list(self._past)
            return (copy[number] for number in numbers)
        return (self._past[number] for number in numbers)

    def subscribe(self, receive: Callable[[list[Event]], None]) -> None:
        """Call `receive` with the events of every commit from now on, in order, before the writers get their
        responses."""
        self._subscribers.append(receive)

    # --- writing -------------------------------------------------------------------------------------------------

    def put(self, key: Key, namespace: str, name: str, obj: Object) -> asyncio.Future[Stored]:
        """Store `obj`, and set its resourceVersion. Return a future that gets the stored revision as soon as this is on
        the disk. The store takes over `obj`: the caller must not change it any more. The caller must have checked the
        head in the same step of the event loop. Raises `StatusError` 413 for an object that is too large."""
        version = self._take_version(obj)
        data = encode(obj)
        if len(data) > OBJECT_BYTES:
            raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {OBJECT_BYTES}")
        return self._submit((key, namespace, name), _Head(Stored(version, data, obj), gone=False))

    def require_fits(self, obj: Object) -> None:
        """Check the size of an object. Raises `StatusError` 413 if `put` would refuse the object."""
        # the version that `put` will set is not known yet, so count one digit more than the next version has
        version = {**obj["metadata"], "resourceVersion": str(10 * self._next)}
        if len(encode({**obj, "metadata": version})) > OBJECT_BYTES:
            raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {OBJECT_BYTES}")

    def delete(self, key: Key, namespace: str, name: str, last: Object) -> asyncio.Future[Stored]:
        """Remove an object. `last`: its last state, which the DELETED event shows."""
        version = self._take_version(last)
        return self._submit((key, namespace, name), _Head(Stored(version, encode(last), last), gone=True))

    def _take_version(self, obj: Object) -> int:
        self._next += 1
        obj["metadata"]["resourceVersion"] = str(self._next)
        return self._next

    def _submit(self, place: Place, head: _Head) -> asyncio.Future[Stored]:
        base = self._heads.get(place)
        if base is None and (stored := self.get(*place)) is not None:
            base = _Head(stored, gone=False)
        done: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        pending = _Pending(place, base, head, done)
        if self._short is not None and not self._has_room(pending):
            done.set_exception(self._short)
            return done
        self._heads[place] = head
        self.tally.change(place[0], place[1], pending.before, pending.after)
        self._queue.append(pending)
        if not self._committing:
            self._committing = True
            self._idle.clear()
            asyncio.get_running_loop().call_soon(self._flush)
        return done

    def _has_room(self, pending: _Pending) -> bool:
        if self._reserve.regain() or self._journal.spare_bytes >= 2 * SIZE_BYTES:
            self._short = None
        return self._short is None or pending.frees_space

    def _flush(self) -> None:
        batch, self._queue = self._queue, []
        if not batch:
            self._committing = False
            self._idle.set()
            return
        now = time.time()
        rows, prune = self._frugal(batch, now) if self._short else ([_row(one, now) for one in batch], self._trim(now))
        if prune is not None:
            self._leftover.extend(prune.versions)
            prune = Prune(versions=tuple(self._leftover), horizon=prune.horizon)
        loop, short = asyncio.get_running_loop(), self._short is not None

        def run() -> None:
            error: Exception | None = None
            try:
                self._journal.commit(rows, prune)
                if short:
                    self._journal.checkpoint()
            except Exception as caught:  # whatever the error is, the waiting writers must get it
                error = caught
            loop.call_soon_threadsafe(self._settle, batch, now, error, prune is not None)

        self._thread.submit(run)

    def _frugal(self, batch: list[_Pending], now: float) -> tuple[list[JournalRow], Prune]:
        """Return the rows to write and to delete on a full disk. The store keeps no history then: a write deletes the
        rows that it replaces, and a deletion leaves no row."""
        old = [one.base.stored.version for one in batch if one.base is not None and not one.base.gone]
        for past in self._past:
            old += [past.old_version] if past.type != "DELETED" else [past.old_version, past.version]
        self._past.clear()
        self._past_bytes = 0
        self.horizon = batch[-1].head.stored.version
        gone = set(old)
        stay = (one for one in batch if not one.head.gone and one.head.stored.version not in gone)
        return [_row(one, now) for one in stay], Prune(versions=old, horizon=self.horizon)

    def _settle(self, batch: list[_Pending], at_s: float, error: Exception | None, pruned: bool) -> None:
        if error is None:
            if pruned:
                self._leftover = []
            self._sync_soon()
            self._publish(batch, at_s)
        else:
            self._fail(batch, error)
        self._flush()

    def _sync_soon(self) -> None:
        """Sync the records of acknowledged writes to the disk within a second, so that they survive a power cut."""
        if not self._syncing:
            self._syncing = True
            asyncio.get_running_loop().call_later(SYNC_S, self._sync)

    def _sync(self) -> None:
        self._syncing = False
        with contextlib.suppress(RuntimeError):  # raised if the thread has ended; it syncs the file when it ends
            self._thread.submit(self._journal.sync)

    def _publish(self, batch: list[_Pending], at_s: float) -> None:
        events = [self._apply(one) for one in batch]
        self.version = events[-1].new.version
        for event in events:
            old = event.old
            self._remember(
                Past(
                    event.new.version, at_s, event.type, event.key, event.namespace, event.name, event.new.data,
                    old.version if old else 0, old.data if old else None,
                )
            )  # fmt: skip
        for receive in self._subscribers:
            receive(events)
        for one in batch:
            if not one.done.done():  # the client may have disconnected; its write is committed all the same
                one.done.set_result(one.head.stored)

    def _apply(self, one: _Pending) -> Event:
        key, namespace, name = one.place
        table = self._tables.setdefault(key, {}).setdefault(namespace, {})
        old = table.get(name)
        if one.head.gone:
            table.pop(name, None)
            if not table:
                del self._tables[key][namespace]
        else:
            table[name] = one.head.stored
        if one.head.gone or old is None:
            self._order.pop((key, namespace), None)
        if self._heads.get(one.place) is one.head:
            del self._heads[one.place]
        kind = "DELETED" if one.head.gone else "MODIFIED" if old is not None else "ADDED"
        return Event(kind, key, namespace, name, one.head.stored, old)

    def _fail(self, batch: list[_Pending], error: Exception) -> None:
        """Undo the failed writes, and the later writes to the same objects."""
        self.horizon = min(self.horizon, self.version)
        refusal, again = storage_refusal(error), list[_Pending]()
        if refusal.code == FULL and (self._reserve.spend() or self._short is None):
            self._short, self._journal.spare_bytes = refusal, 0
            # Wait for this, although it blocks for some tenths of a second. Other programs might use the space
            # otherwise.
            self._thread.submit(self._journal.hold_room).result()
            again = [one for one in batch if one.frees_space]
            batch = [one for one in batch if not one.frees_space]
        lost = {id(one.head) for one in batch}
        kept: list[_Pending] = []
        for one in [*again, *self._queue]:
            if one.base is not None and id(one.base) in lost:
                lost.add(id(one.head))
                batch.append(one)
            else:
                kept.append(one)
        self._queue = kept
        for one in batch:
            self.tally.change(one.place[0], one.place[1], one.after, one.before)
            if id(self._heads.get(one.place)) in lost:
                del self._heads[one.place]
            if not one.done.done():
                one.done.set_exception(refusal)
                one.done.exception()  # asyncio must not log the error as unhandled if the writer has disconnected

    # --- the history ---------------------------------------------------------------------------------------------

    def _remember(self, past: Past) -> None:
        self._past.append(past)
        self._past_bytes += len(past.data)

    def _trim(self, now_s: float) -> Prune | None:
        """Drop the events of the history that exceed its limits. Return the database rows that are no longer needed;
        None if all rows are needed."""
        limit, versions, horizon = self._retention, [], 0
        while self._past and (
            len(self._past) > limit.events
            or self._past_bytes > limit.size_bytes
            or now_s - self._past[0].at_s > limit.age_s
        ):
            gone = self._past.popleft()
            self._past_bytes -= len(gone.data)
            horizon = gone.version
            if gone.old_version:
                versions.append(gone.old_version)
            if gone.type == "DELETED":
                versions.append(gone.version)
        if not horizon:
            return None
        self.horizon = horizon
        return Prune(versions=versions, horizon=horizon)

    def forget_past(self) -> None:
        """Begin the history at the present version. So no watch can resume from a version at which the server had not
        created all objects of a new cluster. The call blocks, so only the start of the server may use it."""
        self._past.clear()
        self._past_bytes = 0
        self.horizon = self.version
        self._journal.commit([], Prune(versions=(), horizon=self.horizon))

    async def drain(self) -> None:
        """Wait until no write is being committed."""
        await self._idle.wait()

    async def close(self) -> None:
        await self.drain()
        self._thread.shutdown(wait=True)
        self._journal.close()


def _row(one: _Pending, at_s: float) -> JournalRow:
    (group, plural), namespace, name = one.place
    stored, base = one.head.stored, one.base
    previous = base.stored.version if base is not None and not base.gone else 0
    operation = DELETE if one.head.gone else PUT
    return JournalRow(stored.version, previous, operation, at_s, group, plural, namespace, name, stored.data)


def _past(row: JournalRow, before: JournalRow | None) -> Past:
    live = before is not None and before.operation == PUT
    kind = "DELETED" if row.operation == DELETE else "MODIFIED" if live else "ADDED"
    return Past(
        row.version, row.at_s, kind, (row.group, row.plural), row.namespace, row.name, row.data,
        before.version if before is not None and live else 0, before.data if before is not None and live else None,
    )  # fmt: skip


def expired(message: str) -> StatusError:
    """Return the error 410: the requested version is older than the history, so the client must list again."""
    return StatusError(410, "Expired", message)
