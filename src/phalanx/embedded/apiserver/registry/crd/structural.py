"""Apply structural schemas to custom resources: remove unknown fields (pruning), set defaults, and validate.

A structural schema defines the type of every field, so the server can handle a custom resource like a built-in one. It
removes unknown fields (`pruned`), sets the defaults of missing fields (`defaulted`), and validates values (`causes`)
with the messages of go-openapi's validator. CEL rules are in `rules.py`.

An update is not refused for an invalid value that it does not change (ratcheting, KEP-4008). Sources:
k8s.io/apiextensions-apiserver/pkg/apiserver/schema (pruning, defaulting, listtype) and /validation.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.expressions.pattern import PatternError, compiled
from phalanx.embedded.apimachinery.meta.status import (
    NO_FIELD,
    Cause,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from phalanx.embedded.apimachinery.schema import string_format
from phalanx.embedded.apimachinery.schema.typed import ABSENT, equal

Schema = Mapping[str, Any]
Object = dict[str, Any]
ALWAYS_KEPT = frozenset({"apiVersion", "kind", "metadata"})
_PRESERVE, _EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"


def _below(schema: Schema, key: str) -> Schema | None:
    """Return the schema of a property or of a map value; None if there is none."""
    found = (schema.get("properties") or {}).get(key)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# --- pruning -----------------------------------------------------------------------------------------------------


def pruned(obj: Object, schema: Schema) -> list[str]:
    """Remove the fields of `obj` that the schema does not name, in place. Return the paths of the removed fields,
    sorted."""
    unknown: list[str] = []
    _prune(obj, schema, "", unknown, root=True)
    return sorted(unknown)


def _prune(value: object, schema: Schema, path: str, unknown: list[str], *, root: bool = False) -> None:
    if isinstance(value, list):
        if isinstance(items := schema.get("items"), Mapping):
            for place, item in enumerate(value):
                _prune(item, items, f"{path}[{place}]", unknown)
        return
    if not isinstance(value, dict):
        return
    kept = ALWAYS_KEPT if root or schema.get(_EMBEDDED) else frozenset()
    free = schema.get(_PRESERVE) or schema.get("additionalProperties") is True
    for key in list(value):
        if key in kept:
            continue
        inner = _below(schema, key)
        if inner is not None:
            _prune(value[key], inner, _at(path, key), unknown)
        elif not free:
            del value[key]
            unknown.append(_at(path, key))


def embedded_metadata(value: object, schema: Schema, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the metadata of each whole object inside a value (`x-kubernetes-embedded-resource`). If the
    metadata is null, replace it by an empty map."""
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for place, item in enumerate(value):
            yield from embedded_metadata(item, items, f"{path}[{place}]")
    if not isinstance(value, dict):
        return
    if schema.get(_EMBEDDED) and path and "metadata" in value:
        if value["metadata"] is None:
            value["metadata"] = {}
        yield _at(path, "metadata"), value["metadata"]
    for key, one in value.items():
        if isinstance(one, dict | list) and (inner := _below(schema, key)) is not None:
            yield from embedded_metadata(one, inner, _at(path, key))


# --- defaulting --------------------------------------------------------------------------------------------------


def defaulted(value: object, schema: Schema) -> None:
    """Set defaults in place. A null that the schema does not allow is treated as a missing field."""
    if isinstance(value, list):
        if isinstance(items := schema.get("items"), Mapping):
            for item in value:
                defaulted(item, items)
        return
    if not isinstance(value, dict):
        return
    for key, inner in (schema.get("properties") or {}).items():
        if value.get(key) is None and not (key in value and inner.get("nullable")):
            value.pop(key, None)
            if "default" in inner:
                value[key] = copy.deepcopy(inner["default"])
    for key in list(value):
        inner = _below(schema, key)
        if inner is None:
            continue
        if value[key] is None and not inner.get("nullable"):
            del value[key]
        else:
            defaulted(value[key], inner)


# --- checking ----------------------------------------------------------------------------------------------------


