"""The errors of a CustomResourceDefinition, in the words of the real server.

Where every version has the same schema the real server keeps it once, above the versions, and speaks of it as
`spec.validation`; `_schema_path` follows it there. Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/
validation and /pkg/apiserver/schema/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from phalanx.embedded.apimachinery.expressions.jsonpath import steps_of
from phalanx.embedded.apimachinery.expressions.pattern import PatternError, compiled
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apiserver.registry.crd.list_types import list_type_causes
from phalanx.embedded.apiserver.registry.crd.rules import RULES, mistakes
from phalanx.embedded.apiserver.registry.crd.structural import causes

Json = Mapping[str, Any]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NOT_1123 = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_FREE = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_NO_PATH = "must be a simple json path starting with ."
_ROOT_WITH_STATUS = (
    'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
)
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def definition_causes(obj: Json) -> list[Cause]:
    """Return what is wrong with a new definition."""
    spec = obj.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    found = [
        *_approval_causes(obj, spec),
        *_name_causes(obj, spec, names),
        *_scope_causes(spec),
        *_version_causes(versions),
    ]
    found += _names_causes(names)
    found += [cause for place, version in enumerate(versions) for cause in _one_version(place, version, versions)]
    found += _conversion_causes(spec.get("conversion") or {})
    found += _unserved_causes(spec)
    if not (obj.get("status") or {}).get("storedVersions"):
        found.append(invalid_value("status.storedVersions", None, "must have at least one stored version"))
    return found


def change_causes(obj: Json, old: Json) -> list[Cause]:
    """Return the forbidden changes: an established definition keeps its group, scope and names."""
    found, spec, before = [], obj.get("spec") or {}, old.get("spec") or {}
    names, former = spec.get("names") or {}, before.get("names") or {}
    pairs = [("spec.group", spec.get("group"), before.get("group"))]
    if _established(old):
        pairs += [
            ("spec.scope", spec.get("scope"), before.get("scope")),
            ("spec.names.kind", names.get("kind"), former.get("kind")),
        ]
    pairs.append(("spec.names.plural", names.get("plural"), former.get("plural")))
    for path, new, was in pairs:
        if new != was:
            found.append(invalid_value(path, new, "field is immutable"))
    return [*found, *_stored_causes(obj, old), *_migration_causes(obj, old)]


def _stored_causes(obj: Json, old: Json) -> list[Cause]:
    have = {version.get("name") for version in (obj.get("spec") or {}).get("versions") or ()}
    stored = (old.get("status") or {}).get("storedVersions") or ()
    text = "missing from spec.versions; {} was previously a storage version, and must remain in spec.versions until a "
    text += "storage migration ensures no data remains persisted in {} and removes {} from status.storedVersions"
    return [
        invalid_value(f"status.storedVersions[{place}]", name, text.replace("{}", name))
        for place, name in enumerate(stored)
        if name not in have
    ]


def _migration_causes(obj: Json, old: Json) -> Iterator[Cause]:
    """Refuse a change of the storage version if objects may be stored in another version and only a webhook could
    convert them, because this server calls no conversion webhooks."""
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    storage = _storage(spec)
    stored = [name for name in (old.get("status") or {}).get("storedVersions") or () if name != storage]
    if calls_for_webhook(spec) and stored and (storage, True) != (_storage(before), calls_for_webhook(before)):
        why = f"this API server calls no conversion webhooks, and objects may be stored as {', '.join(stored)}, which "
        why += "nobody would convert; leave the storage version as it is, or delete the definition and create it again"
        yield forbidden_field("spec.conversion.strategy", why)


def _established(obj: Json) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


# --- names and versions ------------------------------------------------------------------------------------------


def _name_causes(obj: Json, spec: Json, names: Json) -> Iterator[Cause]:
    name, group = (obj.get("metadata") or {}).get("name", ""), spec.get("group", "")
    if name and name != f"{names.get('plural', '')}.{group}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif _SUBDOMAIN.fullmatch(group) is None:
        yield invalid_value("spec.group", group, _NOT_1123)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _approval_causes(obj: Json, spec: Json) -> Iterator[Cause]:
    """Yield the causes for a group of the Kubernetes project without its approval (KEP-1111)."""
    group, annotations = spec.get("group") or "", (obj.get("metadata") or {}).get("annotations") or {}
    if group.endswith((".k8s.io", ".kubernetes.io")) and not annotations.get("api-approved.kubernetes.io"):
        text = 'protected groups must have approval annotation "api-approved.kubernetes.io", see '
        text += "https://github.com/kubernetes/enhancements/pull/1111"
        yield required("metadata.annotations[api-approved.kubernetes.io]", text)


def _scope_causes(spec: Json) -> Iterator[Cause]:
    scope = spec.get("scope", "")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))


def _version_causes(versions: list[Json]) -> Iterator[Cause]:
    seen: set[str] = set()
    for place, version in enumerate(versions):
        name = version.get("name") or ""
        if name in seen:
            yield duplicate(f"spec.versions[{place}].name", name)
        seen.add(name)
        if _LABEL_1035.fullmatch(name) is None:
            if not place:
                yield invalid_value("spec.version", name, _NOT_1035)  # the older name of the first version
            yield invalid_value(f"spec.versions[{place}].name", name, _NOT_1035)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = [_internal(version, versions) for version in versions]
        yield invalid_value("spec.versions", shown, "must have exactly one version marked as storage version")


def _internal(version: Json, versions: list[Json]) -> dict[str, Any]:
    """Return a version with the fields of the real server's internal type, as error messages print it."""
    shared = _shares_schema(versions)
    return {
        "Name": version.get("name", ""),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None if shared else version.get("schema"),
        "Subresources": None if shared else version.get("subresources"),
        "AdditionalPrinterColumns": None if shared else version.get("additionalPrinterColumns"),
        "SelectableFields": None if shared else version.get("selectableFields"),
    }


