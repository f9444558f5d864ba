"""CEL rules in the schema of a custom resource (`x-kubernetes-validations`).

A rule belongs to a node of the schema, and is evaluated for every value that the node describes. `self` is the value,
and `oldSelf` is the value before the update. A rule that reads `oldSelf` is a transition rule, which is skipped if
there is no old value. Rules are evaluated only on objects that are otherwise valid.

The CEL library that this server uses lacks some of Kubernetes' extensions of CEL, such as optional fields (`a.?b`),
sums of quantities, and versions. A rule that needs one of them is stored but not enforced, and the author of the
definition gets a warning. If the server refused the definition instead, users could not have any object of its kind.
Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from phalanx.embedded.apimachinery.caching import RULE, cached
from phalanx.embedded.apimachinery.expressions import functions
from phalanx.embedded.apimachinery.expressions.cel import CelScope, CelView, ExpressionError, compiled, optional
from phalanx.embedded.apimachinery.expressions.metering import Budget, undeclared, undeclared_function
from phalanx.embedded.apimachinery.expressions.type_check import DYN, Type, TypeShape, check
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from phalanx.embedded.apimachinery.schema.typed import ABSENT, equal
from phalanx.embedded.apiserver.registry.crd.structural import Schema, correlated, type_name

RULES = "x-kubernetes-validations"
_OLD_SELF = re.compile(r"\boldSelf\b")
_STRINGS = re.compile(r"\"(?:\\.|[^\"\\])*+\"?|'(?:\\.|[^'\\])*+'?")
_OPTIONAL = re.compile(r"\.\?|\[\s*+\?")
_CALL = re.compile(r"\b([A-Za-z_]\w*+)\s*+\(")
_KNOWN_CALLS = frozenset(
    (
        *("all", "exists", "exists_one", "filter", "has", "map", "in"),
        *("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),
        *("contains", "endsWith", "matches", "size", "startsWith"),
        *("charAt", "find", "findAll", "indexOf", "isSorted", "join", "lastIndexOf", "lowerAscii", "replace", "split"),
        *("substring", "sum", "trim", "upperAscii"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
        *("getMinutes", "getMonth", "getSeconds"),
        *("quantity", "isQuantity", "compareTo", "isLessThan", "isGreaterThan"),
        *functions.FUNCTIONS,
        *("hasValue", "orValue", "value"),
    )
)
_DECLARED = frozenset({"self", "oldSelf"})


def broken(
    value: object, schema: Schema, old: object = ABSENT, path: str = "", budget: Budget | None = None
) -> Iterator[Cause]:
    """Yield one error for each violated rule. For a value that has not changed, only transition rules are evaluated.
    `budget`: the total cost that all rules of an object may have."""
    budget = budget or Budget()
    if schema.get(RULES):
        yield from _broken_here(schema, value, old, path, budget)
    match value:
        case dict():
            before = old if isinstance(old, dict) else {}
            for key, inner in _inner(value, schema):
                yield from broken(value[key], inner, before.get(key, ABSENT), f"{path}.{key}" if path else key, budget)
        case list() if isinstance(schema.get("items"), Mapping):
            former = correlated(old, schema)
            for place, item in enumerate(value):
                yield from broken(item, schema["items"], former(item), f"{path}[{place}]", budget)


def ruled(schema: Schema) -> Schema | None:
    """Return only the parts of the schema that contain rules, so that `broken` visits only these parts; None if the
    schema contains no rule."""
    inner = {key: _ruled(schema.get(key)) for key in ("items", "additionalProperties")}
    properties = {key: found for key, one in (schema.get("properties") or {}).items() if (found := _ruled(one))}
    if schema.get(RULES) and (any("__" in rule["rule"] for rule in schema[RULES]) or _has_typed_texts(schema)):
        return schema  # to escape names and to read times, the rules need the whole schema of their value
    if not (schema.get(RULES) or properties or any(inner.values())):
        return None
    rest = {key: value for key, value in schema.items() if key not in ("properties", *inner)}
    return rest | {"properties": properties} | {key: found for key, found in inner.items() if found}


def _ruled(schema: object) -> Schema | None:
    return ruled(schema) if isinstance(schema, Mapping) else None


def _inner(value: Mapping[str, object], schema: Schema) -> Iterator[tuple[str, Schema]]:
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for key in value:
        inner = properties.get(key, extra)
        if isinstance(inner, Mapping):
            yield key, inner


def _broken_here(schema: Schema, value: object, old: object, path: str, budget: Budget) -> Iterator[Cause]:
    """Yield an error for each violated rule of this schema node. Rules that read the value as it is stored, without
    escaped names or converted strings, share one scope."""
    due = [rule for rule in schema.get(RULES) or () if _is_due(rule, value, old, path)]
    variables = {"self": value, "oldSelf": None if old is ABSENT else old}
    typed = bool(due) and _has_typed_texts(schema)
    apart = typed or any(rule.get("optionalOldSelf") for rule in due)
    alike = () if apart else tuple(rule["rule"] for rule in due if _sees_all(rule["rule"]))
    shared = CelScope(_view(alike).of(variables), budget) if len(alike) > 1 else None
    for rule in due:
        text = rule["rule"]
        seen = variables if is_transition(text) else {"self": value}
        if typed or "__" in text:
            seen = {name: _escaped(one, schema) for name, one in seen.items()}
        if rule.get("optionalOldSelf"):
            seen = {"self": seen["self"], "oldSelf": optional(*(() if old is ABSENT else (seen["oldSelf"],)))}
        cause = _broken(rule, seen, shared if text in alike else None, path, budget)
        if cause is not None:
            yield cause


def _is_due(rule: Mapping[str, Any], value: object, old: object, path: str) -> bool:
    text = rule["rule"]
    transition = is_transition(text)
    if old is ABSENT and transition and not rule.get("optionalOldSelf"):
        return False
    return not ((path and not transition and equal(value, old)) or unsupported(text))


def _sees_all(text: str) -> bool:
    """Return True if the rule can share the scope of other rules. Such a rule uses no escaped names, and the limit on
    its evaluation does not depend on the size of the scope."""
    try:
        return "__" not in text and not compiled(text).grows
    except ExpressionError:
        return False


def _broken(
    rule: Mapping[str, Any], variables: Mapping[str, object], scope: CelScope | None, path: str, budget: Budget
) -> Cause | None:
    """Return an error if the rule is violated. `scope`: a scope that several rules share; None to create a new one."""
    text, place = rule["rule"], path + (rule.get("fieldPath") or "")
    try:
        budget.tick()  # count each evaluation, because a rule about the items of a list is evaluated for each item
        if compiled(text).evaluate(scope or CelScope(_view((text,)).of(variables), budget)) is True:
            return None
    except (ValueError, ExpressionError) as error:
        said = f"{error} evaluating rule: {rule.get('message') or text}"
        return invalid_value(path or "<nil>", type_name(variables["self"]), said)
    said, value = _message(rule, variables), variables["self"]
    match rule.get("reason"):
        case "FieldValueForbidden":
            return forbidden_field(place or "<nil>", said)
        case "FieldValueRequired":
            return required(place or "<nil>", said)
        case "FieldValueDuplicate":
            return duplicate(place or "<nil>", value)
        case _ if isinstance(value, (dict, list)):
            return Cause("FieldValueInvalid", f"Invalid value: {said}", place or "<nil>")
        case _:
            return invalid_value(place or "<nil>", value, said)


def _message(rule: Mapping[str, Any], variables: Mapping[str, object]) -> str:
    if rule.get("messageExpression") and not unsupported(rule["messageExpression"]):
        try:
            said = compiled(rule["messageExpression"]).evaluate(variables)
            if isinstance(said, str) and said.strip() and "\n" not in said:
                return said
        except ExpressionError:
            pass
    return str(rule.get("message") or f"failed rule: {rule['rule']}")


@cached(4096, RULE)
def _view(texts: tuple[str, ...]) -> CelView:
    """Return a view of the parts of a value that these rules read. Only these parts are converted for CEL, because
    converting the whole value would cost more than evaluating the rules."""
    return CelView(texts)


@cached(4096, RULE)
def is_transition(text: str) -> bool:
    """Return True if the rule compares the object with its old version."""
    return _OLD_SELF.search(_STRINGS.sub("''", text)) is not None


@cached(4096, RULE)
def unsupported(text: str) -> str:
    """Return the part of the rule that this server cannot evaluate; "" if it can evaluate all parts."""
    code = _STRINGS.sub("''", text)
    if match := _OPTIONAL.search(code):
        return match[0].replace(" ", "")
    return next((f"{name}()" for name in _CALL.findall(code) if name not in _KNOWN_CALLS), "")


def not_enforced(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield each rule of a schema that this server cannot evaluate, with the part of the rule that is unsupported."""
    for rule in schema.get(RULES) or ():
        if what := unsupported(rule.get("rule") or ""):
            yield rule["rule"], what
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for one in inner:
        if isinstance(one, Mapping):
            yield from not_enforced(one)


