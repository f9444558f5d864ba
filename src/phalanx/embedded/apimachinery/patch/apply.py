"""Server-side apply: a manager sends only the fields that it wants to set, and the server records the manager of each
field.

The sent configuration is merged into the live object. If another manager has set one of the fields to another value,
the apply fails with a conflict, or, with `force`, takes over the field. A field that the manager applied before and
leaves out now is removed, unless another manager owns it as well. If no object has the name, the apply creates it.

All functions here are pure functions of the live object and the configuration. The functions do not change their
arguments, and their results share unchanged parts with the arguments. Sources:
structured-merge-diff/v6/merge/update.go, KEP-555."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

from msgspec.structs import replace

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request
from phalanx.embedded.apimachinery.patch.json_patch import go_kind
from phalanx.embedded.apimachinery.patch.managed_fields import (
    BEFORE_FIRST_APPLY,
    STRIPPED,
    FieldOwner,
    conflicts,
    empty_object,
    read,
    reset_fields,
    store,
    taken,
    track_create,
    type_for,
)
from phalanx.embedded.apimachinery.schema.field_set import (
    Node,
    difference,
    intersection,
    path_text,
    paths,
    recursive_difference,
    union,
)
from phalanx.embedded.apimachinery.schema.schema import Type
from phalanx.embedded.apimachinery.schema.typed import (
    ABSENT,
    Comparison,
    compare,
    field_set,
    merged,
    problems,
    with_named_fields,
    without,
)


def apply(
    resource: Resource,
    live: Object | None,
    config: object,
    manager: str,
    *,
    force: bool = False,
    subresource: str = "",
    now: str,
) -> Object:
    """Return the object after `manager` has applied `config`, with its managedFields. `live`: the stored object; None
    if the apply creates it. `now`: the present as an RFC 3339 time.

    Raises StatusError: 400 for another kind or a configuration with managedFields, 409 for conflicts, 500 for a field
    that the schema does not have.
    """
    kind = type_for(resource)
    _check(resource, config, kind)
    before = live if live is not None else _new_object(resource)
    owners = read(before["metadata"]) or _before_first_apply(resource, live, subresource, now)
    asked = recursive_difference(field_set(config, kind), reset_fields(resource, subresource))
    mine = FieldOwner(
        manager=manager,
        operation="Apply",
        api_version=resource.api_version,
        subresource=subresource,
        time=now,
        fields=difference(asked, STRIPPED),
    )
    former = next((owner for owner in owners if owner.key == mine.key), None)
    others = [owner for owner in owners if owner.key != mine.key]
    wanted = merged(before, config, kind)
    owned = reduce(union, (owner.fields for owner in others), asked)
    after = _pruned(wanted, owned, former.fields, kind) if former and difference(former.fields, asked) else wanted
    change = _seen(compare(before, after, kind), reset_fields(resource, subresource))
    if not force and (found := conflicts(others, mine, change)):
        raise conflict_error(found)
    if live is not None and former is not None and not change and former.fields == mine.fields:
        return live
    if live is not None and not change:  # kube-apiserver records a new time only if the object changes
        mine = replace(mine, time=former.time if former else "")
    result = {**after, "metadata": dict(after.get("metadata") or {})}
    store(result, [*taken(others, change), mine])
    return result


def _new_object(resource: Resource) -> Object:
    empty = copy.deepcopy(empty_object(resource.schema_name))
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, **empty}


def _before_first_apply(resource: Resource, live: Object | None, subresource: str, now: str) -> list[FieldOwner]:
    """Return the owners of the fields of an object that has no managedFields yet."""
    if live is None:
        return []
    tracked = {**live, "metadata": dict(live["metadata"])}
    track_create(resource, tracked, BEFORE_FIRST_APPLY, now, subresource)
    return read(tracked["metadata"])


def _seen(change: Comparison, reset: Node) -> Comparison:
    """Return the change without the fields `reset`, which a write to this endpoint cannot set."""
    if not reset:
        return change
    removed, written = ({k: v for k, v in one.items() if k not in reset} for one in (change.removed, change.written))
    return Comparison(removed, written)


def _pruned(wanted: Object, owned: Node, former: Node, kind: Type) -> Object:
    """Return the object without the fields that this manager applied before (`former`) and no longer applies. Fields
    that another manager owns (`owned`) are kept."""
    last = with_named_fields(former, kind)
    all_fields = with_named_fields(field_set(wanted, kind), kind)
    stripped = _left(without(wanted, last, kind))
    kept = union(with_named_fields(field_set(stripped, kind), kind), with_named_fields(owned, kind))
    again = _left(without(wanted, difference(all_fields, kept), kind))
    # Only fields that this manager owns are removed. A field without an owner stays. A field that another client has
    # changed by an update since then stays as well.
    gone = difference(all_fields, with_named_fields(field_set(again, kind), kind))
    return _left(without(wanted, intersection(gone, last), kind))


def _left(value: Any) -> Object:
    return {} if value is ABSENT else value


# --- refusals ----------------------------------------------------------------------------------------------------


def _check(resource: Resource, config: object, kind: Type) -> None:
    if config is None:
        config = {}
    if not isinstance(config, dict):
        found = go_kind(config)
        why = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    version, name = _text(config.get("apiVersion")), _text(config.get("kind"))
    if (version, name) != (resource.api_version, resource.kind):
        raise bad_request(f"invalid object type: {_group_version_kind(version, name)}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if wrong := list(problems(config, kind)):
        text = wrong[0] if len(wrong) == 1 else "\n  ".join(["errors:", *wrong])
        raise StatusError(500, "", f"failed to create typed patch object ({_described(config)}): {text}")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def not_convertible(config: Object, why: str) -> StatusError:
    """Return the error 500 for a configuration in which a value has the right JSON type but cannot be parsed as the
    type of its field. `why`: the error of the parser."""
    kind = _group_version_kind(config["apiVersion"], config["kind"])
    what = f"unable to convert unstructured object to {kind}: {why}"
    return StatusError(500, "", f"failed to convert new object ({_described(config)}) to proper version: {what}")


def _described(config: Object) -> str:
    """Return a description of a configuration for messages: `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`."""
    metadata = config.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    place = f"{_text(found.get('namespace'))}/{_text(found.get('name'))}"
    return f"{place}; {_group_version_kind(config['apiVersion'], config['kind'])}"


def _group_version_kind(version: str, kind: str) -> str:
    if version.count("/") > 1 or not version:
        return f"/, Kind={kind if not version else ''}"
    return f"{version if '/' in version else '/' + version}, Kind={kind}"


def conflict_error(found: Iterable[tuple[FieldOwner, Node]]) -> StatusError:
    """Return the error 409 with one cause for each field, and with the messages of
    k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go."""
    held = sorted(((owner.named(), [path_text(path) for path in paths(fields)]) for owner, fields in found))
    causes = [{"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": path}
              for name, fields in held for path in fields]  # fmt: skip
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(_conflict_lines(held))
    return StatusError(409, "Conflict", message, details={"causes": causes})


def _conflict_lines(held: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    for name, fields in held:
        yield f"conflicts with {name}:"
        yield from (f"- {path}" for path in fields)
