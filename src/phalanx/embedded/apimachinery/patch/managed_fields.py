"""`metadata.managedFields`: the managers that own the fields of an object, and the effect of a write on this ownership.

An entry belongs to a manager, an operation (Apply or Update) and a subresource. An Update makes its manager the only
owner of the fields that it changes. Removed fields have no owner. An object without managedFields is not *tracked*. The
first apply to such an object records that the manager `before-first-apply` has set all its fields, as in
kube-apiserver. docs/decisions/0011-managed-fields.md names the new objects that are tracked from their creation.

Sources: k8s.io/apimachinery/pkg/util/managedfields, structured-merge-diff/v6/merge/update.go, KEP-555.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cmp_to_key, lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apimachinery.schema.field_set import (
    MEMBER,
    SELF,
    Node,
    difference,
    intersection,
    sorted_set,
    union,
)
from phalanx.embedded.apimachinery.schema.schema import Type
from phalanx.embedded.apimachinery.schema.typed import Comparison, compare

BEFORE_FIRST_APPLY, ANCIENT = "before-first-apply", "ancient-changes"
MAX_UPDATE_MANAGERS = 10
# Controllers write objects of these kinds very often, and no client applies them. So the server does not record their
# managed fields when they are created (decision 11).
_UNTRACKED = frozenset({("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease")})

# The fields that no manager owns, in objects of any kind.
_OWNERLESS = frozenset(
    (
        *("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation"),
        *("managedFields", "resourceVersion"),
    )
)
STRIPPED: Node = {
    "f:apiVersion": MEMBER,
    "f:kind": MEMBER,
    "f:metadata": {".": MEMBER, **{f"f:{name}": MEMBER for name in sorted(_OWNERLESS)}},
}
_METADATA = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class FieldOwner(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of managedFields. When a manager applies another API version of the kind, its entry for applies is used
    again. When it updates the object in another API version, a new entry is created. (The class is a Struct, because
    every write creates some entries, and a dataclass would take ten times as long.)"""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""
    time: str = ""
    fields: Node
    # The entry in its stored form. If its fields have not changed, the stored form is written again, without a new
    # encoding.
    source: Mapping[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        version = "" if self.operation == "Apply" else self.api_version
        return self.manager, self.operation, version, self.subresource

    def named(self) -> str:
        """Return the manager's name as messages about conflicts show it: `"one"`, `"two" with subresource "status"
        using v1`."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


def read(metadata: Mapping[str, Any]) -> list[FieldOwner]:
    """Return the entries of an object's metadata. The list is empty if the record is invalid, or if it is `[{}]`, which
    a client writes to reset the record."""
    try:
        return [_owner(entry) for entry in metadata.get("managedFields") or () if entry]
    except (KeyError, TypeError, AttributeError):
        return []


def _read_sent(sent: Iterable[Mapping[str, Any]]) -> list[FieldOwner]:
    """Return the entries of a record that a client sent. The elements of its field sets may be in any order."""
    ordered = [{**entry, "fieldsV1": sorted_set(entry.get("fieldsV1") or {})} for entry in sent if entry]
    return read({"managedFields": ordered})


def _is_record(sent: object) -> bool:
    """Return True if the entries that a client sent have the form of field sets. Otherwise the server keeps the stored
    record, like kube-apiserver."""
    return isinstance(sent, list) and all(
        isinstance(entry, dict) and _is_set(entry.get("fieldsV1") or {}) for entry in sent
    )


def _is_set(node: object) -> bool:
    return isinstance(node, dict) and all(
        (key == SELF or _is_element(key)) and _is_set(below) for key, below in node.items()
    )


def _is_element(key: str) -> bool:
    """Return True if the key is an element of a field set: f:FIELD, k:{"name":"x"}, v:VALUE or i:INDEX."""
    form, rest = key[:2], key[2:]
    try:
        match form:
            case "k:":
                return isinstance(msgspec.json.decode(rest), dict)
            case "v:":
                return msgspec.json.decode(rest) is not None
    except msgspec.DecodeError:
        return False
    return form == "f:" or (form == "i:" and rest.isascii() and rest.isdigit())


def _owner(entry: Mapping[str, Any]) -> FieldOwner:
    return FieldOwner(
        manager=entry.get("manager", ""),
        operation=entry["operation"],
        api_version=entry.get("apiVersion", ""),
        subresource=entry.get("subresource", ""),
        time=entry.get("time") or "",
        fields=entry.get("fieldsV1") or {},
        source=entry,
    )


def write(owners: Iterable[FieldOwner]) -> list[Object]:
    """Return the entries as the JSON value of `metadata.managedFields`, in kube-apiserver's order. Entries without
    fields are left out."""
    kept = [owner for owner in owners if owner.fields]
    if all(owner.time for owner in kept):
        kept.sort(key=lambda one: (one.operation, one.time, one.manager, one.api_version, one.subresource))
    else:
        kept.sort(key=cmp_to_key(_timeless_order))
    return [_entry(owner) for owner in kept]


def _timeless_order(one: FieldOwner, other: FieldOwner) -> int:
    """Compare two entries without their times, because an entry that a write to `/scale` has created has no time."""
    timed = bool(one.time and other.time)
    first, second = (
        (owner.operation, owner.time if timed else "", owner.manager, owner.api_version, owner.subresource)
        for owner in (one, other)
    )
    return (first > second) - (first < second)


def _entry(owner: FieldOwner) -> Object:
    source = owner.source
    if source is not None and source.get("fieldsV1") is owner.fields:
        return {**source, "time": owner.time} if owner.time else dict(source)
    entry: Object = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
    if owner.time:
        entry["time"] = owner.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": owner.fields}
    if owner.subresource:
        entry["subresource"] = owner.subresource
    return entry


def store(obj: Object, owners: Iterable[FieldOwner]) -> None:
    """Write the entries into the object's metadata."""
    if entries := write(owners):
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def type_for(resource: Resource) -> Type:
    """Return the schema that determines which fields of a kind managers can own."""
    if resource.schema_name:
        return schema.type_of(resource.schema_name)
    source = resource.schema or {}
    key = id(source)
    if key not in _custom_types or _custom_types[key][0] is not source:
        if len(_custom_types) >= _CUSTOM_TYPES_KEPT:
            _custom_types.clear()
        _custom_types[key] = (source, _custom_type(source))
    return _custom_types[key][1]


_CUSTOM_TYPES_KEPT = 256
_custom_types: dict[int, tuple[Mapping[str, object], Type]] = {}


def _custom_type(found: Mapping[str, Any]) -> Type:
    properties = {
        **(found.get("properties") or {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": _METADATA},
    }
    return schema.structural({**found, "type": "object", "properties": properties})


@lru_cache(maxsize=256)
def empty_object(schema_name: str) -> Object:
    """Return an object of a built-in kind without any set fields. It has only the fields that Go prints even if they
    are empty (structs that are not pointers). Callers must not edit the object."""
    found: Object = {}
    if schema_name:
        schema.decode(schema.type_of(schema_name), found)
    return found


def reset_fields(resource: Resource, subresource: str) -> Node:
    """Return the fields that a write to this endpoint cannot set, and so cannot own."""
    if not subresource:
        return {"f:status": MEMBER} if resource.subresource("status") else {}
    if subresource == "status":
        return {"f:spec": MEMBER, "f:metadata": MEMBER} if resource.custom else {"f:spec": MEMBER}
    return {}


def is_tracked_from_birth(resource: Resource, obj: Object) -> bool:
    """Return True if the server records the creator of a new object as a manager (decision 11). For pods that a
    controller creates, the server does not record the creator."""
    if (resource.group, resource.kind) == ("", "Pod"):
        return not any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
    return (resource.group, resource.kind) not in _UNTRACKED


def track_create(resource: Resource, obj: Object, manager: str, now: str, subresource: str = "") -> None:
    """Record in a new object that `manager` has set all fields that can be set through this endpoint."""
    kind, gone = type_for(resource), reset_fields(resource, subresource)
    fields: dict[str, Node] = {}
    for key, value in sorted(_ownable(obj).items()):
        if f"f:{key}" in gone or key in ("apiVersion", "kind"):
            continue
        data = msgspec.json.encode(value)
        if len(data) <= _REMEMBERED_BYTES:
            fields |= _born_again(kind, resource.schema_name, key, data)
        else:
            fields |= _born(kind, resource.schema_name, key, value)
    if not fields:
        obj["metadata"].pop("managedFields", None)
        return
    head = {"manager": manager, "operation": "Update", "apiVersion": resource.api_version, "time": now}
    tail = {"subresource": subresource} if subresource else {}
    obj["metadata"]["managedFields"] = [{**head, "fieldsType": "FieldsV1", "fieldsV1": fields, **tail}]


# The maximum size of a value (as JSON) whose set of fields is cached. Objects from one template have equal values, and
# no set is ever changed.
_REMEMBERED_BYTES = 16 * 1024


@lru_cache(maxsize=1024)
def _born_again(kind: Type, schema_name: str, key: str, data: bytes) -> Node:
    return _born(kind, schema_name, key, msgspec.json.decode(data))


def _born(kind: Type, schema_name: str, key: str, value: object) -> Node:
    """Return the set of fields that one top-level field of a new object sets."""
    empty = empty_object(schema_name)
    change = compare({key: empty[key]} if key in empty else {}, {key: value}, kind)
    written = difference(change.written, STRIPPED)
    # in Go, `spec` is a struct and never a pointer, so no manager owns the field `spec` itself
    if schema_name and isinstance(spec := written.get("f:spec"), dict):
        written = {**written, "f:spec": {name: node for name, node in spec.items() if name != SELF}}
    return written


def track_update(resource: Resource, obj: Object, old: Object, manager: str, subresource: str, now: str) -> None:
    """Record in `obj` which fields this update of `old` has set, changed and removed. The cost depends only on the
    differences between the two objects."""
    sent, held = obj["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if sent == [{}] or not (sent or held):
        obj["metadata"].pop("managedFields", None)
        return
    as_held = not sent or sent == held
    owners = (_read_sent(sent) if not as_held and _is_record(sent) else []) or read(old["metadata"])
    change = compare(_ownable(old), _ownable(obj), type_for(resource))
    if not change and as_held:
        obj["metadata"]["managedFields"] = held
        return
    mine = FieldOwner(
        manager=manager,
        operation="Update",
        api_version=resource.api_version,
        subresource=subresource,
        time=now,
        fields=difference(change.written, STRIPPED),
    )
    if not change.removed and _only_later(owners, mine):
        store(obj, [replace(one, time=now) if one.key == mine.key else one for one in owners])
    else:
        store(obj, entered(taken(owners, change), mine))


def _only_later(owners: Iterable[FieldOwner], mine: FieldOwner) -> bool:
    """Return True if the manager sets only fields that it owned before and that no other manager owns. Most writes of
    controllers are of this kind."""
    former, others = _split(owners, mine)
    if not former or difference(mine.fields, former[0].fields):
        return False
    return not any(intersection(one.fields, mine.fields) for one in others)


def _split(owners: Iterable[FieldOwner], mine: FieldOwner) -> tuple[list[FieldOwner], list[FieldOwner]]:
    """Return two lists of entries: the entries of the same manager as `mine`, and the entries of all other managers."""
    former: list[FieldOwner] = []
    others: list[FieldOwner] = []
    key = mine.key
    for one in owners:
        (former if one.key == key else others).append(one)
    return former, others


def _ownable(obj: Object) -> Object:
    """Return the fields of an object that managers can own."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OWNERLESS}
    return {**obj, "metadata": metadata}


def taken(owners: Iterable[FieldOwner], change: Comparison) -> list[FieldOwner]:
    """Return the owners after a change: other managers lose the changed fields, and all managers lose the removed
    fields."""
    gone = change.touched()
    return [_less(owner, gone) for owner in owners]


def _less(owner: FieldOwner, gone: Node) -> FieldOwner:
    fields = difference(owner.fields, gone) if gone else owner.fields
    return owner if fields is owner.fields else replace(owner, fields=fields)


def entered(owners: Iterable[FieldOwner], mine: FieldOwner) -> list[FieldOwner]:
    """Return the owners after the fields of `mine` were added to the entry of its manager. If there are too many
    entries with the operation Update, the oldest ones are merged."""
    former, others = _split(owners, mine)
    if mine.fields:
        fields = mine.fields
        for one in former:
            fields = union(one.fields, fields)
        former = [replace(mine, fields=fields)]
    return capped([*others, *former])


def capped(owners: list[FieldOwner]) -> list[FieldOwner]:
    """Return the owners with at most ten entries of the operation Update. The oldest ones are merged into one entry,
    `ancient-changes`."""
    updaters = sorted((o for o in owners if o.operation == "Update" and o.fields), key=lambda owner: owner.time)
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return owners
    joined: Node = {}
    oldest = updaters[: excess + 1]
    for owner in oldest:
        joined = union(joined, owner.fields)
    ancient = replace(oldest[-1], manager=ANCIENT, fields=joined, subresource="")
    return [*(owner for owner in owners if owner not in oldest), ancient]


def conflicts(owners: Iterable[FieldOwner], applier: FieldOwner, change: Comparison) -> list[tuple[FieldOwner, Node]]:
    """Return (owner, fields) for each other manager whose fields an apply would change."""
    found = [(owner, intersection(owner.fields, change.written)) for owner in owners if owner.key != applier.key]
    return [(owner, fields) for owner, fields in found if fields]
