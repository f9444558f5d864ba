"""Apply JSON patches (RFC 6902) and JSON merge patches (RFC 7386) as kube-apiserver does.

Kube-apiserver uses version 4 of the Go library evanphx/json-patch, and clients depend on the differences of this
library from the RFC: `replace` creates a missing field, `test` with null succeeds for a missing field, and a negative
index counts from the end. The Python libraries follow the RFC, and first copy the whole document. This module never
changes the document. The result shares with the document all parts that the patch does not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.limits import DEPTH, extent
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request

# k8s.io/apiserver/pkg/endpoints/handlers/patch.go
MAX_OPERATIONS = 10_000
# The number of values that all operations of a patch together may copy. (Kube-apiserver has another limit: on the bytes
# that `copy` operations copy.)
_WORK = 2_000_000
_INDEX = re.compile("-?[0-9]{1,9}")


class _DoesNotApply(Exception):
    """Raised if the operation cannot be applied to this document."""


def json_patch(current: object, patch: object) -> Any:
    """Return `current` after all operations, in their order. Raises StatusError 400 if the patch is not a list of
    operations, and 422 if an operation cannot be applied."""
    if not isinstance(patch, list) or not all(isinstance(one, dict | None) for one in patch):
        raise bad_request(f"json: cannot unmarshal {go_kind(patch)} into Go value of type jsonpatch.Patch")
    if len(patch) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity is too large: {text}")
    try:
        budget = _WORK
        for operation in patch:
            budget -= _cost(current, operation)
            if budget < 0:
                why = "Request entity is too large: the JSON patch copies too many values"
                raise StatusError(413, "RequestEntityTooLarge", why)
            current = _apply(current, operation)
    except (_DoesNotApply, KeyError, IndexError, TypeError) as error:
        message = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", message, details={}) from error
    return current


def _cost(document: object, operation: Mapping[str, object]) -> int:
    """Return the cost of the operation. The cost is the number of values in the containers on the operation's path,
    because these containers are copied. For a `copy`, ten times the number of copied values is added, because these
    values are decoded from text."""
    op, path = operation["op"], _parts(operation["path"])
    if op == "test":
        return 1
    cost, at = len(path), document
    for number, part in enumerate(path, 1):
        cost += len(at) if isinstance(at, list | dict) else 0
        if number < len(path):  # the last part may be the index after the last item of a list
            at = _step(at, part) if isinstance(at, list | dict) else None
    moved = op in ("copy", "move")
    value = _get(document, _parts(operation["from"])) if moved else operation.get("value")
    values, levels = extent(value, _WORK)
    if len(path) + levels > DEPTH:
        raise _DoesNotApply
    return cost + (10 * values if op == "copy" else 0)


def _apply(document: object, operation: Mapping[str, object]) -> object:
    path = _parts(operation["path"])
    match operation["op"]:
        case "add":
            return _add(document, path, operation.get("value"))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, operation.get("value"))
        case "move":
            source = _parts(operation["from"])
            return _add(_remove(document, source), path, _get(document, source))
        case "copy":
            held = msgspec.json.encode(_get(document, _parts(operation["from"])))
            # copy the value, because a later operation may change it at only one of the two paths
            return _add(document, path, msgspec.json.decode(held))
        case "test" if _equal(_get(document, path), operation.get("value")):
            return document
    raise _DoesNotApply


def _parts(pointer: object) -> list[str]:
    """Return the parts of a JSON pointer; for `/metadata/labels/ex.io~1y` these are metadata, labels and ex.io/y."""
    if not isinstance(pointer, str):
        raise _DoesNotApply
    if not pointer.startswith("/"):
        if pointer:
            raise _DoesNotApply
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _index(items: list[object], part: str, *, end: int) -> int:
    """Return the index that `part` names. A negative number counts from the end. `end`: the first index after the valid
    ones."""
    place = int(part) if _INDEX.fullmatch(part) else None
    if place is None or not -end <= place < end:
        raise _DoesNotApply
    return place + end if place < 0 else place


def _step(container: object, part: str) -> object:
    """Return the value at `part` of the container; None if an object has no field of this name."""
    if isinstance(container, list):
        return container[_index(container, part, end=len(container))]
    if isinstance(container, dict):
        return container.get(part)
    raise _DoesNotApply


def _get(document: object, path: list[str]) -> object:
    for part in path:
        document = _step(document, part)
    return document


def _with(container: Any, part: str, value: object) -> Any:
    """Return a copy of the container with another value at `part`. The caller has checked that `part` is valid; in an
    object, every field name is valid."""
    if isinstance(container, list):
        place = _index(container, part, end=len(container))
        return [*container[:place], value, *container[place + 1 :]]
    return {**container, part: value}


def _changed(document: object, path: list[str], change: Any) -> Any:
    """Return a copy of the document in which the container at the end of the path is replaced by `change(container,
    last part of the path)`. Only the containers on the path are copied."""
    if not isinstance(document, dict | list):
        raise _DoesNotApply
    if len(path) == 1:
        return change(document, path[0])
    return _with(document, path[0], _changed(_step(document, path[0]), path[1:], change))


def _add(document: object, path: list[str], value: object) -> Any:
    def add(container: Any, part: str) -> Any:
        if isinstance(container, dict):
            return {**container, part: value}
        place = len(container) if part == "-" else _index(container, part, end=len(container) + 1)
        return [*container[:place], value, *container[place:]]

    return _changed(document, path, add) if path else value


def _replace(document: object, path: list[str], value: object) -> object:
    return _changed(document, path, lambda container, part: _with(container, part, value)) if path else value


def _remove(document: object, path: list[str]) -> object:
    def remove(container: Any, part: str) -> object:
        if isinstance(container, list):
            place = _index(container, part, end=len(container))
            return [*container[:place], *container[place + 1 :]]
        if part not in container:
            raise _DoesNotApply
        return {key: value for key, value in container.items() if key != part}

    if not path:
        raise _DoesNotApply
    return _changed(document, path, remove)


def _equal(found: object, wanted: object) -> bool:
    """Return True if two JSON values are equal. Unlike in Python, true does not equal 1."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_equal(found[key], wanted[key]) for key in found)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_equal, found, wanted))
    return bool(found == wanted)


