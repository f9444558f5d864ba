"""Find the errors of a CustomResourceDefinition, with the messages of kube-apiserver.

If a part of the definition is the same in all versions, kube-apiserver stores it once, above the versions. So its
messages call such a schema `spec.validation`. Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.expressions.jsonpath import steps_of
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from phalanx.embedded.apiserver.registry.crd.field_path import field_at
from phalanx.embedded.apiserver.registry.crd.schema_check import schema_causes

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
_NO_PATH = "must be a simple json path starting with ."
_ROOT_WITH_STATUS = (
    'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
)
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_NOT_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_MOST_SELECTABLE, _LONGEST_WARNING = 8, 256
_SCALE_PATHS = {
    "specReplicasPath": (".spec",),
    "statusReplicasPath": (".status",),
    "labelSelectorPath": (".spec", ".status"),
}
_APPROVED = "api-approved.kubernetes.io"


def definition_causes(obj: Json, old: Json | None = None) -> list[Cause]:
    """Return the errors of a definition. `old`: the definition that it replaces; None for a new one."""
    spec = obj.get("spec") or {}
    given, names = spec.get("versions"), spec.get("names") or {}
    versions = given or []
    found = [*(() if old else _name_causes(obj, spec, names)), *_group_causes(spec), *_scope_causes(spec)]
    found += _version_causes(versions)
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        found.append(invalid_value("spec.preserveUnknownFields", True, why))
        if any(_has_defaults((one.get("schema") or {}).get("openAPIV3Schema")) for one in versions):
            why = "must be false in order to use defaults in the schema"
            found.append(invalid_value("spec.preserveUnknownFields", True, why))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = [_internal(one, versions) for one in versions] or (None if given is None else [])
        found.append(invalid_value("spec.versions", shown, "must have exactly one version marked as storage version"))
    if versions and (first := versions[0].get("name") or "") and _LABEL_1035.fullmatch(first) is None:
        # `spec.version` is the older name of the first version
        found.append(invalid_value("spec.version", first, _NOT_1035))
    found += _names_causes(names)
    if versions:
        found += _shared_causes(versions)
    found += _conversion_causes(spec.get("conversion") or {})
    found += _unserved_causes(spec)
    if old is not None:
        found += _change_causes(spec, old)
    found += _stored_causes(obj, old)
    found += _migration_causes(obj, old) if old is not None else ()
    return [*found, *_approval_causes(obj, spec, old)]


def _has_defaults(schema: object) -> bool:
    """Return True if a schema has a default for any field."""
    if not isinstance(schema, Mapping):
        return False
    inner = (schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values())
    return schema.get("default") is not None or any(map(_has_defaults, inner))


def _change_causes(spec: Json, old: Json) -> Iterator[Cause]:
    """Yield the forbidden changes. An established definition must keep its scope and kind; every definition must keep
    its group and plural."""
    before = old.get("spec") or {}
    names, former = spec.get("names") or {}, before.get("names") or {}
    pairs = [("spec.group", spec.get("group"), before.get("group"))]
    pairs.append(("spec.names.plural", names.get("plural"), former.get("plural")))
    if _established(old):
        kinds = ("spec.names.kind", names.get("kind"), former.get("kind"))
        pairs = [("spec.scope", spec.get("scope"), before.get("scope")), kinds, *pairs]
    for path, new, was in pairs:
        if new != was:
            yield invalid_value(path, new or "", "field is immutable")


def _stored_causes(obj: Json, old: Json | None) -> Iterator[Cause]:
    have = {version.get("name") for version in (obj.get("spec") or {}).get("versions") or ()}
    if not (stored := (obj.get("status") or {}).get("storedVersions")):
        yield invalid_value("status.storedVersions", stored, "must have at least one stored version")
        return
    for version in (obj.get("spec") or {}).get("versions") or ():
        if version.get("storage") and (name := version.get("name")) not in stored:
            yield invalid_value("status.storedVersions", stored, f"must have the storage version {name}")
    text = "missing from spec.versions; {} was previously a storage version, and must remain in spec.versions until a "
    text += "storage migration ensures no data remains persisted in {} and removes {} from status.storedVersions"
    for place, name in enumerate(stored):
        if name not in have:
            yield invalid_value(f"status.storedVersions[{place}]", name, text.replace("{}", name))


def _migration_causes(obj: Json, old: Json) -> Iterator[Cause]:
    """Yield an error if only a webhook could convert the stored objects to the new storage version. This server does
    not call conversion webhooks."""
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    storage = _storage(spec)
    stored = [name for name in (old.get("status") or {}).get("storedVersions") or () if name != storage]
    if calls_for_webhook(spec) and stored and (storage, True) != (_storage(before), calls_for_webhook(before)):
        why = "this API server calls no conversion webhooks, so it cannot convert objects that may be stored as "
        why += f"{', '.join(stored)}; keep the storage version, or delete the definition and create it again"
        yield forbidden_field("spec.conversion.strategy", why)


def _established(obj: Json) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


# --- names and versions ------------------------------------------------------------------------------------------


def _name_causes(obj: Json, spec: Json, names: Json) -> Iterator[Cause]:
    name = (obj.get("metadata") or {}).get("name", "")
    if name and name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _group_causes(spec: Json) -> Iterator[Cause]:
    group = spec.get("group", "")
    if not group:
        yield required("spec.group")
    elif _SUBDOMAIN.fullmatch(group) is None:
        yield invalid_value("spec.group", group, _NOT_1123)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _approval_causes(obj: Json, spec: Json, old: Json | None) -> Iterator[Cause]:
    """Yield an error for a new definition in a group of the Kubernetes project (`*.k8s.io`, `*.kubernetes.io`), if it
    lacks the annotation of the project's approval (KEP-1111). An update may not remove the annotation."""
    group, annotations = spec.get("group") or "", (obj.get("metadata") or {}).get("annotations") or {}
    if not group.endswith((".k8s.io", ".kubernetes.io")) or annotations.get(_APPROVED):
        return
    if old is None or ((old.get("metadata") or {}).get("annotations") or {}).get(_APPROVED):
        text = f'protected groups must have approval annotation "{_APPROVED}", see '
        text += "https://github.com/kubernetes/enhancements/pull/1111"
        yield required(f"metadata.annotations[{_APPROVED}]", text)


