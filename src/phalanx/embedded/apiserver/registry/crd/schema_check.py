"""Find the errors in the schema of a custom resource: in its structure, its keywords, its defaults and its rules.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from phalanx.embedded.apimachinery.meta.status import Cause, forbidden_field, invalid_value, not_supported, required
from phalanx.embedded.apiserver.registry.crd.field_path import path_problem
from phalanx.embedded.apiserver.registry.crd.list_types import list_type_causes
from phalanx.embedded.apiserver.registry.crd.rules import RULES, is_transition, message_mistake, mistakes
from phalanx.embedded.apiserver.registry.crd.structural import causes
from phalanx.embedded.apiserver.registry.crd.structure import PRESERVE, structure_causes, unreadable

Json = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = ("metadata", "kind", "apiVersion")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_FORBIDDEN_WORDS = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_BREAKS = ("\n", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The place of a part in a schema. `rules`: True if the rules of the part are compiled. `no_default`: the reason
    why a default is forbidden in the part; "" if a default is allowed. `uncorrelated`: the enclosing part, if its new
    values cannot be matched with its old values (such as the items of a list without keys)."""

    root: bool = False
    rules: bool = True
    no_default: str = ""
    uncorrelated: str = ""


def schema_causes(schema: Json, path: str, *, root: bool = False) -> list[Cause]:
    """Return the errors of a schema. Rules are compiled only if the structure of the schema has no errors."""
    is_read = not unreadable(schema)
    found = structure_causes(schema, path, root=root) if is_read else []
    found = found or (list(_defaults(schema, path)) if is_read else [])
    words, rules = _words(schema, path, _Place(root=root, rules=is_read and not found))
    return [*found, *words, *rules]


def _defaults(schema: Json, path: str) -> Iterator[Cause]:
    """Yield the errors of the defaults in all parts of a schema. Messages name fields relative to the default."""
    if schema.get("default") is not None:
        here = f"{path}.default"
        for cause in causes(schema["default"], schema, path=here):
            text = cause.message.replace(f"{here}.", "").replace(f"{here} in body", " in body")
            yield replace(cause, message=text)
    for place, inner in _typed_parts(schema, path):
        yield from _defaults(inner, place)