def merge_patch(current: object, patch: object) -> object:
    """Return `current` after a merge patch: objects are merged, null removes a field, and any other value replaces the
    old value."""
    if not isinstance(patch, dict):
        raise bad_request("Invalid JSON Patch")
    return _merged(current, patch)


def _merged(current: object, patch: dict[str, object]) -> dict[str, object]:
    result = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = value if key in result else without_nulls(value)
    return result


def without_nulls(value: object) -> object:
    """Return a new value without the nulls in its objects. In a merge patch, a null removes a field, and a new value
    has no fields to remove."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


_FIELDS = ("op", "path", "from", "value")


def wrong_operation(patch: object) -> str:
    """Return the strict decoder's error message if a part of a JSON patch has the wrong type; "" if all types are
    right."""
    if patch is None:
        return ""
    if not isinstance(patch, list):
        return f"{go_kind(patch)} into Go value of type []handlers.jsonPatchOp"
    for operation in patch:
        if operation is not None and not isinstance(operation, dict):
            return f"{go_kind(operation)} into Go value of type handlers.jsonPatchOp"
        for name in _FIELDS[:3]:
            if not isinstance(value := (operation or {}).get(name, ""), str):
                return f"{go_kind(value)} into Go struct field jsonPatchOp.{name} of type string"
    return ""


def unknown_fields(patch: Iterable[Any]) -> Iterator[str]:
    """Yield the paths of unknown fields in the patch: fields that no operation of a JSON patch has."""
    for place, operation in enumerate(patch):
        yield from (f"[{place}].{name}" for name in operation or () if name not in _FIELDS)


def go_kind(value: object) -> str:
    """Return the Go decoder's name for the type of a JSON value."""
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "bool"
        case _:
            return "number"