def _conversion_causes(conversion: Json) -> Iterator[Cause]:
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook") or {}
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "Webhook":
        if not webhook.get("clientConfig"):
            yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
        if not webhook.get("conversionReviewVersions"):
            yield required("spec.conversion.conversionReviewVersions")


def calls_for_webhook(spec: Json) -> bool:
    """Return whether a webhook converts objects between the versions."""
    return (spec.get("conversion") or {}).get("strategy") == "Webhook"


def _storage(spec: Json) -> str:
    return next((str(one.get("name")) for one in spec.get("versions") or () if one.get("storage")), "")


def _unserved_causes(spec: Json) -> Iterator[Cause]:
    versions = spec.get("versions") or ()
    served = [one for one in versions if one.get("served")]
    if calls_for_webhook(spec) and served and not any(one.get("storage") for one in served):
        why = "this API server calls no conversion webhooks, so it can serve the storage version alone, and "
        yield forbidden_field("spec.conversion.strategy", f"{why}{_storage(spec) or 'that'} is not to be served")


def _names_causes(names: Json) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            yield required(f"spec.names.{field}")
        elif value and _LABEL_1035.fullmatch(value.lower() if "ind" in field else value) is None:
            detail = f"may have mixed case, but should otherwise match: {_NOT_1035}" if "ind" in field else _NOT_1035
            yield invalid_value(f"spec.names.{field}", value, detail)
    for field in ("shortNames", "categories"):
        for place, value in enumerate(names.get(field) or ()):
            if _LABEL_1035.fullmatch(value) is None:
                yield invalid_value(f"spec.names.{field}[{place}]", value, _NOT_1035)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


# --- one version -------------------------------------------------------------------------------------------------


def _shares_schema(versions: list[Json]) -> bool:
    """Return whether all versions have the same schema, subresources and columns."""
    parts = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    return all(version.get(part) == versions[0].get(part) for version in versions for part in parts)


def _schema_path(place: int, versions: list[Json]) -> str:
    return "spec.validation" if _shares_schema(versions) else f"spec.versions[{place}].schema"


def _one_version(place: int, version: Json, versions: list[Json]) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(f"spec.versions[{place}].schema.openAPIV3Schema")
        return
    if place and _shares_schema(versions):
        return
    path = f"{_schema_path(place, versions)}.openAPIV3Schema"
    if schema.get("type") != "object":
        if not schema.get("type"):
            yield required(f"{path}.type", "must not be empty at the root")
        else:
            yield invalid_value(f"{path}.type", schema["type"], "must be object at the root")
            if "status" in (version.get("subresources") or {}):
                yield invalid_value(f"{path}.type", schema["type"], _ROOT_WITH_STATUS)
    yield from schema_causes(schema, path, root=True)
    yield from _column_causes(place, version, versions)


