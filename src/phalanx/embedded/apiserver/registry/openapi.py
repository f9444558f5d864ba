"""OpenAPI v3: one document for each group version. kubectl reads these documents to validate manifests, and for
`kubectl explain`.

`/openapi/v3` is an index of the documents with a hash of each, so that clients fetch only documents that have changed.
A document has the schemas of its kinds, and all schemas to which they refer. It has one operation for each verb, with
the query parameters of the verb. (The parameter `fieldValidation` shows kubectl that the server validates fields.) The
schemas of built-in kinds are the published definitions, converted back from JSON Schema to OpenAPI. The schemas of
custom resources come from their CustomResourceDefinitions. A document is built when a client first requests it, because
the document of core/v1 has a megabyte.

`/openapi/v2` exists because of files with `kind: List`, a kind that no document of v3 contains. For such a file kubectl
requests `/openapi/v2`, and fails if the path does not exist. If that document has no schema of a kind, kubectl leaves
the validation to the server. So the document is empty.

Source of the forms: k8s.io/kube-openapi/pkg/handler3 and builder3, KEP-2896. The form of v2 as protobuf is from
openapi_v2.Document and Info of github.com/google/gnostic-models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha512
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apimachinery.schema.schema import definitions

Json = dict[str, Any]

SCHEMAS = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
JSON_MEDIA = "application/json"
PATCH_MEDIA = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


SWAGGER: Json = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.0"}, "paths": {}}
# Clients request this media type with `v2@v1.0`, but Go cannot read a media type with an @ in a response.
SWAGGER_MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def swagger_protobuf() -> bytes:
    """Return the protobuf of `/openapi/v2` that kubectl reads. Field 1 is `swagger` and field 2 `info`; in `info`,
    field 1 is `title` and field 2 `version`."""

    def text(field: int, value: bytes) -> bytes:  # each value has less than 128 bytes, so one byte holds its length
        return bytes([field << 3 | 2, len(value)]) + value

    about = SWAGGER["info"]
    info = text(1, about["title"].encode()) + text(2, about["version"].encode())
    return text(1, SWAGGER["swagger"].encode()) + text(2, info)


def index(resources: Iterable[Resource]) -> Json:
    """Return the document `/openapi/v3`."""
    found = list(resources)
    return {"paths": {path: _entry(path, _of(found, path)) for path in dict.fromkeys(map(path_of, found))}}


def document(resources: Iterable[Resource], path: str) -> Json | None:
    """Return the document `/openapi/v3/PATH`, where PATH is for example `api/v1` or `apis/batch/v1`; None if it is not
    served."""
    found = _of(resources, path)
    if not found:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": {key: item for one in found for key, item in _paths(one)},
        "components": {"schemas": dict(sorted(_schemas(found).items()))},
    }


def path_of(resource: Resource) -> str:
    """Return the path of a group version under /openapi/v3: `api/v1`, `apis/batch/v1`."""
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _of(resources: Iterable[Resource], path: str) -> list[Resource]:
    return [one for one in resources if path_of(one) == path]


def _entry(path: str, resources: Sequence[Resource]) -> Json:
    """Return the index entry with the URL of a document. The hash in the URL is computed from the inputs of the
    document, so that the index needs no document to be built."""
    made_from = [
        (one.plural, one.verbs, one.namespaced, [(sub.name, sub.verbs) for sub in one.subresources], one.schema)
        for one in resources
    ]
    digest = sha512(msgspec.json.encode(made_from)).hexdigest().upper()
    return {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}


# --- schemas -----------------------------------------------------------------------------------------------------


_ALWAYS = tuple(
    f"{META}{name}" for name in ("DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status", "WatchEvent")
)


def _schemas(resources: Sequence[Resource]) -> dict[str, Json]:
    """Return the schemas of the kinds, their lists and their subresources, and all schemas that these refer to."""
    schemas = _custom_schemas(resources)
    names = [one.schema_name for one in resources if one.schema_name]
    names += [f"{name}List" for name in names]
    names += [_subresource_schema(sub) for one in resources for sub in one.subresources]
    for name in _closure([*names, *_ALWAYS, *_named_in(schemas.values())]):
        schemas[name] = _published(name)
    return schemas


def _closure(names: Iterable[str]) -> Iterator[str]:
    """Yield the names of these definitions, and of all definitions to which they refer directly or indirectly."""
    seen: set[str] = set()
    waiting = [name for name in names if name in definitions()]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting.extend(_named_in([_published(name)]))


def _named_in(schemas: Iterable[object]) -> list[str]:
    """Return the names of the definitions to which the schemas refer directly."""
    found: list[str] = []
    waiting = list(schemas)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if isinstance(value.get("$ref"), str):
                found.append(value["$ref"].removeprefix(SCHEMAS))
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return found


@cache
def _published(name: str) -> Json:
    """Return a definition as OpenAPI. In the stored JSON Schema, an optional type is `[T, "null"]`, and enums fix the
    values of `kind` and `apiVersion`. The result has neither, like the OpenAPI of kube-apiserver."""
    found: Json = _openapi(definitions()[name])
    for key in ("apiVersion", "kind"):
        if key in found.get("properties", {}):
            found["properties"][key].pop("enum", None)
    if name.endswith(".IntOrString"):
        found["format"] = "int-or-string"
    return found


def _openapi(schema: object) -> Any:
    if isinstance(schema, list):
        return [_openapi(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    result = {key: _openapi(value) for key, value in schema.items()}
    if isinstance(result.get("type"), list):
        result["type"] = result["type"][0]
    reference = result.get("$ref")
    if isinstance(reference, str):
        result["$ref"] = SCHEMAS + reference.rpartition("/")[2]
        if len(result) > 1:  # OpenAPI 3.0 ignores other fields of an object with a reference
            result = {"allOf": [{"$ref": result.pop("$ref")}], **result}
    return result


def _subresource_schema(sub: Subresource) -> str:
    """Return the name of the definition of a subresource's kind (such as Binding, Eviction or Scale); "" if the
    subresource has no kind of its own."""
    group = sub.group.partition(".")[0] or "core"
    return f"io.k8s.api.{group}.{sub.version}.{sub.kind}" if sub.version else ""


def _custom_schemas(resources: Iterable[Resource]) -> dict[str, Json]:
    schemas: dict[str, Json] = {}
    for one in resources:
        if one.custom:
            name = custom_name(one)
            schemas[name] = _custom_schema(one)
            schemas[f"{name}List"] = _custom_list(one, name)
    return schemas


def custom_name(resource: Resource) -> str:
    """Return the name of a custom kind's definition, which has the parts of the group in reverse order:
    `com.example.v1.Widget`."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _custom_schema(resource: Resource) -> Json:
    schema = dict(resource.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    published = _published("io.k8s.api.core.v1.Pod")["properties"]
    head = {key: {**published[key]} for key in ("apiVersion", "kind")}
    metadata = {"allOf": [{"$ref": f"{SCHEMAS}{META}ObjectMeta"}], "description": published["metadata"]["description"]}
    schema["properties"] = {**(schema.get("properties") or {}), **head, "metadata": metadata}
    return {**schema, "type": "object", "x-kubernetes-group-version-kind": [_gvk(resource)]}


def _custom_list(resource: Resource, name: str) -> Json:
    kind = resource.list_kind or f"{resource.kind}List"
    return {
        "type": "object",
        "description": f"{kind} is a list of {resource.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{SCHEMAS}{META}ListMeta"}]},
            "items": {"type": "array", "items": {"$ref": SCHEMAS + name}},
        },
        "x-kubernetes-group-version-kind": [_gvk(resource) | {"kind": kind}],
    }


