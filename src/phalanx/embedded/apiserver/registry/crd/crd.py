"""CustomResourceDefinitions. Each of these objects defines a kind.

A definition is checked and gets defaults like any object (`DefinitionStrategy`). When its names are accepted, it
becomes Established. Each of its served versions is then a `Resource` (`resources_of`). Its strategy (`CustomStrategy`)
handles objects by the structural schema of the version. This server does not call conversion webhooks, so the versions
of an object differ only in `apiVersion`. If a definition has a conversion webhook (`spec.conversion`), the server
serves only its storage version. `definitions.py` handles conflicts of names between definitions, and decides when a
definition is served.

Sources: k8s.io/apiextensions-apiserver/pkg/registry/customresource and /customresourcedefinition.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.expressions.jsonpath import find
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, ResourceStrategy, Subresource
from phalanx.embedded.apimachinery.meta.status import NO_FIELD, Cause, bad_request, invalid_value
from phalanx.embedded.apimachinery.schema import schema as builtin_schema
from phalanx.embedded.apimachinery.schema import string_format
from phalanx.embedded.apimachinery.schema.typed import ABSENT, equal
from phalanx.embedded.apiserver.registry.crd.check import calls_for_webhook, definition_causes
from phalanx.embedded.apiserver.registry.crd.replicas import replica_causes
from phalanx.embedded.apiserver.registry.crd.rules import broken, not_enforced, ruled
from phalanx.embedded.apiserver.registry.crd.structural import causes, defaulted, embedded_metadata, pruned
from phalanx.embedded.apiserver.registry.crd.structure import parts
from phalanx.embedded.apiserver.registry.discovery import version_order

KEY = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# If an error has one of these reasons, rules are not evaluated, and the error `_UNCHECKED` is added
# (`hasBlockingErr` of k8s.io/apiextensions-apiserver).
_BLOCKING = frozenset(f"FieldValue{what}" for what in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))
_UNCHECKED = invalid_value(
    NO_FIELD,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)
_FREE: Mapping[str, object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class DefinitionStrategy(ResourceStrategy):
    """The strategy of the kind CustomResourceDefinition."""

    deletion_counts = False
    allow_unconditional_update = False

    def default(self, obj: Object) -> None:
        """Set the singular name and the list kind, if they are missing, and the default conversion `None`. Objects that
        readers share are not edited."""
        spec = obj.get("spec") or {}
        names = spec.get("names") or {}
        kind = names.get("kind") or ""
        filled = {"singular": kind.lower(), "listKind": f"{kind}List"} if kind else {}
        if any(not names.get(key) for key in filled) or spec.get("conversion") is None:
            names = {**names, **{key: names.get(key) or value for key, value in filled.items()}}
            conversion = {"strategy": "None"} if spec.get("conversion") is None else spec["conversion"]
            obj["spec"] = {**spec, "names": names, "conversion": conversion}
        if spec.get("preserveUnknownFields") is False:  # Go does not print `false`, because it is the zero value
            obj["spec"] = {key: one for key, one in obj["spec"].items() if key != "preserveUnknownFields"}

    def prepare_create(self, obj: Object) -> None:
        obj["metadata"]["generation"] = 1
        stored = [one.get("name", "") for one in _versions(obj) if one.get("storage")][:1]
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored or None,
        }

    def prepare_update(self, obj: Object, old: Object) -> None:
        status = dict(old.get("status") or {})
        if not equal(obj.get("spec"), old.get("spec")):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
            stored = list(status.get("storedVersions") or ())
            name = next((one.get("name", "") for one in _versions(obj) if one.get("storage")), None)
            status["storedVersions"] = stored if name is None or name in stored else [*stored, name]
        obj["status"] = status

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = old.get("spec")
        obj["metadata"] = {**old["metadata"], "managedFields": obj["metadata"].get("managedFields")}

    def validate(self, obj: Object) -> list[Cause]:
        return [] if obj["metadata"].get("resourceVersion") else definition_causes(obj)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return definition_causes(obj, old)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return warnings about unknown formats, and about fields that this server accepts but ignores."""
        if old is not None and old.get("spec") == obj.get("spec"):
            return []
        before = set() if old is None else set(_unknown_formats(old))
        found = [f'unrecognized format "{form}"' for form in _unknown_formats(obj) if form not in before]
        found += [
            f"{version['name']}: this API server cannot evaluate {what}, so this rule is not enforced: {rule}"
            for version in _versions(obj)
            for rule, what in not_enforced((version.get("schema") or {}).get("openAPIV3Schema") or {})
        ]
        if others := [one["name"] for one in _versions(obj) if one.get("served") and one not in _served(obj)]:
            storage = ", ".join(one["name"] for one in _served(obj))
            why = f"this API server calls no conversion webhooks, so it serves only the storage version ({storage})"
            found.append(f"spec.conversion: {why}, and not {', '.join(others)}")
        return list(dict.fromkeys(found))

    def begin_deletion(self, obj: Object, now: str) -> None:
        """Begin the deletion of a definition. A finalizer keeps the definition until all its objects are deleted."""
        finalizers = obj["metadata"].get("finalizers") or []
        if CLEANUP not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        status = obj.get("status") or {}
        conditions = with_condition(
            status.get("conditions") or (), condition("Terminating", "True", "InstanceDeletionPending", message, now)
        )
        obj["status"] = {**status, "conditions": conditions}