def _column_causes(place: int, version: Json, versions: list[Json]) -> Iterator[Cause]:
    prefix = "spec" if _shares_schema(versions) else f"spec.versions[{place}]"
    for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
        path = f"{prefix}.additionalPrinterColumns[{number}]"
        if not column.get("name"):
            yield required(f"{path}.name")
        if not column.get("type"):
            yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid_value(f"{path}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
        if not column.get("jsonPath"):
            yield required(f"{path}.JSONPath")
        elif mistake := _path_mistake(column["jsonPath"]):
            yield invalid_value(f"{path}.JSONPath", column["jsonPath"], mistake)
    scale = (version.get("subresources") or {}).get("scale")
    for field in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath") if scale is not None else ():
        here, value = f"{prefix}.subresources.scale.{field}", (scale or {}).get(field)
        if not value:
            if field != "labelSelectorPath":
                yield required(here)
        elif not value.startswith("."):
            yield invalid_value(here, value, _NO_PATH)


def _path_mistake(path: str) -> str:
    if not path.startswith("."):
        return _NO_PATH
    try:
        steps_of(path)
    except ValueError as error:
        return str(error)
    return ""


def schema_causes(schema: Json, path: str, *, root: bool = False) -> Iterator[Cause]:
    """Yield what keeps a schema from being structural."""
    for word, problem in (("$ref", "$ref is not supported"), ("definitions", "definitions is not supported")):
        if schema.get(word):
            yield Cause("FieldValueForbidden", f"Forbidden: {problem}", f"{path}.{word}")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield Cause("FieldValueForbidden", f"Forbidden: {text}", f"{path}.uniqueItems")
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), Mapping):
        text = "additionalProperties and properties are mutual exclusive"
        yield Cause("FieldValueForbidden", f"Forbidden: {text}", f"{path}.additionalProperties")
    if pattern := schema.get("pattern"):
        yield from _pattern_causes(pattern, f"{path}.pattern")
    if (sort := schema.get("type")) and sort not in _TYPES:
        yield not_supported(f"{path}.type", sort, _TYPES)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid_value(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from list_type_causes(schema, path)
    yield from _rule_causes(schema, path, root=root)
    for key, inner in sorted((schema.get("properties") or {}).items()):
        inner = inner or {}
        here = f"{path}.properties[{key}]"
        if root and key == "metadata":
            continue
        yield from _typed(inner, here, "must not be empty for specified object fields")
        yield from schema_causes(inner, here)
        if inner.get("default") is not None:
            yield from _default_causes(inner, f"{here}.default")
    if isinstance(inner := schema.get("additionalProperties"), Mapping):
        yield from _typed(inner, f"{path}.additionalProperties", "must not be empty for specified object fields")
        yield from schema_causes(inner, f"{path}.additionalProperties")
    if schema.get("type") == "array":
        if not isinstance(items := schema.get("items"), Mapping):
            yield required(f"{path}.items", "must be specified")
            return
        yield from _typed(items, f"{path}.items", "must not be empty for specified array items")
        yield from schema_causes(items, f"{path}.items")


def _default_causes(schema: Json, path: str) -> Iterator[Cause]:
    """Yield errors of a default. Their messages name fields relative to the default."""
    for cause in causes(schema["default"], schema, path=path):
        yield replace(cause, message=cause.message.replace(f"{path}.", "").replace(f"{path} in body", " in body"))


def _pattern_causes(pattern: str, path: str) -> Iterator[Cause]:
    try:
        compiled(pattern)
    except PatternError as error:
        yield invalid_value(path, pattern, f"must be a valid regular expression, but isn't: {error}")


def _typed(schema: Json, path: str, missing: str) -> Iterator[Cause]:
    if not schema.get("type") and not any(schema.get(word) for word in _FREE):
        yield required(f"{path}.type", missing)


def _rule_causes(schema: Json, path: str, *, root: bool) -> Iterator[Cause]:
    for place, rule in enumerate(schema.get(RULES) or ()):
        here, text = f"{path}.{RULES}[{place}]", rule.get("rule") or ""
        if not text.strip():
            yield required(f"{here}.rule", "rule is not specified")
        elif mistake := mistakes(text, schema, root=root):
            yield invalid_value(f"{here}.rule", _shown(rule), mistake)


def _shown(rule: Json) -> Json:
    """Return a rule with the fields of the real server's internal type, as error messages print it."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
