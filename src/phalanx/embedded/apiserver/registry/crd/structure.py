"""Find the reasons why a schema is not structural, with the messages of kube-apiserver.

A structural schema gives each field a type outside of `anyOf`, `oneOf`, `allOf` and `not`, which may only restrict
values further. Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go and complete.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phalanx.embedded.apimachinery.expressions.pattern import PatternError, compiled
from phalanx.embedded.apimachinery.meta.status import Cause, forbidden_field, invalid_value, required

Json = Mapping[str, Any]

INT_OR_STRING, PRESERVE = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_EITHER = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("anyOf", "allOf", "oneOf")
# The keywords that a schema inside `anyOf`, `oneOf`, `allOf` or `not` must not set, with the last word of the message
# (`must be empty`).
_NESTED: Mapping[str, str] = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    PRESERVE: "false",
    EMBEDDED: "false",
    INT_OR_STRING: "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}


def structure_causes(schema: Json, path: str, *, root: bool) -> list[Cause]:
    """Return the errors in the structure of a schema, sorted by their messages."""
    found = [*_invariants(schema, path, _ROOT if root else _FIELD), *_incomplete(schema, schema, path, path)]
    return sorted(found, key=Cause.line)


def unreadable(schema: Json) -> bool:
    """Return True if a schema contains a keyword that no structural schema can have, so that its structure is not
    checked."""
    if any(schema.get(word) for word in ("$ref", "definitions", "dependencies", "patternProperties", "id")):
        return True
    if schema.get(PRESERVE) is False or isinstance(schema.get("items"), list) or schema.get("type") == "null":
        return True
    return any(unreadable(inner) for inner in parts(schema))


def parts(schema: Json) -> Iterator[Json]:
    """Yield the schemas that are directly inside a schema."""
    for _, inner in _typed_parts(schema, ""):
        yield inner
    for _, inner in _restrictions(schema, ""):
        yield inner


def _typed_parts(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    if isinstance(items := schema.get("items"), Mapping):
        yield f"{path}.items", items
    for key, inner in sorted((schema.get("properties") or {}).items()):
        yield f"{path}.properties[{key}]", inner or {}
    if isinstance(extra := schema.get("additionalProperties"), Mapping):
        yield f"{path}.additionalProperties", extra


def _restrictions(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    for word in _JUNCTORS:
        for place, inner in enumerate(schema.get(word) or ()):
            yield f"{path}.{word}[{place}]", inner or {}
    if isinstance(inner := schema.get("not"), Mapping):
        yield f"{path}.not", inner


def _invariants(schema: Json, path: str, level: str) -> Iterator[Cause]:
    sort, free, embedded = schema.get("type"), schema.get(PRESERVE), schema.get(EMBEDDED)
    if sort == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    for here, inner in _typed_parts(schema, path):
        yield from _invariants(inner, here, _ITEM if here == f"{path}.items" else _FIELD)
    if schema.get("additionalProperties") is not None:
        if level == _ROOT:
            yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
        if embedded:
            yield forbidden_field(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
    if schema.get(INT_OR_STRING):
        for word in (PRESERVE, EMBEDDED):
            if schema.get(word):
                yield invalid_value(f"{path}.{word}", True, f"must be false if {INT_OR_STRING} is true")
    yield from _values(schema, path, int_or_string=bool(schema.get(INT_OR_STRING)))
    if embedded and sort != "object":
        text = f"must be object if {EMBEDDED} is true"
        yield invalid_value(f"{path}.type", sort, text) if sort else required(f"{path}.type", text)
    elif not sort and not free and not schema.get(INT_OR_STRING):
        yield required(f"{path}.type", f"must not be empty {level}")
    if level == _ROOT and sort and sort != "object":
        yield invalid_value(f"{path}.type", sort, "must be object at the root")
    yield from _of_resource(schema, path, level)


def _of_resource(schema: Json, path: str, level: str) -> Iterator[Cause]:
    """Yield the errors in the fields that every resource has."""
    properties, is_resource = schema.get("properties") or {}, level == _ROOT or schema.get(EMBEDDED)
    for key, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if is_resource and key in properties and (sort := (properties[key] or {}).get("type", "")) != wanted:
            yield invalid_value(f"{path}.properties[{key}].type", sort, f"must be {wanted}")
    if level == _ROOT and "metadata" in properties:
        inner = properties["metadata"] or {}
        only_names = set(inner.get("properties") or {}) <= {"name", "generateName"}
        if not only_names or set(inner) - {"type", "default", "properties"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden_field(f"{path}.properties[metadata]", text)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not properties:
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield required(f"{path}.properties", text)


def _values(schema: Json, path: str, *, int_or_string: bool = False) -> Iterator[Cause]:
    """Yield the errors in the keywords that restrict the values of a schema."""
    of_all: list[Json] = schema.get("allOf") or []
    for here, inner in _restrictions(schema, path):
        if here.startswith(f"{path}.anyOf[") and int_or_string and schema["anyOf"] == _EITHER:
            continue
        bare = inner
        if here == f"{path}.allOf[0]" and int_or_string and of_all[0].get("anyOf") == _EITHER:
            bare = {key: value for key, value in inner.items() if key != "anyOf"}
        yield from _nested(bare, here)
    if pattern := schema.get("pattern"):
        try:
            compiled(pattern)
        except PatternError as error:
            yield invalid_value(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")


def _nested(schema: Json, path: str) -> Iterator[Cause]:
    yield from _values(schema, path)
    for here, inner in _typed_parts(schema, path):
        if here != f"{path}.additionalProperties":
            yield from _nested(inner, here)
    for word, how in _NESTED.items():
        if schema.get(word) or (how == "undefined" and schema.get(word) is not None):
            yield forbidden_field(f"{path}.{word}", f"must be {how} to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _incomplete(values: Json, schema: Json, path: str, named: str) -> Iterator[Cause]:
    """Yield an error for each field that occurs in a restriction (`anyOf`, …) but not in the part of the schema that
    defines types."""
    for here, inner in _restrictions(values, named):
        yield from _incomplete_part(inner, schema, path, here)


def _incomplete_part(values: Json, schema: object, path: str, named: str) -> Iterator[Cause]:
    if not isinstance(schema, Mapping):
        yield required(path, f"because it is defined in {named}")
        return
    yield from _incomplete(values, schema, path, named)
    if isinstance(items := values.get("items"), Mapping):
        yield from _incomplete_part(items, schema.get("items"), f"{path}.items", f"{named}.items")
    for key, inner in sorted((values.get("properties") or {}).items()):
        place, own = f".properties[{key}]", (schema.get("properties") or {}).get(key)
        yield from _incomplete_part(inner or {}, own, path + place, named + place)
