"""Definitions of other schedulers, by the dialects that are on: from their objects to queues of our tree.

A change marks its dialect; all definitions of a marked dialect are read anew, once for however many changes came, and
the core is told what differs. Gangs that a dialect has a claim on are looked at again then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import Kind
from phalanx.dialects.frame import READ_BACK, Claim, Definitions, Dialect, Said
from phalanx.kube.read.queue import QueueCache
from phalanx.model.event import Event

log = logging.getLogger(__name__)

_NOTHING: Mapping[str, str] = {}


class DialectWatch:
    """The definitions of other schedulers, and what they say of gangs. `defined`: by dialect, its definitions as they
    were last read. `claimed`: gang -> its dialect; of those that are `silent` nothing is answered. `written`:
    annotations that we write. `objects`: the caches of a dialect's kinds, those that are served. `note`: called with
    what of an object has no effect. `news`: called when somebody wrote an object that a dialect answers on, and that is
    about no gang yet."""

    def __init__(
        self,
        dialects: Iterable[Dialect[Any]],
        queues: QueueCache,
        *,
        objects: Callable[[Kind], Mapping[str, Object] | None],
        mark: Callable[[str], None],
        note: Callable[[Kind, Object, str], None] = lambda kind, obj, text: None,
    ) -> None:
        self.dialects = {dialect.name: dialect for dialect in dialects}
        self.defined: dict[str, Definitions] = {}
        self.claimed: dict[str, str] = {}
        self.silent: set[str] = set()
        self.written: set[str] = set()
        self._queues, self._objects, self._mark, self._note = queues, objects, mark, note
        self.news: Callable[[], None] = lambda: None
        self._stale = dict.fromkeys(self.dialects)
        both = (kind for each in self.dialects.values() for kind in (*each.definition_kinds, *each.answer_kinds))
        self.kinds = tuple(dict.fromkeys(both))

    def on_change(self, change: Change) -> bool:
        """Return whether it matters: a status that we wrote ourselves does not."""
        for name, dialect in self.dialects.items():
            read_back = _read_back(change.old) != _read_back(change.new)
            if _is_answer(dialect, change) and (read_back or self._differs(change, False)):
                self._on_answer(dialect, change)
            if change.kind in dialect.definition_kinds and self._differs(change, change.kind in dialect.by_status):
                self._stale[name] = None
                self.tell_unused(name, change.kind, change.new)
        return bool(self._stale)

    def _differs(self, change: Change, by_status: bool) -> bool:
        if change.old is None or change.new is None:
            return True
        return self._said(change.old, by_status) != self._said(change.new, by_status)

    def _said(self, obj: Object, by_status: bool) -> Object:
        meta = obj["metadata"]
        rest = {key: value for key, value in obj.items() if key != "metadata" and (by_status or key != "status")}
        notes = {key: text for key, text in (meta.get("annotations") or {}).items() if key not in self.written}
        going = "deletionTimestamp" in meta
        return {**rest, "labels": meta.get("labels"), "annotations": notes, "going": going, "uid": meta["uid"]}

    def _on_answer(self, dialect: Dialect[Any], change: Change) -> None:
        about = dialect.gang_of(change.new or change.old or {})
        if about in self.claimed:
            self._mark(about)
        else:
            self.news()
        self.tell_unused(dialect.name, change.kind, change.new)

    def tell_unused(self, dialect: str, kind: Kind, obj: Object | None) -> None:
        """Say on the object what of it has no effect."""
        for text in self.dialects[dialect].notes(kind.name, obj) if obj is not None else ():
            self._note(kind, obj or {}, text)

    @property
    def stale(self) -> bool:
        """Return whether definitions changed since they were read."""
        return bool(self._stale)

    def events(self) -> Iterable[Event]:
        """Yield what differs since the last call; gangs that it may concern are marked."""
        stale, self._stale = self._stale, {}
        for name in stale:
            dialect = self.dialects[name]
            found = {kind: self._objects(kind) for kind in dialect.definition_kinds}
            try:
                defined = dialect.define({kind: each for kind, each in found.items() if each is not None})
            except Exception:  # whatever stands in them, nobody else's jobs wait for it
                log.exception("the definitions of %s stay as they were: they cannot be read", name)
                continue
            self.defined[name] = defined
            yield from self._queues.on_definitions(name, self.defined[name])
            for gang in [gang for gang, of in self.claimed.items() if of == name]:
                self._mark(gang)

    def words(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        """Return what the object says in words of the dialects, in ours."""
        for dialect in self.dialects.values():
            if found := dialect.words(kind, meta, scheduler):
                return found
        return _NOTHING

    def claim(self, said: Said) -> Claim | None:
        """Return what the definitions of a dialect say of a gang; None: it is of none."""
        if "/" not in said.queue:
            return None  # a queue of ours; those that a dialect names carry its kind
        for name, dialect in self.dialects.items():
            if name not in self.defined:
                continue
            found_of = {kind: self._objects(kind) for kind in dialect.answer_kinds}
            objects = {kind: found for kind, found in found_of.items() if found is not None}
            if (claim := dialect.claim(self.defined[name], said, objects)) is not None:
                self.claimed[said.gang] = name
                (self.silent.add if claim.silent else self.silent.discard)(said.gang)
                return claim
        return None

    def forget(self, gang: str) -> None:
        """The gang is no more."""
        self.claimed.pop(gang, None)
        self.silent.discard(gang)


def _is_answer(dialect: Dialect[Any], change: Change) -> bool:
    return change.kind in dialect.answer_kinds and change.kind not in dialect.definition_kinds


def _read_back(obj: Object | None) -> list[Any]:
    status = (obj or {}).get("status") or {}
    return [status.get(key) for key in READ_BACK]
