"""Decide from the owner references of an object whether the object stays or is deleted. The functions have no side
effects.

An object with owner references exists as long as one of its owners exists
(k8s.io/kubernetes/pkg/controller/garbagecollector). An owner has one of three states. An owner that exists is *solid*.
An owner is *absent* if no object has the uid in the reference; it may never have existed. An owner that is being
deleted in the foreground is *waiting* for the deletion of its dependents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from phalanx.client.connection import Object
from phalanx.client.kind import Kind

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An entry of metadata.ownerReferences. `blocks`: True if the owner, when it is deleted in the foreground, waits
    for the deletion of this object."""

    uid: str
    api_version: str
    kind: str
    name: str
    blocks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedObject:
    """A node of the graph of owners: the fields of an object that the graph stores."""

    uid: str
    kind: Kind
    namespace: str
    name: str
    owners: tuple[Reference, ...]
    deleting: bool
    finalizers: tuple[str, ...]

    @property
    def waits_for_dependents(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


class OwnerState(Enum):
    """The state of an owner."""

    SOLID = "solid"
    ABSENT = "absent"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The object stays, and needs no change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlink:
    """The object stays, but its references to these owners must be removed."""

    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """The object must be deleted. `policy`: Background, Foreground or Orphan."""

    policy: str


Verdict = Keep | Unlink | Delete


def node_of(kind: Kind, obj: Object) -> OwnedObject:
    meta = obj["metadata"]
    return OwnedObject(
        uid=meta["uid"],
        kind=kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        owners=tuple(_references(obj)),
        deleting="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers") or ()),
    )


def same_links(old: Object, new: Object) -> bool:
    """Return True if two versions of an object have equal owners and finalizers, and if both or neither are being
    deleted. Nearly all changes of objects are changes of the status or the spec, which have no effect on the graph."""
    before, after = old["metadata"], new["metadata"]
    return all(before.get(key) == after.get(key) for key in ("ownerReferences", "finalizers", "deletionTimestamp"))


def judge(node: OwnedObject, state: Callable[[Reference], OwnerState], has_dependents: bool) -> Verdict:
    """Return the decision about an object that has owners and is not being deleted: `Keep`, `Unlink` or `Delete`."""
    if not node.owners or (node.deleting and not node.waits_for_dependents):
        return Keep()
    states = {owner.uid: state(owner) for owner in node.owners}
    lost = tuple(uid for uid, one in states.items() if one is not OwnerState.SOLID)
    if len(lost) < len(states):
        return Unlink(owners=lost) if lost else Keep()
    if node.deleting:
        return Keep()
    if OwnerState.WAITING in states.values() and has_dependents:
        return Delete(policy="Foreground")  # the dependents of this object must be deleted first
    if ORPHAN in node.finalizers:
        return Delete(policy="Orphan")
    return Delete(policy="Foreground" if FOREGROUND in node.finalizers else "Background")


class OwnerGraph:
    """All known objects by their uid, and the dependents of each owner by the owner's uid. The owner itself need not be
    known."""

    def __init__(self) -> None:
        self.nodes: dict[str, OwnedObject] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def put(self, node: OwnedObject) -> None:
        if (old := self.nodes.get(node.uid)) is not None and old.owners != node.owners:
            self._unlink(old)
        self.nodes[node.uid] = node
        for owner in node.owners:
            self._dependents.setdefault(owner.uid, {})[node.uid] = None

    def drop(self, uid: str) -> None:
        if (node := self.nodes.pop(uid, None)) is not None:
            self._unlink(node)

    def dependents(self, uid: str) -> list[OwnedObject]:
        return [self.nodes[one] for one in self._dependents.get(uid, ())]

    def blockers(self, uid: str) -> list[OwnedObject]:
        """Return the dependents that must be deleted before the owner, if the owner is deleted in the foreground."""
        return [
            node for node in self.dependents(uid) if any(owner.uid == uid and owner.blocks for owner in node.owners)
        ]

    def _unlink(self, node: OwnedObject) -> None:
        for owner in node.owners:
            members = self._dependents.get(owner.uid, {})
            members.pop(node.uid, None)
            if not members:
                self._dependents.pop(owner.uid, None)


def _references(obj: Object) -> Iterator[Reference]:
    for reference in obj["metadata"].get("ownerReferences") or ():
        yield Reference(
            uid=reference["uid"],
            api_version=reference["apiVersion"],
            kind=reference["kind"],
            name=reference["name"],
            blocks=bool(reference.get("blockOwnerDeletion")),
        )