def mistakes(text: str, schema: Schema, *, root: bool = False) -> str:
    """Return the reason why a rule cannot be used with its schema; "" if it can."""
    if unsupported(text):
        return f"compilation failed: {wrong}" if (wrong := undeclared_function(text)) else ""
    wrong, sort = _compiled_as(text, schema, root=root)
    if wrong:
        return f"compilation failed: {wrong}"
    return "" if sort in ("bool", DYN) else "cel expression must evaluate to a bool"


def message_mistake(text: str, schema: Schema, *, root: bool = False) -> str:
    """Return the reason why an expression cannot be the message of a rule; "" if it can."""
    if unsupported(text):
        return f"messageExpression compilation failed: {wrong}" if (wrong := undeclared_function(text)) else ""
    wrong, sort = _compiled_as(text, schema, root=root)
    if wrong:
        return f"messageExpression compilation failed: {wrong}"
    return "" if sort in ("string", DYN) else "messageExpression must evaluate to a string"


def _compiled_as(text: str, schema: Schema, *, root: bool) -> tuple[str, Type]:
    """Return the error of an expression that cannot be compiled or has type errors (otherwise ""), and the type of its
    value. Types are checked here, because the CEL library does not check them."""
    try:
        compiled(text)
    except ExpressionError as error:
        return (str(error) if str(error).startswith("ERROR: ") else f"ERROR: {error}"), DYN
    if wrong := undeclared(text, _DECLARED):
        return wrong, DYN
    own = type_of({**schema, "x-kubernetes-embedded-resource": True} if root else schema)
    verdict = check(text, {"self": own, "oldSelf": own})
    return "\n".join(verdict.errors), verdict.type