def _gvk(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


# --- paths -------------------------------------------------------------------------------------------------------

_QUERY: Mapping[str, tuple[str, str]] = {
    "allowWatchBookmarks": ("boolean", "Send BOOKMARK events; the server may ignore this."),
    "continue": ("string", "The token of the previous page. The list continues after that page."),
    "dryRun": ("string", "`All`: the server handles the request completely but stores nothing."),
    "fieldManager": ("string", "The name of the manager that makes the change; required for apply patches."),
    "fieldSelector": ("string", "Restricts the list to objects whose fields match."),
    "fieldValidation": ("string", "How the server handles unknown and duplicate fields: Ignore, Warn or Strict."),
    "force": ("boolean", "Take over fields that conflict with other managers; only for apply patches."),
    "gracePeriodSeconds": ("integer", "Seconds until the object is removed; 0 removes it at once."),
    "labelSelector": ("string", "Restricts the list to objects whose labels match."),
    "limit": ("integer", "The maximum number of items in a response."),
    "pretty": ("string", "Accepted and ignored."),
    "propagationPolicy": ("string", "How dependents are deleted: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "How recent the response must be."),
    "resourceVersionMatch": ("string", "How resourceVersion is interpreted: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Begin a watch with the existing objects."),
    "timeoutSeconds": ("integer", "The time after which a list or watch ends."),
    "watch": ("boolean", "Send a stream of changes instead of a list."),
}
_LIST = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion"),
    *("resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"),
)
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "propagationPolicy")

# verb of discovery -> HTTP method, x-kubernetes-action, query parameters
_COLLECTION = {
    "list": ("get", "list", _LIST),
    "create": ("post", "post", _WRITE),
    "deletecollection": ("delete", "deletecollection", (*_DELETE, *_LIST)),
}
_ITEM = {
    "get": ("get", "get", ()),
    "update": ("put", "put", _WRITE),
    "patch": ("patch", "patch", (*_WRITE, "force")),
    "delete": ("delete", "delete", _DELETE),
    "create": ("post", "post", _WRITE),  # only subresources such as pods/binding have this operation
}