def _typed_parts(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    if isinstance(extra := schema.get("additionalProperties"), Mapping):
        yield f"{path}.additionalProperties", extra
    for key, inner in sorted((schema.get("properties") or {}).items()):
        yield f"{path}.properties[{key}]", inner or {}
    if isinstance(items := schema.get("items"), Mapping):
        yield f"{path}.items", items


def _words(schema: Json, path: str, place: _Place) -> tuple[list[Cause], list[Cause]]:
    """Return the errors in the keywords of a schema and of all its parts, and the errors in its rules. The rules of a
    part with a wrong keyword are not compiled."""
    words, rules = list(_plain_words(schema, path, place)), list[Cause]()
    for here, inner, below in _parts(schema, path, place):
        in_words, in_rules = _words(inner, here, below)
        words += in_words
        rules += in_rules
    words += _kubernetes_words(schema, path)
    words += list_type_causes(schema, path)
    words += (cause for cause in _rule_words(schema, path))
    if place.rules and not words:
        rules += _compiled(schema, path, place)
    return words, rules


def _parts(schema: Json, path: str, place: _Place) -> Iterator[tuple[str, Json, _Place]]:
    plain = replace(place, root=False)
    uncorrelated = replace(plain, uncorrelated=place.uncorrelated or path)
    if isinstance(extra := schema.get("additionalProperties"), Mapping):
        yield f"{path}.additionalProperties", extra, plain
    for key, inner in sorted((schema.get("properties") or {}).items()):
        below = uncorrelated if schema.get("x-kubernetes-map-type") == "atomic" else plain
        if place.root and key in _META:
            below = replace(below, no_default=f"in top-level {key}")
        yield f"{path}.properties[{key}]", inner or {}, below
    free = replace(plain, rules=False)
    if isinstance(inner := schema.get("not"), Mapping):
        yield f"{path}.not", inner, free
    for word in ("allOf", "oneOf", "anyOf"):
        for number, inner in enumerate(schema.get(word) or ()):
            yield f"{path}.{word}[{number}]", inner or {}, free
    if isinstance(items := schema.get("items"), Mapping):
        is_keyed = schema.get("x-kubernetes-list-type") == "map"
        yield f"{path}.items", items, plain if is_keyed else uncorrelated


def _plain_words(schema: Json, path: str, place: _Place) -> Iterator[Cause]:
    if (sort := schema.get("type")) and sort not in _TYPES:
        yield not_supported(f"{path}.type", sort, _TYPES)
    if schema.get("default") is not None and place.no_default:
        yield forbidden_field(f"{path}.default", f"must not be set {place.no_default}")
    for word in _FORBIDDEN_WORDS:
        if schema.get(word):
            yield forbidden_field(f"{path}.{word}", f"{word} is not supported")
    if sort == "null":
        yield forbidden_field(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", text)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", text)


def _kubernetes_words(schema: Json, path: str) -> Iterator[Cause]:
    sort, of_map = schema.get("type"), schema.get("x-kubernetes-map-type")
    if schema.get(PRESERVE) is False:
        yield invalid_value(f"{path}.{PRESERVE}", False, "must be true or undefined")
    if of_map is None:
        return
    if sort != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        yield invalid_value(f"{path}.type", sort, text) if sort else required(f"{path}.type", text)
    if of_map not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", of_map, ("atomic", "granular"))


def _rule_words(schema: Json, path: str) -> Iterator[Cause]:
    for number, rule in enumerate(schema.get(RULES) or ()):
        here, text, message = f"{path}.{RULES}[{number}]", rule.get("rule") or "", rule.get("message") or ""
        if not text.strip():
            yield required(f"{here}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid_value(f"{here}.message", message, "must be non-empty if specified")
        elif any(sign in message.strip() for sign in _BREAKS):
            yield invalid_value(f"{here}.message", message, "must not contain line breaks")
        elif any(sign in text.strip() for sign in _BREAKS) and not message:
            yield required(f"{here}.message", "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            yield required(f"{here}.messageExpression", "messageExpression must be non-empty if specified")
        if (reason := rule.get("reason")) is not None and reason not in _REASONS:
            yield not_supported(f"{here}.reason", reason, _REASONS)
        yield from _field_path(schema, rule.get("fieldPath") or "", f"{here}.fieldPath")


def _field_path(schema: Json, given: str, path: str) -> Iterator[Cause]:
    if given and not given.strip():
        yield invalid_value(path, given, "must be non-empty if specified")
    if any(sign in given for sign in _BREAKS):
        yield invalid_value(path, given, "must not contain line breaks")
    if given and path_problem(given, schema):
        yield invalid_value(path, given, "must be a valid path")


def _compiled(schema: Json, path: str, place: _Place) -> Iterator[Cause]:
    for number, rule in enumerate(schema.get(RULES) or ()):
        here, text, expression = f"{path}.{RULES}[{number}]", rule["rule"], rule.get("messageExpression") or ""
        if mistake := mistakes(text, schema, root=place.root):
            yield invalid_value(f"{here}.rule", _shown(rule), mistake)
        elif expression and (mistake := message_mistake(expression, schema, root=place.root)):
            yield invalid_value(f"{here}.messageExpression", _shown(rule), mistake)
        if not is_transition(text):
            if rule.get("optionalOldSelf") is not None and not mistake:
                said = "may not be set if oldSelf is not used in rule"
                yield invalid_value(f"{here}.optionalOldSelf", rule["optionalOldSelf"], said)
        elif place.uncorrelated:
            said = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
            yield invalid_value(f"{here}.rule", text, said)


def _shown(rule: Json) -> Json:
    """Return a rule as error messages print it: with the fields of kube-apiserver's internal Go type."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
