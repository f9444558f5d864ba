"""Decode the object that a client writes: from the body of a request, or from the result of a patch.

The decoder puts the kind and apiVersion of the object first, as `answers.head_of` expects. It removes unknown fields
from the object, and either warns the client of them or refuses the write. A body that is not an object of its kind is
refused with 400. If a patch has an invalid result, it is refused with 422. For a JSON patch or a merge patch, the
message quotes the JSON of the patched object; for a strategic merge patch, it quotes the patch as Go prints it. The
messages are those of the decoder that kube-apiserver uses in the same case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.apimachinery.limits import CAUSES
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User, type_package
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, invalid, invalid_value
from phalanx.embedded.apimachinery.patch.apply import not_convertible
from phalanx.embedded.apimachinery.patch.patch import STRATEGIC_MERGE_PATCH
from phalanx.embedded.apimachinery.patch.strategic import go_text
from phalanx.embedded.apimachinery.schema.scalars import DecodeError
from phalanx.embedded.apimachinery.schema.schema import Type, type_of
from phalanx.embedded.apiserver.endpoints.parts.knowledge import Knowledge
from phalanx.embedded.apiserver.endpoints.parts.known_kinds import is_known_kind
from phalanx.embedded.apiserver.endpoints.parts.patching import apply_patch, touched_fields
from phalanx.embedded.apiserver.storage.store import decode, encode
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.struct_order import in_go_order

# error messages of kube-apiserver contain this position in its source code
SCHEME = "pkg/runtime/scheme.go:111"


def _unheard(_: Iterable[str]) -> None:
    """Drop the warnings of a write that does not come from a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The options that a write request has in addition to the object. `validation`: Ignore, Warn or Strict. `findings`:
    the messages about fields that occur twice in the body. `warn`: sends warnings to the client, even if the write is
    refused later."""

    user: User
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    findings: Sequence[str] = ()
    warn: Callable[[Iterable[str]], None] = _unheard


class WrongKind(ValueError):
    """Raised for a value that is not an object of the expected kind. `str()` returns the reason. `kind` and `version`:
    the kind and the version in the value; `kind` is empty if they could not be read."""

    def __init__(self, why: str, kind: str = "", version: str = "") -> None:
        super().__init__(why)
        self.kind, self.version = kind, version


def ordered(resource: Resource, body: object, *, patched: bool = False) -> Object:
    """Return the object of a request, with kind and apiVersion as its first fields. `patched`: True if the object is
    the result of a patch. Raises `WrongKind`, or `StatusError` for a custom resource."""
    if body is None:
        body = {}
    if why := negotiation.kind_problem(body):
        raise WrongKind(why)
    assert isinstance(body, dict)
    kind, version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if kind != resource.kind or version != resource.api_version:
        raise _of_another_kind(resource, body, kind, version, patched=patched)
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == [] and not resource.custom:
        metadata = {**metadata, "managedFields": [{}]}  # in Kubernetes, [] and [{}] both clear the list
    obj = {"kind": kind, "apiVersion": version, "metadata": {} if metadata is None else metadata}
    for key, value in body.items():
        obj.setdefault(key, value)
    return obj


def _of_another_kind(resource: Resource, body: Object, kind: str, api_version: str, *, patched: bool) -> Exception:
    """Return the error for a value that has another kind or version than the path of the request."""
    if resource.custom and (patched or api_version == resource.api_version):
        name = (body.get("metadata") or {}).get("name", "")
        field, value, wanted = ("kind", kind, resource.kind)
        if kind == resource.kind:
            field, value, wanted = ("apiVersion", api_version, resource.api_version)
        return invalid(resource.group, kind, name, [invalid_value(field, value, f"must be {wanted}")])
    if resource.custom and not patched:
        return _other_version(resource, api_version)
    group, _, version = api_version.rpartition("/")
    known = is_known_kind(group, version, kind)
    if (group, kind) == (resource.group, resource.kind) and (known or resource.custom):
        return _other_version(resource, api_version)
    why = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{SCHEME}"'
    if known:
        why = f"converting ({version}.{kind}) to ({type_package(resource)}.{resource.kind}): unknown conversion"
    return WrongKind(why, kind, version)


def _other_version(resource: Resource, api_version: str) -> StatusError:
    return bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
    )


def from_body(knowledge: Knowledge, resource: Resource, body: object, intent: Intent) -> Object:
    """Return the object in the body of a request, decoded by the schema of its kind. Raises `StatusError` 400."""
    try:
        obj = ordered(resource, body)
    except WrongKind as wrong:
        if not wrong.kind:
            raise negotiation.unrecognized(str(wrong), encode(body), resource.kind) from None
        where = f'{wrong.kind} in version "{wrong.version}"'
        raise bad_request(f"{where} cannot be handled as a {resource.kind}: {wrong}") from None
    unknown = knowledge.check_schema(resource, obj)
    if strict := _report(unknown, intent):
        kind = resource.kind
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {strict}')
    return obj


def from_applied(knowledge: Knowledge, resource: Resource, applied: Object, config: Any) -> Object:
    """Return `applied`, the object that resulted from applying `config`, decoded by the schema of its kind. Raises
    `StatusError` 500."""
    obj = ordered(resource, applied)
    try:
        knowledge.decode(resource, obj)
    except DecodeError as error:
        raise not_convertible(config, error.converted()) from None
    return obj


def _report(unknown: Sequence[str], intent: Intent) -> str:
    """Warn the client of unknown and duplicate fields. With strict validation, return the reason why the write must be
    refused; otherwise ""."""
    found = [*intent.findings[:CAUSES], *(f'unknown field "{path}"' for path in unknown[:CAUSES])]
    if intent.validation == "Ignore" or not found:
        return ""
    if intent.validation == "Strict":
        return "strict decoding error: " + ", ".join(found)
    intent.warn(found)
    return ""


# --- patches -----------------------------------------------------------------------------------------------------


def from_patch(
    knowledge: Knowledge, resource: Resource, media: str, current: Object, patch: object, intent: Intent
) -> Object:
    """Return the current object after a patch, decoded by the schema of its kind. Fields that the patch cannot change
    are shared with the current object. Raises `StatusError`."""
    touched = touched_fields(media, patch, current)
    strategic = media == STRATEGIC_MERGE_PATCH
    patched = apply_patch(resource, media, _unshared(current, touched), _copied(patch))
    try:
        if strategic:  # kube-apiserver ignores the kind and apiVersion in such a patch
            knowledge.decode(resource, {key: patched[key] for key in ("kind", "apiVersion") if key in patched})
            patched |= {"kind": resource.kind, "apiVersion": resource.api_version}
        obj = ordered(resource, patched, patched=True)
        unknown = _decode_fields(knowledge, resource, obj, touched)
    except DecodeError as error:
        why = error.converted() if strategic else str(error)
    except WrongKind as error:
        why = str(error)
    else:
        why = _report(sorted(unknown), intent)
    if not why:
        return obj
    if strategic:
        quoted = go_text(patch)
    else:
        again = apply_patch(resource, media, current, patch)
        kind = type_of(resource.schema_name) if resource.schema_name else None
        quoted = encode(_as_go_orders(again, _opened_by(patch), kind)).decode()
    raise invalid("", "", "", [invalid_value("patch", quoted, why)])


def _decode_fields(knowledge: Knowledge, resource: Resource, obj: Object, touched: Collection[str]) -> Sequence[str]:
    """Decode the fields that a patch can change; the other fields stay as they were stored. Raises `DecodeError`."""
    part = {key: obj[key] for key in ("kind", "apiVersion", *touched) if key in obj}
    try:
        unknown = knowledge.decode(resource, part)
    except StatusError as error:  # the object violates the schema of its custom kind
        raise DecodeError(error.message.partition(": ")[2]) from None
    for key in touched:
        if key in part:
            obj[key] = part[key]
        else:
            obj.pop(key, None)
    return unknown


def _unshared(old: Object, touched: Collection[str]) -> Object:
    """Return a copy of a stored object, in which the caller may change the metadata and the top-level fields in
    `touched`. All other fields are shared with readers.

    The caller must not edit the shared fields in place. The strategies of kinds never do. A stored object has its
    defaults already, so setting defaults changes nothing in it. A strategy restores an old value by sharing it
    (`obj["status"] = old["status"]`). The managedFields are always shared, because they are often the largest part of
    an object and are never edited in place.
    """
    copied = {key: decode(encode(old[key])) for key in touched if key in old and key != "metadata"}
    metadata = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
    copied["metadata"] = decode(encode(metadata))
    if record := old["metadata"].get("managedFields"):
        copied["metadata"]["managedFields"] = record
    return old | copied


def _copied(value: object) -> object:
    """Return a copy of a patch. The original is needed later: the message of a refusal quotes it, and a second attempt
    applies it again."""
    match value:
        case dict():
            return {key: _copied(one) for key, one in value.items()}
        case list():
            return [_copied(one) for one in value]
    return value


def _opened_by(patch: Any) -> Mapping[str, object]:
    """Return a tree with a node for each object in which the patch changes a field. Go prints these objects with their
    keys sorted."""
    if isinstance(patch, dict):
        return patch
    tree: dict[str, Any] = {}
    for operation in patch:
        at = tree
        for name in str(operation.get("path")).split("/")[1:-1]:
            at = at.setdefault(name, {})
    return tree


def _as_go_orders(value: object, opened: object, kind: Type | None) -> object:
    """Return a patched value with its keys in the same order as in kube-apiserver's messages."""
    # a JSON patch may change single items of a list, so order each item
    if isinstance(value, list) and isinstance(opened, dict):
        inner = kind and kind.items
        return [_as_go_orders(one, opened.get(str(place)), inner) for place, one in enumerate(value)]
    if isinstance(opened, list):  # a list in a merge patch replaces the former list
        return in_go_order(value, None)
    if not isinstance(value, dict) or not isinstance(opened, dict):
        return in_go_order(value, kind)
    fields = {} if kind is None else kind.fields
    return {key: _as_go_orders(value[key], opened.get(key), fields.get(key)) for key in sorted(value)}