def _unknown_formats(obj: Object) -> Iterator[str]:
    """Yield the unknown formats in the schemas of a definition. A schema that is the same in all versions is read only
    once, as in kube-apiserver."""
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in _versions(obj)]
    alike = all(one == schemas[0] for one in schemas)
    for schema in schemas[:1] if alike else schemas:
        yield from _formats_in(schema)


def _formats_in(schema: Mapping[str, Any]) -> Iterator[str]:
    form = schema.get("format")
    if form and not string_format.is_known(form, schema.get("type") or ""):
        yield form
    for inner in parts(schema):
        yield from _formats_in(inner)


def condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}


def with_condition(conditions: Iterable[Object], one: Object) -> list[Object]:
    """Return the conditions after `one` was added or has replaced the condition of its type. The transition time
    changes only if the status changes."""
    found = list(conditions)
    for place, held in enumerate(found):
        if held["type"] == one["type"]:
            if held["status"] == one["status"]:
                one = {**one, "lastTransitionTime": held.get("lastTransitionTime", one["lastTransitionTime"])}
            found[place] = one
            return found
    return [*found, one]


def has_condition(definition: Object, kind: str) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def _versions(definition: Object) -> list[Object]:
    found: list[Object] = (definition.get("spec") or {}).get("versions") or []
    return found


# --- from a definition to resources ------------------------------------------------------------------------------


def resources_of(definition: Object) -> list[Resource]:
    """Return a resource for each served version, with the preferred version first."""
    served = sorted(_served(definition), key=lambda one: version_order(one["name"]))
    return [_resource(definition, one) for one in served]


def _served(definition: Object) -> list[Object]:
    """Return the versions that the server serves, of those that the definition marks as served. If the definition has a
    conversion webhook, this is only the storage version."""
    alone = calls_for_webhook(definition.get("spec") or {})
    return [one for one in _versions(definition) if one.get("served") and (one.get("storage") or not alone)]


def _resource(definition: Object, version: Object) -> Resource:
    spec, names = definition["spec"], definition["spec"]["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or _FREE
    subresources = version.get("subresources") or {}
    several = len(_versions(definition)) > 1
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(_subresources(names["kind"], subresources)),
        schema=schema,
        strategy=CustomStrategy(
            schema,
            has_status="status" in subresources,
            selectable=tuple(one["jsonPath"] for one in version.get("selectableFields") or ()),
            scale=subresources.get("scale"),
        ),
        custom=True,
        deprecation=_deprecation(definition, version),
        from_stored=_stamped(names["kind"], f"{spec['group']}/{version['name']}") if several else None,
        printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
        scale=subresources.get("scale"),
    )


def _stamped(kind: str, api_version: str) -> Callable[[Object], Object]:
    """Return a function that converts an object to another version. Without a conversion webhook, versions differ only
    in `apiVersion`."""
    head = {"kind": kind, "apiVersion": api_version}
    return lambda obj: head | {key: value for key, value in obj.items() if key not in head}


def _subresources(kind: str, given: Mapping[str, object]) -> Iterable[Subresource]:
    if "status" in given:
        yield Subresource(name="status", kind=kind)
    if "scale" in given:
        yield Subresource(name="scale", kind="Scale", group="autoscaling", version="v1")