def _scope_causes(spec: Json) -> Iterator[Cause]:
    scope = spec.get("scope", "")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))


def _version_causes(versions: list[Json]) -> Iterator[Cause]:
    for place, version in enumerate(versions):
        if _schema(version) is None:
            yield required(f"spec.versions[{place}].schema.openAPIV3Schema")
    for place, version in enumerate(versions):
        path, name = f"spec.versions[{place}]", version.get("name") or ""
        if _LABEL_1035.fullmatch(name) is None:
            yield invalid_value(f"{path}.name", name, _NOT_1035)
        yield from _deprecation_causes(version, f"{path}.deprecationWarning")
        yield from _part_causes(version, path, f"{path}.schema", _own_parts(versions))
    if len({version.get("name") for version in versions}) < len(versions):
        shown = [_internal(one, versions) for one in versions]
        yield invalid_value("spec.versions", shown, "must contain unique version names")


def _deprecation_causes(version: Json, path: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid_value(path, warning, "can only be set for deprecated versions")
        return
    if len(warning) > _LONGEST_WARNING:
        yield invalid_value(path, warning, f"must be <= {_LONGEST_WARNING} characters long")
    if not warning:
        yield invalid_value(path, warning, "must not be an empty string")
    if (at := next((at for at, sign in enumerate(warning) if not sign.isprintable()), None)) is not None:
        said = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
        yield invalid_value(path, warning, said)


def _internal(version: Json, versions: list[Json]) -> dict[str, object]:
    """Return a version of the definition as error messages print it: with the fields of kube-apiserver's internal Go
    type."""
    own = {name: version.get(name) for name in _own_parts(versions)}
    return {
        "Name": version.get("name", ""),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": own.get("schema"),
        "Subresources": own.get("subresources"),
        "AdditionalPrinterColumns": own.get("additionalPrinterColumns"),
        "SelectableFields": own.get("selectableFields"),
    }


def _conversion_causes(conversion: Json) -> Iterator[Cause]:
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or ()
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        for field, given in (("webhookClientConfig", client), ("conversionReviewVersions", reviews)):
            if given:
                yield forbidden_field(
                    f"spec.conversion.{field}", "should not be set when strategy is not set to Webhook"
                )
        return
    if client is None:
        yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield required("spec.conversion.webhookClientConfig", "exactly one of url or service is required")
    yield from _review_causes(reviews)


def _review_causes(versions: Sequence[str]) -> Iterator[Cause]:
    path = "spec.conversion.conversionReviewVersions"
    if not versions:
        yield required(path)
        return
    for place, version in enumerate(versions):
        if version in versions[:place]:
            yield invalid_value(f"{path}[{place}]", version, "duplicate version")
        elif _LABEL_1035.fullmatch(version) is None:
            yield invalid_value(f"{path}[{place}]", version, _NOT_1035)
    if not set(versions) & {"v1", "v1beta1"}:
        yield invalid_value(path, list(versions), "must include at least one of v1, v1beta1")


def calls_for_webhook(spec: Json) -> bool:
    """Return True if a webhook converts objects between the versions."""
    return (spec.get("conversion") or {}).get("strategy") == "Webhook"


def _storage(spec: Json) -> str:
    return next((str(one.get("name")) for one in spec.get("versions") or () if one.get("storage")), "")


def _unserved_causes(spec: Json) -> Iterator[Cause]:
    versions = spec.get("versions") or ()
    served = [one for one in versions if one.get("served")]
    if calls_for_webhook(spec) and served and not any(one.get("storage") for one in served):
        why = "this API server calls no conversion webhooks, so it can serve only the storage version, "
        yield forbidden_field("spec.conversion.strategy", f"{why}but {_storage(spec) or 'that version'} is not served")


def _names_causes(names: Json) -> Iterator[Cause]:
    fields = ("plural", "singular", "kind", "listKind")
    yield from (required(f"spec.names.{field}") for field in fields if not names.get(field))
    for field in fields:
        value = names.get(field) or ""
        if value and _LABEL_1035.fullmatch(value.lower() if "ind" in field else value) is None:
            detail = f"may have mixed case, but should otherwise match: {_NOT_1035}" if "ind" in field else _NOT_1035
            yield invalid_value(f"spec.names.{field}", value, detail)
    yield from _labels(names, "shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    yield from _labels(names, "categories")


def _labels(names: Json, field: str) -> Iterator[Cause]:
    for place, value in enumerate(names.get(field) or ()):
        if _LABEL_1035.fullmatch(value) is None:
            yield invalid_value(f"spec.names.{field}[{place}]", value, _NOT_1035)


# --- schema, subresources, columns and selectable fields ----------------------------------------------------------

_PARTS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _own_parts(versions: list[Json]) -> list[str]:
    """Return the parts of the definition in which the versions differ. Kube-apiserver stores the other parts once,
    above the versions."""
    return [part for part in _PARTS if any(one.get(part) != versions[0].get(part) for one in versions)]


def _schema(version: Json) -> Json | None:
    found: Json | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def _shared_causes(versions: list[Json]) -> Iterator[Cause]:
    own = _own_parts(versions)
    yield from _part_causes(versions[0], "spec", "spec.validation", [part for part in _PARTS if part not in own])


def _part_causes(version: Json, path: str, schema_path: str, parts: list[str]) -> Iterator[Cause]:
    schema, subresources = _schema(version), version.get("subresources") or {}
    if "schema" in parts and schema is not None:
        here = f"{schema_path}.openAPIV3Schema"
        if subresources.get("status") is not None and (sort := schema.get("type")) not in (None, "", "object"):
            yield invalid_value(f"{here}.type", sort, _ROOT_WITH_STATUS)
        if schema.get("nullable"):
            yield forbidden_field(f"{here}.nullable", "nullable cannot be true at the root")
        yield from schema_causes(schema, here, root=True)
    if "subresources" in parts and (scale := subresources.get("scale")) is not None:
        yield from _scale_causes(scale, f"{path}.subresources.scale")
    if "additionalPrinterColumns" in parts:
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column_causes(column, f"{path}.additionalPrinterColumns[{number}]")
    if "selectableFields" in parts and schema is not None:
        yield from _selectable_causes(version.get("selectableFields") or (), schema, f"{path}.selectableFields")


def _scale_causes(scale: Json, path: str) -> Iterator[Cause]:
    for field, places in _SCALE_PATHS.items():
        here, value = f"{path}.{field}", scale.get(field)
        if not value:
            if field != "labelSelectorPath":
                yield required(here)
        elif not value.startswith("."):
            yield invalid_value(here, value, _NO_PATH)
        elif not value.startswith(tuple(f"{place}." for place in places)):
            where = places[0] if len(places) == 1 else f"either {' or '.join(places)}"
            yield invalid_value(here, value, f"should be a json path under {where}")


def _column_causes(column: Json, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield required(f"{path}.name")
    if not column.get("type"):
        yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif column["type"] not in _COLUMN_TYPES:
        yield invalid_value(f"{path}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
    if (form := column.get("format")) and form not in _COLUMN_FORMATS:
        yield invalid_value(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.get("jsonPath"):
        yield required(f"{path}.JSONPath")
    elif mistake := _path_mistake(column["jsonPath"]):
        yield invalid_value(f"{path}.JSONPath", column["jsonPath"], mistake)


def _selectable_causes(fields: Sequence[Json], schema: Json, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for place, field in enumerate(fields):
        here, given = f"{path}[{place}].jsonPath", field.get("jsonPath") or ""
        found = field_at(given, schema, brackets=False)
        if not given:
            yield required(here)
            continue
        if isinstance(found, str):
            yield invalid_value(here, given, f"is an invalid path: {found}")
            continue
        if given.startswith(".metadata"):
            yield invalid_value(here, given, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            yield invalid_value(here, given, _NOT_SELECTABLE)
        if given in seen:
            yield duplicate(here, given)
        seen.add(given)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _path_mistake(path: str) -> str:
    if not path.startswith("."):
        return _NO_PATH
    try:
        steps_of(path)
    except ValueError as error:
        return str(error)
    return ""
