"""Translate the definitions of other schedulers (such as their queues) into queues of Phalanx, for the dialects that
are enabled. A *dialect* is the part of Phalanx that reads the objects of one other scheduler. A *claim* is the set of
settings that a dialect declares for a gang.

When a definition changes, its dialect is marked as changed. All definitions of this dialect are then read again, once
for all changes that arrived together, and the core gets events about the differences. After that, the gangs for which
the dialect has declared a claim are reconciled. `definition_reader` reads the definitions, `definition_overlay` applies
them to nodes and pods, and `dialect_claims` stores the claims on gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.dialects.frame.dialect import (
    READ_BACK,
    Claim,
    Definitions,
    Dialect,
    Said,
)
from phalanx.kube.capacity.definition_overlay import DefinitionOverlay
from phalanx.kube.capacity.definition_reader import DefinitionReader
from phalanx.kube.capacity.dialect_claims import DialectClaims
from phalanx.kube.read.queue import QueueCache
from phalanx.model.event import Event, NodeGroupGone, NodeGroupSeen, TopologiesSeen
from phalanx.model.node import NodeGroup

_NOTHING: Mapping[str, str] = {}
_NONE = Definitions()
_KINDS = {"Pod": PODS, "Job": JOBS}
DIALECT = "dialect"  # an option that only Phalanx sets: the name of the object's dialect


class DialectWatch:
    """The definitions of other schedulers, and their claims on gangs. `defined`: a map from a dialect to its
    definitions, as they were last read. `stale`: the dialects whose definitions changed since then. `written`: the
    annotations that Phalanx writes. `objects`: a function that returns the cached objects of a kind, or None if the API
    server does not serve the kind. The other parameters, up to `tell`, are functions. `note`: called with the settings
    of an object that have no effect. `invalid`: called with a definition that cannot be read. `news`: called when a
    user writes an object whose status the dialect reports, but which belongs to no gang yet. `places_changed`: called
    when the topology labels that definitions give to nodes change, or when the reserved parts of nodes change.
    `pods_changed`: called with a `Change` for each stand-in and each pod that the core sees differently because of new
    definitions. `tell`: passes events about claimed queues to the core."""

    def __init__(
        self,
        dialects: Iterable[Dialect[Any]],
        queues: QueueCache,
        *,
        objects: Callable[[Kind], Mapping[str, Object] | None],
        mark: Callable[[str], None],
        clock: Callable[[], float] = lambda: 0.0,
        note: Callable[[Kind, Object, str], None] = lambda kind, obj, text: None,
        invalid: Callable[[Kind, Object, str], None] = lambda kind, obj, text: None,
        tell: Callable[[tuple[Event, ...]], None] = lambda events: None,
    ) -> None:
        self.dialects = {dialect.name: dialect for dialect in dialects}
        self.defined: dict[str, Definitions] = {}
        self.claims, self.overlay = DialectClaims(), DefinitionOverlay(self.defined, objects, clock)
        self.written: set[str] = set()
        self._queues, self._objects, self._mark, self._note, self._clock = queues, objects, mark, note, clock
        self._tell, self._invalid = tell, invalid
        self.news: Callable[[], None] = lambda: None
        self.places_changed: Callable[[], None] = lambda: None
        self.pods_changed: Callable[[Iterable[Change]], None] = lambda changes: None
        self.stale = dict.fromkeys(self.dialects)
        self._reader = DefinitionReader(objects, invalid)
        both = (kind for each in self.dialects.values() for kind in (*each.definition_kinds, *each.answer_kinds))
        self.kinds = tuple(dict.fromkeys(both))

    def on_change(self, change: Change) -> bool:
        """Mark each dialect whose definitions (such as its queues) may be affected by this change. Return True if any
        dialect is marked. A change of an object's status is ignored, unless the dialect reads the changed field
        (`Dialect.by_status`)."""
        for name, dialect in self.dialects.items():
            if _is_answer(dialect, change):
                self._on_answer(dialect, change)
            counting = dialect.by_status.get(change.kind, ())
            if change.kind in dialect.definition_kinds and self._differs(change, counting):
                self.stale[name] = None
                if (about := dialect.gang_of(change.new or change.old or {})) in self.claims.claimed:
                    self._mark(about)
                self.tell_unused(name, change.kind, change.new)
        return bool(self.stale)

    def _differs(self, change: Change, by_status: tuple[str, ...] = ()) -> bool:
        if change.old is None or change.new is None:
            return True
        return self._said(change.old, by_status) != self._said(change.new, by_status)

    def _said(self, obj: Object, by_status: tuple[str, ...]) -> Object:
        meta, status = obj["metadata"], obj.get("status") or {}
        rest = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
        notes = {key: text for key, text in (meta.get("annotations") or {}).items() if key not in self.written}
        told = {key: status.get(key) for key in by_status}
        going = "deletionTimestamp" in meta
        seen = {"labels": meta.get("labels"), "annotations": notes, "going": going, "uid": meta["uid"]}
        return {**rest, **seen, "status": told}

    def _on_answer(self, dialect: Dialect[Any], change: Change) -> None:
        rewritten = self._differs(change)
        if not rewritten and _read_back(change.old) == _read_back(change.new):
            return
        about = dialect.gang_of(change.new or change.old or {})
        also = self.claims.about(change.kind, key_of(change.new or change.old or {}))
        is_claimed = about in self.claims.claimed
        for gang in (*((about,) if is_claimed else ()), *also):
            self._mark(gang)
        if not is_claimed and not also:
            self.news()
        if rewritten:
            self.tell_unused(dialect.name, change.kind, change.new)

    def tell_unused(self, dialect: str, kind: Kind, obj: Object | None) -> None:
        """Record an Event on the object for each of its settings that has no effect."""
        for text in self.dialects[dialect].notes(kind.name, obj) if obj is not None else ():
            self._note(kind, obj or {}, text)

    def events(self) -> Iterable[Event]:
        """Yield the core's events about definitions of dialects (such as queues) that have changed since the last call.
        Mark the gangs that these changes may affect, so that they are reconciled."""
        stale, self.stale = self.stale, {}
        for name in stale:
            if (defined := self._reader.read(self.dialects[name])) is None:
                continue
            before = self.defined.get(name, _NONE)
            if defined.fault and self._is_kept(before, defined):
                continue
            self.defined[name] = defined
            if defined == before:  # a change without effect, such as a new namespace
                continue
            yield from self._queues.on_definitions(name, defined, self._clock())
            yield from _group_events(before.node_groups, defined.node_groups)
            if defined.topologies != before.topologies:
                yield TopologiesSeen(tuple(one for each in self.defined.values() for one in each.topologies))
            self.overlay.refresh()
            if defined.topology_key() != before.topology_key() or defined.parts != before.parts:
                self.places_changed()
            self.pods_changed(list(self.overlay.changed_pods(name, before, defined)))
            for gang in self.claims.of(name):
                self._mark(gang)

    def on_demand(self) -> frozenset[str]:
        """Return the queues with a node group that grows when jobs need more nodes."""
        groups = (group for each in self.defined.values() for group in each.node_groups)
        return frozenset(group.on_demand.queue for group in groups if group.on_demand is not None)

    def _is_kept(self, before: Definitions, invalid: Definitions) -> bool:
        """Report why a dialect's new definitions (`invalid`) are not used: one of them has an error. Return True if the
        earlier definitions (`before`) were valid and stay in effect."""
        kept = before is not _NONE and not before.fault
        if invalid.fault_at is not None:
            kind, key = invalid.fault_at
            if (obj := (self._objects(kind) or {}).get(key)) is not None:
                stays = "the last valid version stays in effect" if kept else "its jobs wait with this reason"
                self._invalid(kind, obj, f"{invalid.fault}: {stays}")
        return kept

    def options_of(self, kind: str, meta: Mapping[str, object], scheduler: str = "") -> Mapping[str, str]:
        """Translate the settings of another scheduler on the object into Phalanx's options, and add the name of that
        scheduler's dialect. If the object has settings of several schedulers, use the dialect to which its scheduler
        name belongs, or else the first dialect."""
        found = {name: said for name, each in self.dialects.items() if (said := each.options_of(kind, meta, scheduler))}
        if not found:
            return _NOTHING
        matching = (name for name in found if scheduler in self.dialects[name].scheduler_names)
        name = next(matching, next(iter(found)))
        if len(found) > 1 and "uid" in meta:
            others = ", ".join(other for other in found if other != name)
            why = f"its scheduler is {scheduler}" if scheduler in self.dialects[name].scheduler_names else "it is first"
            text = (
                f"it has settings of several schedulers: those of {name} are used, because {why}; those of {others} "
                "have no effect"
            )
            self._note(_KINDS.get(kind, JOBS), {"metadata": meta}, text)
        return {**found[name], DIALECT: name}

    def claim(self, said: Said) -> Claim | None:
        """Return the settings that another scheduler's objects (a dialect's definitions) declare for a gang; None if no
        dialect claims the gang."""
        if not (DIALECT in said.options or "/" in said.queue or self._queues.of_dialect(said.queue)):
            return None  # the gang names neither a dialect nor a dialect's queue
        names = (said.options[DIALECT],) if DIALECT in said.options else tuple(self.dialects)
        for name in names:
            if name not in self.defined:
                continue
            kinds = self.dialects[name].answer_kinds
            objects = {kind: found for kind in kinds if (found := self._objects(kind)) is not None}
            if (claim := self.dialects[name].claim(self.defined[name], said, objects)) is not None:
                self.claims.note(said.gang, name, claim)
                self._tell(tuple(self._queues.on_claim(said.gang, claim.queues)))
                return claim
        return None

    def forget(self, gang: str) -> None:
        """Forget a gang that was deleted."""
        self.claims.forget(gang)
        self._tell(tuple(self._queues.on_claim(gang, ())))


def _is_answer(dialect: Dialect[Any], change: Change) -> bool:
    return change.kind in dialect.answer_kinds and change.kind not in dialect.definition_kinds


def _read_back(obj: Object | None) -> list[object]:
    status = (obj or {}).get("status") or {}
    return [status.get(key) for key in READ_BACK]


def _group_events(before: Iterable[NodeGroup], now: Iterable[NodeGroup]) -> Iterator[Event]:
    """Yield the events about the differences between the node groups `before` and `now`."""
    known, names = {group.name: group for group in before}, {group.name for group in now}
    yield from (NodeGroupGone(name) for name in known if name not in names)
    yield from (NodeGroupSeen(group) for group in now if known.get(group.name) != group)
