"""Translate the definitions of other schedulers (such as their queues) into queues of Phalanx, for the dialects that
are enabled. A *dialect* is the part of Phalanx that reads the objects of one other scheduler. A *claim* is the set of
settings that a dialect declares for a gang.

When a definition changes, its dialect is marked as changed. All definitions of this dialect are then read again, only
once for several changes, and the core gets events about the differences. After that, the gangs that the dialect claims
are reconciled. A definition may also reserve a part of a node's capacity for certain pods (`node_parts`). The core then
sees this node as smaller.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.frame.dialect import (
    READ_BACK,
    Claim,
    Definitions,
    DeviceAsk,
    Dialect,
    NodePart,
    Objects,
    Said,
    StandIn,
)
from phalanx.kube.capacity.node_parts import in_parts, node_and_part, split
from phalanx.kube.read.labels import PART
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.queue import QueueCache
from phalanx.model.event import Event, NodeGroupGone, NodeGroupSeen, TopologiesSeen
from phalanx.model.node import Node, NodeGroup
from phalanx.model.pod import amounts
from phalanx.model.reason import Reason, ReasonCode

log = logging.getLogger(__name__)

_NOTHING: Mapping[str, str] = {}
_NONE = Definitions()
_KINDS = {"Pod": PODS, "Job": JOBS}
DIALECT = "dialect"  # key of the dialect's name in an object's options; no valid label or annotation


class DialectWatch:
    """The definitions of other schedulers, and their claims on gangs. `defined`: a map from a dialect to its
    definitions, as they were last read. `stale`: the dialects whose definitions changed since then. `claimed`: a map
    from a gang to its dialect. `silent`: the gangs on whose objects their dialect writes no status. `written`: the
    annotations that Phalanx writes. `objects`: the caches of those kinds of the dialects that the API server serves.
    The other parameters, up to `tell`, are functions. `note`: called with the settings of an object that have no
    effect. `invalid`: called with a definition that cannot be read. `news`: called when a user writes an object on
    which the dialect reports status and that belongs to no gang yet. `places_changed`: called when nodes get other
    labels of declared topologies, or when other parts of nodes are reserved. `pods_changed`: called with the changes of
    stand-ins, and of pods for which other parts of nodes are reserved than before. `tell`: passes events about claimed
    queues to the core. `stand_ins`: a map from an object's uid to the stand-in, the pod by which the scheduler
    represents this object."""

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
        self.claimed: dict[str, str] = {}
        self.silent: set[str] = set()
        self.written: set[str] = set()
        self._queues, self._objects, self._mark, self._note, self._clock = queues, objects, mark, note, clock
        self._tell, self._invalid = tell, invalid
        self.news: Callable[[], None] = lambda: None
        self.places_changed: Callable[[], None] = lambda: None
        self.pods_changed: Callable[[Iterable[Change]], None] = lambda changes: None
        self.stand_ins: dict[str, tuple[str, StandIn]] = {}
        self._parts: dict[str, NodePart] = {}
        self._about_pods: tuple[Definitions, ...] = ()  # definitions that add options to single pods
        # Gang -> an answer object (`Claim.about`) whose changes also concern it.
        self._about: dict[str, tuple[Kind, str]] = {}
        self._gangs_about: dict[tuple[Kind, str], set[str]] = {}
        self.stale = dict.fromkeys(self.dialects)
        self._last: dict[str, Objects] = {}  # dialect -> the objects with its definitions
        both = (kind for each in self.dialects.values() for kind in (*each.definition_kinds, *each.answer_kinds))
        self.kinds = tuple(dict.fromkeys(both))

    def on_change(self, change: Change) -> bool:
        """Return True if the change can affect a decision. A new status that Phalanx itself has written cannot affect
        any."""
        for name, dialect in self.dialects.items():
            if _is_answer(dialect, change):
                self._on_answer(dialect, change)
            counting = dialect.by_status.get(change.kind, ())
            if change.kind in dialect.definition_kinds and self._differs(change, counting):
                self.stale[name] = None
                if (about := dialect.gang_of(change.new or change.old or {})) in self.claimed:
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
        also = self._gangs_about.get((change.kind, key_of(change.new or change.old or {})), ())
        for gang in (*((about,) if about in self.claimed else ()), *also):
            self._mark(gang)
        if about not in self.claimed and not also:
            self.news()
        if rewritten:
            self.tell_unused(dialect.name, change.kind, change.new)

    def tell_unused(self, dialect: str, kind: Kind, obj: Object | None) -> None:
        """Write an Event on the object about those of its settings that have no effect."""
        for text in self.dialects[dialect].notes(kind.name, obj) if obj is not None else ():
            self._note(kind, obj or {}, text)

    def events(self) -> Iterable[Event]:
        """Yield the events about all definitions that have changed since the last call, and mark the gangs that these
        changes may affect, so that they are reconciled."""
        stale, self.stale = self.stale, {}
        for name in stale:
            if (defined := self._read(self.dialects[name])) is None:
                continue
            before = self.defined.get(name, _NONE)
            if defined.fault and self._is_kept(before, defined):
                continue
            self.defined[name] = defined
            if defined == before:  # a new namespace without settings: no gang has to be reconciled
                continue
            yield from self._queues.on_definitions(name, defined, self._clock())
            yield from _group_events(before.node_groups, defined.node_groups)
            if defined.topologies != before.topologies:
                yield TopologiesSeen(tuple(one for each in self.defined.values() for one in each.topologies))
            self._about_pods = tuple(each for each in self.defined.values() if each.about_pods)
            self._parts = {part.name: part for each in self.defined.values() for part in each.parts}
            if defined.topology_key() != before.topology_key() or defined.parts != before.parts:
                self.places_changed()
            self.pods_changed(list(self._other_pods(name, before, defined)))
            for gang in [gang for gang, of in self.claimed.items() if of == name]:
                self._mark(gang)

    def on_demand(self) -> frozenset[str]:
        """Return the queues with a node group to which Phalanx adds nodes when jobs need them."""
        groups = (group for each in self.defined.values() for group in each.node_groups)
        return frozenset(group.on_demand.queue for group in groups if group.on_demand is not None)

    def _is_kept(self, before: Definitions, invalid: Definitions) -> bool:
        """Report that the definitions `invalid` cannot be used as a whole. Return True if the definitions `before`,
        which were valid, stay in effect."""
        kept = before is not _NONE and not before.fault
        if invalid.fault_at is not None:
            kind, key = invalid.fault_at
            if (obj := (self._objects(kind) or {}).get(key)) is not None:
                stays = "the last valid one stays in force" if kept else "its jobs wait with this reason"
                self._invalid(kind, obj, f"{invalid.fault}: {stays}")
        return kept

    def _read(self, dialect: Dialect[Any]) -> Definitions | None:
        """Return the definitions of the dialect as the cluster has them now; None if the earlier definitions stay in
        effect. An error in one definition affects neither the other definitions nor other users' jobs."""
        there = ((kind, self._objects(kind)) for kind in dialect.definition_kinds)
        found = {kind: objects for kind, objects in there if objects is not None}
        defined: Definitions
        try:
            defined = dialect.define(found)
        except Exception:  # this definition reveals a defect of the dialect
            log.exception("of the definitions of %s some cannot be read: the others count", dialect.name)
            try:
                found = {kind: dict(self._readable(dialect, kind, found)) for kind in found}
                defined = dialect.define(found)
            except Exception:  # only the combination of definitions causes an error
                log.exception("the definitions of %s stay as they were: they cannot be read together", dialect.name)
                return None
        self._last[dialect.name] = {kind: dict(objects) for kind, objects in found.items()}
        return defined

    def _readable(self, dialect: Dialect[Any], kind: Kind, found: Objects) -> Iterator[tuple[str, Object]]:
        """Yield the objects of the kind. If an object cannot be read even when it is the only one, report it and yield
        its last readable version."""
        nothing: Objects = {each: {} for each in found}
        before = self._last.get(dialect.name, nothing).get(kind, {})
        for key, obj in found[kind].items():
            try:
                dialect.define({**nothing, kind: {key: obj}})
            except Exception as error:  # the definition with the error
                why = f"it cannot be read: {type(error).__name__}: {error}"
                self._invalid(kind, obj, f"it counts {'as it was before' if key in before else 'as absent'}: {why}")
                if key in before:
                    yield key, before[key]
            else:
                yield key, obj

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        """Translate the object's settings of a dialect into Phalanx's options, and add the dialect's name. If the
        object has settings of several dialects, choose the dialect to which its scheduler name belongs, or else the
        first dialect."""
        found = {name: said for name, each in self.dialects.items() if (said := each.options_of(kind, meta, scheduler))}
        if not found:
            return _NOTHING
        theirs = (name for name in found if scheduler in self.dialects[name].scheduler_names)
        name = next(theirs, next(iter(found)))
        if len(found) > 1 and "uid" in meta:
            others = ", ".join(other for other in found if other != name)
            why = f"its scheduler is {scheduler}" if scheduler in self.dialects[name].scheduler_names else "it is first"
            text = f"words of several schedulers: those of {name} count, since {why}; those of {others} have no effect"
            self._note(_KINDS.get(kind, JOBS), {"metadata": meta}, text)
        return {**found[name], DIALECT: name}

    def claim(self, said: Said) -> Claim | None:
        """Return the settings that a dialect's definitions declare for a gang; None if no dialect claims the gang."""
        if not (DIALECT in said.options or "/" in said.queue or self._queues.of_dialect(said.queue)):
            return None  # the gang names neither a dialect nor a dialect's queue
        names = (said.options[DIALECT],) if DIALECT in said.options else tuple(self.dialects)
        for name in names:
            if name not in self.defined:
                continue
            kinds = self.dialects[name].answer_kinds
            objects = {kind: found for kind in kinds if (found := self._objects(kind)) is not None}
            if (claim := self.dialects[name].claim(self.defined[name], said, objects)) is not None:
                self.claimed[said.gang] = name
                (self.silent.add if claim.silent else self.silent.discard)(said.gang)
                self._note_about(said.gang, claim.about)
                self._tell(tuple(self._queues.on_claim(said.gang, claim.queues)))
                return claim
        return None

    def _other_pods(self, dialect: str, before: Definitions, now: Definitions) -> Iterable[Change]:
        """Yield the pods that the core sees differently when the definitions `now` replace the earlier definitions
        `before`, each as a `Change`."""
        old, new = ({str(one.pod["metadata"]["uid"]): one for one in each.stand_ins} for each in (before, now))
        for uid in old | new:
            if old.get(uid) != new.get(uid):
                self.stand_ins.pop(uid, None)
                if uid in new:
                    self.stand_ins[uid] = (dialect, new[uid])
                pods = [one.pod if one is not None else None for one in (old.get(uid), new.get(uid))]
                yield Change(kind=PODS, old=pods[0], new=pods[1])
        if _about_pods(before) == _about_pods(now):
            return
        for pod in (self._objects(PODS) or {}).values():
            is_in_part = PART in (pod["metadata"].get("annotations") or {})
            other_use = _said_of(before, pod) != _said_of(now, pod)
            waits = "nodeName" not in pod["spec"]  # a running pod stays in its gang
            if is_in_part or other_use or (waits and before.pod_options(pod) != now.pod_options(pod)):
                yield Change(kind=PODS, old=pod, new=pod)

    def as_defined(self, pod: Pod, obj: Object) -> Pod:
        """Return the pod with the changes that the dialects' definitions make: further options, requests for devices,
        the parts of nodes that the pod may use, and the part of the node that the pod is in."""
        if pod.uid in self.stand_ins:
            asks = self.stand_ins[pod.uid][1].asks
            return msgspec.structs.replace(pod, stands_in=True, shape=replace(pod.shape, requests=asks))
        if not pod.ours or not self._about_pods:
            return pod
        use = None
        for each in self._about_pods:
            if said := each.pod_options(obj):
                pod = msgspec.structs.replace(pod, options={**pod.options, **said})
            if (asked := each.device_ask(obj)) is not None:
                pod = _with_devices(pod, asked)
            use = use or each.part_use(obj)
            if pod.node and not pod.devices:
                pod = msgspec.structs.replace(pod, devices=each.devices_given(obj))
        name = (obj["metadata"].get("annotations") or _NOTHING).get(PART, "")
        return in_parts(pod, use, name, self._parts.get(name))

    def at_binding(self, pod: Object, node: str, part: str, devices: tuple[str, ...]) -> Mapping[str, str]:
        """Return the annotations that a pod gets with its binding. `part`: the part of the node; "" for a whole node.
        `devices`: the devices of the node that the pod gets."""
        found = {PART: part} if part else dict[str, str]()
        for each in self.defined.values():
            found |= each.at_binding(pod, node, part, devices)
        return found

    def placed(self, uid: str, node: str) -> tuple[StandIn, Object] | None:
        """Return the stand-in with this uid, and the status that its object gets when the stand-in is placed on the
        node; None if no stand-in has the uid."""
        if uid not in self.stand_ins:
            return None
        name, stand_in = self.stand_ins[uid]
        return stand_in, self.defined[name].placed(stand_in, node_and_part(node)[0], write_moment(self._clock()))

    def split(self, node: Node) -> Iterable[Node]:
        """Return the node without its parts, and each part as a node."""
        return split(node, [part for part in self._parts.values() if part.node == node.name])

    def with_places(self, node: Node) -> Node:
        """Return the node with the labels of declared topologies, and with the zones and devices that definitions
        declare for it."""
        found, zones, devices = dict[str, str](), node.zones, node.devices
        for each in self.defined.values():
            found |= each.node_labels(node.name, dict(node.labels))
            zones = zones or each.node_zones(node.name)
            listed = {device.resource for device in devices}
            devices += tuple(one for one in each.node_devices(node.name) if one.resource not in listed)
        if not found and zones is node.zones and devices == node.devices:
            return node
        has = dict(node.allocatable)
        if devices != node.devices:  # a node that lists its devices need not state their number
            has = {**Counter(device.resource for device in devices), **has}
        said = tuple(sorted({**dict(node.labels), **found}.items()))
        return replace(node, labels=said, zones=zones, devices=devices, allocatable=amounts(has))

    def forget(self, gang: str) -> None:
        """Forget a gang that was deleted."""
        self.claimed.pop(gang, None)
        self.silent.discard(gang)
        self._note_about(gang, None)
        self._tell(tuple(self._queues.on_claim(gang, ())))

    def _note_about(self, gang: str, about: tuple[Kind, str] | None) -> None:
        """Record which object the claim on the gang is about (`Claim.about`), so that the object is found by the gang
        and the gang by the object."""
        before = self._about.pop(gang, None)
        if before is not None:
            self._gangs_about[before].discard(gang)
            if not self._gangs_about[before]:
                del self._gangs_about[before]
        if about is not None:
            self._about[gang] = about
            self._gangs_about.setdefault(about, set()).add(gang)