# The fields of a resource that rules may always read, even if its schema does not define them.
_OF_RESOURCES: dict[str, Type] = {"apiVersion": "string", "kind": "string", "metadata": DYN}
_FORMATS = {"date-time": "timestamp", "date": "timestamp", "duration": "duration", "byte": "bytes"}


def type_of(schema: object) -> Type:
    """Return the type that values of a schema have in rules (k8s.io/apiserver/pkg/cel/common, `SchemaDeclType`)."""
    if not isinstance(schema, Mapping) or schema.get("nullable") or schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "integer":
            return "int"
        case "number":
            return "double"
        case "boolean":
            return "bool"
        case "string":
            return _FORMATS.get(schema.get("format") or "", "string")
        case "array":
            return ("list", type_of(schema.get("items")))
        case "object" if isinstance(schema.get("additionalProperties"), Mapping):
            return ("map", "string", type_of(schema["additionalProperties"]))
        case "object" if schema.get("properties") or schema.get("x-kubernetes-embedded-resource"):
            return TypeShape(partial(_field, schema))
    return DYN


def _field(schema: Schema, name: str) -> Type | None:
    """Return the type of the field `name` (escaped) of objects with this schema; None if rules cannot read such a
    field."""
    name, properties = unescaped(name), schema.get("properties") or {}
    if schema.get("x-kubernetes-embedded-resource") and name in _OF_RESOURCES:
        return _OF_RESOURCES[name]
    if name in properties:
        return type_of(properties[name])
    return DYN if schema.get("x-kubernetes-preserve-unknown-fields") else None


# Rules write these escapes in the names of properties that are not identifiers or are reserved words of CEL.
_SIGNS = (("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"))
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


def _escape(name: str) -> str:
    """Return the name of a property as rules write it: `a-b` -> `a__dash__b`, `namespace` -> `__namespace__`."""
    if name in _RESERVED:
        return f"__{name}__"
    for word, sign in _SIGNS:
        name = name.replace(sign, word)
    return name


def unescaped(name: str) -> str:
    """Return the name of a property from its name in rules: `a__dash__b` -> `a-b`."""
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _RESERVED:
        return name[2:-2]
    for word, sign in reversed(_SIGNS):
        name = name.replace(word, sign)
    return name


def _has_typed_texts(schema: object) -> bool:
    """Return True if the schema has strings that rules read as times, durations or bytes."""
    if not isinstance(schema, Mapping):
        return False
    if schema.get("type") == "string":
        return schema.get("format") in _FORMATS
    inner = (schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values())
    return any(map(_has_typed_texts, inner))


def _typed_text(text: str, form: str) -> Any:
    """Return the time, duration or bytes that a string of this format stands for; the string itself if it does not have
    the format."""
    try:
        match form:
            case "date-time" | "date":
                found = dt.datetime.fromisoformat(text)
                return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
            case "duration":
                return compiled("duration(self)").evaluate({"self": text})
            case "byte":
                return base64.b64decode(text, validate=True)
    except (ValueError, ExpressionError):
        return text
    return text


def _escaped(value: object, schema: object) -> Any:
    """Return a value as rules read it: properties have their escaped names, keys of maps are unchanged, and strings of
    some formats become times, durations or bytes."""
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, str) and schema.get("format") in _FORMATS:
        return _typed_text(value, schema["format"])
    if isinstance(value, list):
        return [_escaped(item, schema.get("items")) for item in value]
    if not isinstance(value, dict):
        return value
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    return {
        _escape(key) if key in properties else key: _escaped(one, properties.get(key, extra))
        for key, one in value.items()
    }