def _paths(resource: Resource) -> Iterator[tuple[str, Json]]:
    prefix = "/" + path_of(resource)
    place = f"{prefix}/namespaces/{{namespace}}/" if resource.namespaced else f"{prefix}/"
    place += resource.plural
    yield place, _item(resource, resource.verbs, _COLLECTION, _path_parameters(resource))
    if resource.namespaced and "list" in resource.verbs:
        yield f"{prefix}/{resource.plural}", _item(resource, ("list",), _COLLECTION, [])
    named = [*_path_parameters(resource), _path_parameter("name", f"name of the {resource.kind}")]
    verbs = tuple(verb for verb in resource.verbs if verb != "create")
    if any(verb in _ITEM for verb in verbs):
        yield f"{place}/{{name}}", _item(resource, verbs, _ITEM, named)
    for sub in resource.subresources:
        yield f"{place}/{{name}}/{sub.name}", _item(resource, sub.verbs, _ITEM, named, sub)


def _item(
    resource: Resource,
    verbs: Iterable[str],
    methods: Mapping[str, tuple[str, str, tuple[str, ...]]],
    parameters: list[Json],
    sub: Subresource | None = None,
) -> Json:
    item: Json = {"parameters": [*parameters, _query_parameter("pretty")]}
    for verb in verbs:
        if verb in methods:
            method, action, query = methods[verb]
            item[method] = _operation(resource, verb, action, query, sub)
    return item


def _operation(resource: Resource, verb: str, action: str, query: Iterable[str], sub: Subresource | None) -> Json:
    kind = _gvk(resource)
    name = custom_name(resource) if resource.custom else resource.schema_name
    if sub is not None and sub.version:
        kind = {"group": sub.group, "version": sub.version, "kind": sub.kind}
        name = _subresource_schema(sub) if sub.kind != resource.kind else name
        if name not in definitions():
            return _connection(resource, verb, sub, kind)
    answer = f"{name}List" if verb == "list" else f"{META}Status" if verb.startswith("delete") else name
    operation: Json = {
        "operationId": _operation_id(resource, verb, sub),
        "tags": [_tag(resource)],
        "parameters": [_query_parameter(one) for one in query],
        "responses": {"200": {"description": "OK", "content": _content((JSON_MEDIA,), answer)}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"required": True, "content": _content(("*/*",), name)}
    elif verb == "patch":
        media = tuple(one for one in PATCH_MEDIA if not (resource.custom and "strategic" in one))
        operation["requestBody"] = {"required": True, "content": _content(media, f"{META}Patch")}
    elif verb.startswith("delete"):
        operation["requestBody"] = {"content": _content(("*/*",), f"{META}DeleteOptions")}
    return operation


def _connection(resource: Resource, verb: str, sub: Subresource, kind: Json) -> Json:
    """Return the operation of a connection (exec, attach, portforward). Its response is a stream and not an object."""
    return {
        "operationId": _operation_id(resource, verb, sub),
        "tags": [_tag(resource)],
        "responses": {"200": {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}}},
        "x-kubernetes-action": "connect",
        "x-kubernetes-group-version-kind": kind,
    }


def _content(media_types: Iterable[str], name: str) -> Json:
    return {media: {"schema": {"$ref": SCHEMAS + name}} for media in media_types}


def _tag(resource: Resource) -> str:
    """Return the tag of a group version: `batch_v1`, `rbacAuthorization_v1`."""
    first, *rest = (resource.group.removesuffix(".k8s.io") or "core").split(".")
    return first + "".join(part.capitalize() for part in rest) + "_" + resource.version


def _operation_id(resource: Resource, verb: str, sub: Subresource | None) -> str:
    """Return the id of an operation, such as `listBatchV1NamespacedJob`."""
    words = {"get": "read", "update": "replace", "deletecollection": "deleteCollection"}
    group, _, version = _tag(resource).partition("_")
    scope = "Namespaced" if resource.namespaced else ""
    tail = sub.name.capitalize() if sub else ""
    return f"{words.get(verb, verb)}{group[0].upper()}{group[1:]}{version.capitalize()}{scope}{resource.kind}{tail}"


def _path_parameters(resource: Resource) -> list[Json]:
    return (
        [_path_parameter("namespace", "object name and auth scope, such as for teams and projects")]
        if (resource.namespaced)
        else []
    )


def _path_parameter(name: str, description: str) -> Json:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": schema}


@cache
def _query_parameter(name: str) -> Json:
    kind, description = _QUERY[name]
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": True}}