def causes(value: Any, schema: Schema, old: Any = ABSENT, path: str = "") -> Iterator[Cause]:
    """Yield the errors of a value, except those that the old value had as well. As in k8s.io/kube-openapi, the check
    continues after a wrong type: for example, it also reports that the value is not in an enumeration."""
    if path and equal(value, old):
        return
    kind = type_name(value)
    if value is None and schema.get("nullable"):
        return
    if wanted := _wanted_type(schema):
        yield from _type_causes(value, schema, wanted, kind, path)
    if value is not None:
        yield from _combined_causes(value, schema, path)
    match value:
        case str():
            yield from _string_causes(value, schema, path)
        case bool():
            pass
        case int() | float():
            yield from _number_causes(value, schema, path)
        case list():
            yield from _list_causes(value, schema, old, path)
        case dict():
            yield from _object_causes(value, schema, old, path)
    if "enum" in schema and not any(_equals(value, one) for one in schema["enum"]):
        yield not_supported(path, value, [_plain(one) for one in schema["enum"]])


def _equals(value: object, allowed: object) -> bool:
    """Return True if a value equals an allowed value of an enumeration. A float is compared with an allowed integer as
    an integer."""
    if isinstance(value, float) and type(allowed) is int:
        return int(value) == allowed
    return equal(value, allowed)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def type_name(value: object) -> str:
    """Return the name of the value's type in OpenAPI."""
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _wanted_type(schema: Schema) -> str:
    return "int-or-string" if schema.get(_INT_OR_STRING) else schema.get("type") or ""


def _fits(kind: str, value: Any, wanted: str) -> bool:
    match wanted:
        case "int-or-string":
            return kind in ("integer", "string")
        case "number":
            return kind in ("integer", "number")
        case "integer":
            return kind == "integer" or (kind == "number" and float(value).is_integer())
        case _:
            return kind == wanted


def _in_body(path: str, said: str) -> str:
    return f"{path} in body {said}" if path else f"in body {said}"