def _about_pods(defined: Definitions) -> Hashable:
    """Return those settings in the definitions that affect single pods. Two equal results mean that no pod must be read
    again."""
    return defined.about_pods, defined.parts, defined.topology_key(), defined.options_key()


def _said_of(defined: Definitions, pod: Object) -> Hashable:
    """Return the settings of the definitions that affect a single pod: the reserved parts of nodes that the pod may
    use, the devices that it requests, and the devices that it has."""
    return defined.part_use(pod), defined.device_ask(pod), defined.devices_given(pod)


def _with_devices(pod: Pod, asked: DeviceAsk) -> Pod:
    if asked.wrong:
        return msgspec.structs.replace(pod, obstacle=Reason(code=ReasonCode.INVALID, text=asked.wrong))
    others = {name: amount for name, amount in pod.shape.requests if name not in asked.instead}
    for name, amount in asked.whole:
        others[name] = others.get(name, 0) + amount
    share, aligned = asked.share or pod.shape.share, pod.shape.aligned or asked.aligned
    return msgspec.structs.replace(
        pod, shape=replace(pod.shape, requests=amounts(others), share=share, aligned=aligned)
    )


def _is_answer(dialect: Dialect[Any], change: Change) -> bool:
    return change.kind in dialect.answer_kinds and change.kind not in dialect.definition_kinds


def _read_back(obj: Object | None) -> list[Any]:
    status = (obj or {}).get("status") or {}
    return [status.get(key) for key in READ_BACK]


def _group_events(before: Iterable[NodeGroup], now: Iterable[NodeGroup]) -> Iterator[Event]:
    """Yield the events about the differences between the node groups `before` and `now`."""
    known, names = {group.name: group for group in before}, {group.name for group in now}
    yield from (NodeGroupGone(name) for name in known if name not in names)
    yield from (NodeGroupSeen(group) for group in now if known.get(group.name) != group)
