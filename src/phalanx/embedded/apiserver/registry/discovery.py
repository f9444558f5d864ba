"""Discovery: list the served kinds in all formats that clients request.

Old clients read `/api`, `/apis`, `/apis/GROUP` and `/apis/GROUP/VERSION`. Since 1.26, kubectl reads everything in two
requests to `/api` and `/apis`, with `Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
Both formats are computed only from the served resources, so clients can request every kind that discovery lists.

Sources: k8s.io/apiserver/pkg/endpoints/discovery (and /aggregated), KEP-3352.

The module also provides the encoded documents about the API itself (discovery and OpenAPI).

Clients read these documents at every start, and the documents change only when a CustomResourceDefinition changes. So a
document is created at its first request, and kept as bytes until the registry's generation changes. Every document has
an ETag. kubectl sends the ETag of its cached copy to check whether the copy is still valid."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apiserver.registry import openapi
from phalanx.embedded.apiserver.transport.negotiation import JSON, Accept

Json = dict[str, Any]

AGGREGATED_GROUP, AGGREGATED_KIND = "apidiscovery.k8s.io", "APIGroupDiscoveryList"
AGGREGATED_VERSIONS = ("v2", "v2beta1")


def api_versions(server_address: str) -> Json:
    """Return the document `/api`."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def api_group_list(resources: Iterable[Resource], last: Sequence[str] = ()) -> Json:
    """Return the document `/apis`: all groups except the core group. `last`: the groups that the document lists last.
    Clients search the groups in the order of the document if a resource is named without its group."""
    found = list(resources)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(found, name) for name in _groups(found, last) if name],
    }


def api_group(resources: Iterable[Resource], name: str) -> Json | None:
    """Return the document `/apis/GROUP`; None for a group that is not served."""
    found = [one for one in resources if one.group == name]
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(found, name)} if found else None


def api_resource_list(resources: Iterable[Resource], group: str, version: str) -> Json | None:
    """Return the document `/api/v1` or `/apis/GROUP/VERSION`; None for a version that is not served."""
    found = sorted(_of_version(resources, group, version), key=lambda one: one.plural)
    if not found:
        return None
    rows = [row for one in found for row in (_resource_row(one), *(_subresource_row(one, sub) for sub in _subs(one)))]
    head = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": rows}