def _wrong(path: str, value: object, said: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {_shown(value)}: {_in_body(path, said)}", path)


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


_GO_FORMATS = {"integer": "int64", "number": "double"}


def _type_causes(value: object, schema: Schema, wanted: str, kind: str, path: str) -> Iterator[Cause]:
    """Yield the error for a value of a wrong type. If the schema has a known format, the type of strings and lists is
    not checked. For any other value of a wrong type, the message names the format as the required type."""
    form = schema.get("format") or ""
    fits = _fits(kind, value, wanted)
    if form and value is not None and string_format.is_known(form, wanted):
        if kind not in ("string", "array"):
            if not fits:
                yield _type_cause(path, form, _GO_FORMATS.get(kind, ""))
            return
        if wanted not in ("number", "integer"):
            return
    if not fits:
        yield _type_cause(path, wanted, kind)


def _type_cause(path: str, wanted: str, found: str) -> Cause:
    wanted = "integer,string" if wanted == "int-or-string" else wanted
    said = _in_body(path, f'must be of type {wanted}: "{found}"')
    return Cause("FieldValueTypeInvalid", f'Invalid value: "{found}": {said}', path)


def _string_causes(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    """Check the maximum length, the minimum length and the pattern of a string, and yield an error for the first that
    it violates. Also yield an error for a wrong format."""
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        yield too_long(path, longest)
    elif shortest is not None and len(value) < shortest:
        yield _wrong(path, value, f"should be at least {shortest} chars long")
    elif pattern and not _matches(pattern, value):
        yield _wrong(path, value, f"should match '{pattern}'")
    if not string_format.fits(value, schema.get("format") or ""):
        said = _in_body(path, f"must be of type {schema['format']}: {_shown(value)}")
        yield Cause("FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {said}", path)


@cached(4096)
def _matches(pattern: str, value: str) -> bool:
    """Return True if the value matches the pattern. An invalid pattern matches every value. (No definition with an
    invalid pattern is accepted.)"""
    try:
        return compiled(pattern).search(value) is not None
    except PatternError:
        return True


def _number_causes(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    if schema.get("type") == "integer" and isinstance(value, float) and not value.is_integer():
        form = f"with format {schema['format']}" if schema.get("format") else "(default format)"
        said = f"Checked value must be of type integer {form} in {path}"
        yield Cause("FieldValueInvalid", f'Invalid value: "": {said}', NO_FIELD)
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if isinstance(value, int):  # as in kube-apiserver, an integer is compared with the integer part of the limit
        low, high = (None if one is None else int(one) for one in (low, high))
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        yield _wrong(
            path, value, f"should be greater than {'' if schema.get('exclusiveMinimum') else 'or equal to '}{low}"
        )
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        yield _wrong(
            path, value, f"should be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{high}"
        )
    # as in kube-apiserver, an integer is divided by the integer part of the divisor
    if step and isinstance(value, int) and not int(step):
        yield invalid_value(path, 0, f"factor MultipleOf declared for {path} must be positive: 0")
    elif step and value % (int(step) if isinstance(value, int) else step):
        yield _wrong(path, value, f"should be a multiple of {step}")
    limit = {"int32": 2**31, "int64": 2**63}.get(schema.get("format") or "")
    if limit and not -limit <= value < limit:
        text = f"Checked value must be of type {schema['type']} with format {schema['format']} in {path}"
        yield invalid_value("<nil>", "", text)


def _list_causes(value: list[object], schema: Schema, old: object, path: str) -> Iterator[Cause]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        yield too_many(path, len(value), most)
    if least is not None and len(value) < least:
        yield _wrong(path, len(value), f"should have at least {least} items")
    former = correlated(old, schema)
    if isinstance(items := schema.get("items"), Mapping):
        for place, item in enumerate(value):
            yield from causes(item, items, former(item), f"{path}[{place}]")
    yield from _duplicates(value, schema, path)


def correlated(old: object, schema: Schema) -> Any:
    """Return a function that finds, for an item of the new list, the item of the old list with the same keys. If there
    is none, the function returns ABSENT. If the items of the list have no keys, the function always returns ABSENT."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda _: ABSENT
    held = {_identity(one, keys): one for one in old}
    return lambda item: held.get(_identity(item, keys), ABSENT)


def _identity(item: object, keys: Any) -> str:
    return _shown([item.get(key) for key in keys] if isinstance(item, dict) and keys else item)


def _duplicates(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    """Yield an error if an item occurs twice in a set, or if two items of a map-like list have the same keys."""
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    seen: Counter[str] = Counter()
    for place, item in enumerate(value):
        if item is None:
            continue
        if kind == "map" and not isinstance(item, dict):
            yield invalid_value(f"{path}[{place}]", item, "must be an object for an array of list-type map")
            continue
        shown = {key: item[key] for key in keys if key in item} if kind == "map" else item
        seen[identity := _shown(shown)] += 1
        if seen[identity] == 2:
            yield duplicate(f"{path}[{place}]", shown)


def _object_causes(value: Object, schema: Schema, old: object, path: str) -> Iterator[Cause]:
    """Yield the errors of an object."""
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        yield too_many(path, len(value), most)
    if least is not None and len(value) < least:
        yield _wrong(path, len(value), f"should have at least {least} properties")
    for key in schema.get("required") or ():
        if key not in value:
            yield required(_at(path, key))
    for key in ("apiVersion", "kind") if schema.get(_EMBEDDED) and path else ():
        if not value.get(key) and key not in (schema.get("required") or ()):
            yield required(_at(path, key))
    before = old if isinstance(old, dict) else {}
    for key, one in value.items():
        inner = _below(schema, key)
        if inner is not None and not (not path and key in ALWAYS_KEPT):
            yield from causes(one, inner, before.get(key, ABSENT), _at(path, key))


def _combined_causes(value: object, schema: Schema, path: str) -> Iterator[Cause]:
    """Yield an error if a value does not match a combination of schemas. For anyOf and oneOf, also yield the errors
    against the schema with the fewest errors; for allOf, yield the errors against all schemas."""
    if any_of := schema.get("anyOf"):
        found = [list(causes(value, inner, path=path)) for inner in any_of]
        if all(found):
            yield _of_combination(path, "must validate at least one schema (anyOf)")
            yield from min(found, key=len)
    if one_of := schema.get("oneOf"):
        found = [list(causes(value, inner, path=path)) for inner in one_of]
        if fitting := found.count([]):
            if fitting > 1:
                said = f"must validate one and only one schema (oneOf). Found {fitting} valid alternatives"
                yield _of_combination(path, said)
        else:
            yield _of_combination(path, "must validate one and only one schema (oneOf). Found none valid")
            yield from min(found, key=len)
    found = [list(causes(value, inner, path=path)) for inner in schema.get("allOf") or ()]
    yield from (cause for one in found for cause in one)
    if any(found):
        yield _of_combination(path, f"must validate all the schemas (allOf){'. None validated' if all(found) else ''}")
    if schema.get("not") is not None and next(causes(value, schema["not"], path=path), None) is None:
        yield _of_combination(path, "must not validate the schema (not)")


def _of_combination(path: str, said: str) -> Cause:
    """Return the error of a combination of schemas. The name of the field is only in the message of this error, not in
    its field `field`."""
    return Cause("FieldValueInvalid", f'Invalid value: "": "{path}" {said}', NO_FIELD)