def _deprecation(definition: Object, version: Object) -> str:
    """Return the warning in the response to each request to a deprecated version; "" for other versions."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    spec = definition["spec"]
    kind, group = spec["names"]["kind"], spec["group"]
    better = [
        one["name"]
        for one in _versions(definition)
        if one.get("served")
        and not one.get("deprecated")
        and version_order(one["name"]) < version_order(version["name"])
    ]
    said = f"{group}/{version['name']} {kind} is deprecated"
    return f"{said}; use {group}/{min(better, key=version_order)} {kind}" if better else said


# --- the objects -------------------------------------------------------------------------------------------------


class CustomStrategy(ResourceStrategy):
    """The strategy of custom resources: it handles objects by a structural schema."""

    allow_unconditional_update = False

    def __init__(
        self,
        schema: Mapping[str, object],
        *,
        has_status: bool = False,
        selectable: tuple[str, ...] = (),
        scale: Mapping[str, object] | None = None,
    ) -> None:
        self._schema, self._has_status, self._scale = schema, has_status, scale or {}
        self._selectable = {path.removeprefix("."): path for path in selectable}

    def decode(self, obj: Object) -> list[str]:
        """Remove the fields that neither the schema nor the metadata of objects defines, and return their paths.

        Raises StatusError 400 for metadata of the wrong type.
        """
        unknown: list[str] = []
        meta = obj.get("metadata")
        try:
            builtin_schema.type_of(_OBJECT_META).decoder({} if meta is None else meta, unknown)
        except builtin_schema.DecodeError as error:
            kind, version = obj.get("kind"), str(obj.get("apiVersion", "")).rpartition("/")[2]
            raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from None
        for place, found in embedded_metadata(obj, self._schema):
            try:
                builtin_schema.type_of(_OBJECT_META).decoder(copy.deepcopy(found), [])
            except builtin_schema.DecodeError as error:
                kind, version = obj.get("kind"), str(obj.get("apiVersion", "")).rpartition("/")[2]
                why = f"{place}: Invalid value: {msgspec.json.encode(found).decode()}: {error}"
                raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}') from None
        return [*(f"metadata.{path}" for path in unknown), *pruned(obj, self._schema)]

    def default(self, obj: Object) -> None:
        for key, value in obj.items():
            if key not in ("apiVersion", "kind", "metadata"):
                obj[key] = _copied(value)
        defaulted(obj, {**self._schema, "properties": _own_properties(self._schema)})

    def prepare_create(self, obj: Object) -> None:
        if self._has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_update(self, obj: Object, old: Object) -> None:
        if self._has_status:
            _take(obj, old, "status")
        generation = old["metadata"].get("generation", 1)
        obj["metadata"]["generation"] = generation + (not equal(_content(obj), _content(old)))

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        managed = obj["metadata"].get("managedFields")
        for key in [key for key in obj if key != "status"]:
            del obj[key]
        obj.update({key: value for key, value in old.items() if key != "status"})
        obj["metadata"] = dict(old["metadata"])
        if managed:
            obj["metadata"]["managedFields"] = managed

    def validate(self, obj: Object) -> list[Cause]:
        if obj["metadata"].get("resourceVersion"):
            return []  # updates are checked in `validate_update`, because the rules need the old object
        return self._wrong(obj, ABSENT)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return self._wrong(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        """Check only the status. The messages name fields relative to the status."""
        found = [] if "status" not in obj else list(causes(*self._status(obj, old)))
        fields = (f"status.{one.field}" if one.field not in ("", NO_FIELD) else "status" for one in found)
        found = [replace(one, field=at) for one, at in zip(found, fields, strict=True)]
        return self._by_rules([*found, *replica_causes(obj, self._scale)], obj, old)

    def _status(self, obj: Object, old: Object) -> tuple[Any, Mapping[str, Any], Any]:
        schema = _own_properties(self._schema).get("status") or {}
        return obj["status"], schema, old.get("status", ABSENT)

    def _wrong(self, obj: Object, old: object) -> list[Cause]:
        found = [*causes(obj, self._schema, old), *replica_causes(obj, self._scale)]
        return self._by_rules(found, obj, old)

    def _by_rules(self, found: list[Cause], obj: Object, old: object) -> list[Cause]:
        """Return `found` with the errors of violated rules. The rules are not evaluated if an error in `found` means
        that the object may not have the types that the rules expect."""
        if not self._ruled:
            return found
        if any(cause.reason in _BLOCKING for cause in found) or not obj["metadata"].get("name"):
            return [*found, _UNCHECKED]
        return [*found, *broken(obj, self._ruled, old)]

    @cached_property
    def _ruled(self) -> Mapping[str, Any]:
        return ruled(self._schema) or {}

    def selectable_names(self) -> Iterable[str]:
        return self._selectable

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {label: _as_text(find(obj, path)) for label, path in self._selectable.items()}


def _own_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties") or {}
    return {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "metadata")}


def _copied(value: object) -> Any:
    """Return a copy of a value with new dictionaries and lists, because readers share the parts that a patch did not
    change."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _take(obj: Object, old: Object, key: str) -> None:
    if key in old:
        obj[key] = old[key]
    else:
        obj.pop(key, None)


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}


def _as_text(found: list[object]) -> str:
    if not found or found[0] is None:
        return ""
    value = found[0]
    return str(value).lower() if isinstance(value, bool) else str(value)