def aggregated(resources: Iterable[Resource], last: Sequence[str] = (), *, core: bool, version: str = "v2") -> Json:
    """Return the document `/api` (`core`) or `/apis` (all other groups) with all resources, in the format
    apidiscovery.k8s.io/`version`. `last`: the groups that the document lists last (see `api_group_list`)."""
    found = [one for one in resources if core is not bool(one.group)]
    items = [_aggregated_group(found, name) for name in _groups(found, last)]
    return {
        "kind": AGGREGATED_KIND,
        "apiVersion": f"{AGGREGATED_GROUP}/{version}",
        "metadata": {},
        "items": items,
    }


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return a hash of the version in which objects of the kind are stored. Clients compare hashes to notice that the
    storage version has changed."""
    return b64encode(sha256(f"{group}/{version}/{kind}".encode()).digest()[:8]).decode()


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version. The most stable and newest versions come first: v2, v1, v1beta2, v1beta1,
    v1alpha1, and then other names in alphabetical order."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return 1, 0, 0, version
    stage = {"alpha": 2, "beta": 1}.get(match[2] or "", 0)
    return 0, stage, -(int(match[1]) * 10_000 + int(match[3] or 0)), ""


# --- groups and versions -----------------------------------------------------------------------------------------


def _groups(resources: Iterable[Resource], last: Sequence[str]) -> Iterable[str]:
    """Return the groups in the order in which the documents list them and clients search them. Groups with only
    subresources of another group's kind come last, because kube-aggregator gives them a low priority. The groups in
    `last` come directly before these groups."""
    place = {group: at for at, group in enumerate(last)}
    ordered = sorted(resources, key=lambda one: (not one.verbs, place.get(one.group, -1)))
    return dict.fromkeys(one.group for one in ordered)


def _of_version(resources: Iterable[Resource], group: str, version: str) -> list[Resource]:
    return [one for one in resources if one.group == group and one.version == version]


def _versions(resources: Iterable[Resource], group: str) -> list[str]:
    return sorted({one.version for one in resources if one.group == group}, key=version_order)


def _group(resources: Sequence[Resource], name: str) -> Json:
    versions = [{"groupVersion": f"{name}/{one}", "version": one} for one in _versions(resources, name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _aggregated_group(resources: Sequence[Resource], name: str) -> Json:
    return {
        "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
        "versions": [
            {
                "version": version,
                "resources": [_aggregated_resource(one) for one in _of_version(resources, name, version)],
                "freshness": "Current",
            }
            for version in _versions(resources, name)
        ],
    }


# --- resources ---------------------------------------------------------------------------------------------------


def _subs(resource: Resource) -> list[Subresource]:
    return sorted(resource.subresources, key=lambda one: one.name)


def _names(resource: Resource) -> Json:
    names: Json = {}
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    return names


def _resource_row(resource: Resource) -> Json:
    row: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
        **_names(resource),
    }
    if "list" in resource.verbs:
        row["storageVersionHash"] = storage_version_hash(resource.group, resource.version, resource.kind)
    return row


def _subresource_row(resource: Resource, sub: Subresource) -> Json:
    row: Json = {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    group, version = _group_version(resource, sub)
    if (group, version) != (resource.group, resource.version):
        row |= {"group": group, "version": version}
    return {**row, "kind": sub.kind, "verbs": sorted(sub.verbs)}


def _group_version(resource: Resource, sub: Subresource) -> tuple[str, str]:
    """Return the group and version of a subresource: its own if it names a version, otherwise those of its parent."""
    return (sub.group, sub.version) if sub.version else (resource.group, resource.version)


def _aggregated_resource(resource: Resource) -> Json:
    row: Json = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
        **_names(resource),
    }
    if resource.subresources:
        row["subresources"] = [_aggregated_subresource(resource, sub) for sub in _subs(resource)]
    return row


def _response_kind(resource: Resource, group: str, version: str, kind: str) -> Json:
    """Return the `responseKind` of a resource. For a built-in kind, the group and version are empty, unless they differ
    from the group and version of the document."""
    if not resource.custom and (group, version) == (resource.group, resource.version):
        group = version = ""
    return {"group": group, "version": version, "kind": kind}


def _aggregated_subresource(resource: Resource, sub: Subresource) -> Json:
    group, version = _group_version(resource, sub)
    return {
        "subresource": sub.name,
        "responseKind": _response_kind(resource, group, version, sub.kind),
        "verbs": sorted(sub.verbs),
    }


# The maximum number of cached documents. There are at most some hundred group versions, but `/api` has a document for
# each Host header, and a client may send another Host with every request.
_KEPT = 1000
_VERSIONS = AGGREGATED_VERSIONS
_encode = msgspec.json.Encoder().encode


class ServedGroup(Protocol):
    """The resources that are served now. `generation` changes whenever `resources` changes."""

    generation: int

    @property
    def resources(self) -> Sequence[Resource]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueDocument:
    """A document as bytes. `etag`: its ETag in quotes, as in the header."""

    body: bytes
    media: str = JSON
    etag: str


class Catalogue:
    """Provides the documents /api, /apis and /openapi. `last`: returns the groups that the documents list last, in
    order."""

    def __init__(self, served: ServedGroup, last: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._served, self._last = served, last
        self._documents: dict[tuple[str, str, tuple[str, ...]], CatalogueDocument] = {}
        self._generation = -1

    def answer(self, path: str, accept: Iterable[Accept] = (), server_address: str = "") -> CatalogueDocument | None:
        """Return the document at `path` (without a trailing slash) in the form that the client prefers; None if there
        is no such document. `accept`: the accepted forms of JSON and YAML; empty if the client accepts neither.

        `server_address`: the `host:port` to which the client has connected. The document /api contains it for old
        clients.
        """
        if path == "/openapi/v2" and not accept:
            return _tagged(openapi.swagger_protobuf(), openapi.SWAGGER_MEDIA)
        if self._generation != self._served.generation:
            self._documents, self._generation = {}, self._served.generation
        version = _aggregated_version(accept) if path in ("/api", "/apis") else ""
        last = self._last() if path == "/apis" else ()
        key = (path, version or (server_address if path == "/api" else ""), last)
        if key not in self._documents:
            value = self._aggregated(path, version, last) if version else self._value(path, server_address, last)
            if value is None:
                return None  # not cached, because clients can request any number of paths that do not exist
            if len(self._documents) >= _KEPT:
                self._documents = {}
            self._documents[key] = _document(value, _media(version))
        return self._documents[key]

    def _aggregated(self, path: str, version: str, last: Sequence[str]) -> object:
        return aggregated(self._served.resources, last, core=path == "/api", version=version)

    def _value(self, path: str, server_address: str, last: Sequence[str]) -> object:
        resources = self._served.resources
        match path.strip("/").split("/"):
            case ["api"]:
                return api_versions(server_address)
            case ["api", version]:
                return api_resource_list(resources, "", version)
            case ["apis"]:
                return api_group_list(resources, last)
            case ["apis", group]:
                return api_group(resources, group)
            case ["apis", group, version]:
                return api_resource_list(resources, group, version)
            case ["openapi", "v2"]:
                return openapi.SWAGGER
            case ["openapi", "v3"]:
                return openapi.index(resources)
            case ["openapi", "v3", *rest]:
                return openapi.document(resources, "/".join(rest))
        return None


def _aggregated_version(accept: Iterable[Accept]) -> str:
    """Return the version of aggregated discovery that the client prefers; "" if it does not accept aggregated
    discovery."""
    for form in accept:
        if form.media != JSON:
            continue
        if not form.as_kind:
            return ""
        kind = (form.as_kind, form.group)
        if kind == (AGGREGATED_KIND, AGGREGATED_GROUP) and form.version in _VERSIONS:
            return form.version
    return ""


def _media(version: str) -> str:
    if not version:
        return JSON
    return f"{JSON};g={AGGREGATED_GROUP};v={version};as={AGGREGATED_KIND}"


def _document(value: object, media: str) -> CatalogueDocument:
    return _tagged(_encode(value) + b"\n", media)


def _tagged(body: bytes, media: str) -> CatalogueDocument:
    return CatalogueDocument(body=body, media=media, etag=f'"{sha256(body).hexdigest().upper()[:32]}"')
