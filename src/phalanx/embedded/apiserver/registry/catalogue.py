"""The documents about the API itself (discovery and OpenAPI), encoded once per change of what is served.

Clients read them at every start and the answer changes only when a CustomResourceDefinition does, so each document
is built when first asked for and kept as bytes until the registry's generation moves on. Every document has an ETag,
with which kubectl's cache asks whether its copy still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry import discovery, openapi
from phalanx.embedded.apiserver.transport.negotiation import JSON, Accept

# Some hundred group versions at most; the bound is for clients that send a new Host with every request.
_KEPT = 1000
_VERSIONS = discovery.AGGREGATED_VERSIONS
_encode = msgspec.json.Encoder().encode


class ServedGroup(Protocol):
    """The resources that are served now. `generation` changes each time when `resources` changes."""

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
    """Answers requests for /api, /apis and /openapi."""

    def __init__(self, served: ServedGroup) -> None:
        self._served = served
        self._documents: dict[tuple[str, str], CatalogueDocument] = {}
        self._generation = -1

    def answer(self, path: str, accept: Iterable[Accept] = (), server_address: str = "") -> CatalogueDocument | None:
        """Return the document at `path` (without a trailing slash) in the form that the client prefers; None if there
        is no document. `accept`: the accepted forms of JSON and YAML; empty if the client accepts neither.

        `server_address` is the `host:port` to which the client has connected. The document /api contains it for old
        clients.
        """
        if path == "/openapi/v2" and not accept:
            return _tagged(openapi.swagger_protobuf(), openapi.SWAGGER_MEDIA)
        if self._generation != self._served.generation:
            self._documents, self._generation = {}, self._served.generation
        version = _aggregated_version(accept) if path in ("/api", "/apis") else ""
        key = (path, version or (server_address if path == "/api" else ""))
        if key not in self._documents:
            value = self._aggregated(path, version) if version else self._value(path, server_address)
            if value is None:
                return None  # not cached, because clients can ask for any number of paths that do not exist
            if len(self._documents) >= _KEPT:
                self._documents = {}
            self._documents[key] = _document(value, _media(version))
        return self._documents[key]

    def _aggregated(self, path: str, version: str) -> Any:
        return discovery.aggregated(self._served.resources, core=path == "/api", version=version)

    def _value(self, path: str, server_address: str) -> Any:
        resources = self._served.resources
        match path.strip("/").split("/"):
            case ["api"]:
                return discovery.api_versions(server_address)
            case ["api", version]:
                return discovery.api_resource_list(resources, "", version)
            case ["apis"]:
                return discovery.api_group_list(resources)
            case ["apis", group]:
                return discovery.api_group(resources, group)
            case ["apis", group, version]:
                return discovery.api_resource_list(resources, group, version)
            case ["openapi", "v2"]:
                return openapi.SWAGGER
            case ["openapi", "v3"]:
                return openapi.index(resources)
            case ["openapi", "v3", *rest]:
                return openapi.document(resources, "/".join(rest))
        return None


def _aggregated_version(accept: Iterable[Accept]) -> str:
    """Return the version of aggregated discovery that the client prefers among those served; "": not aggregated."""
    for form in accept:
        if form.media != JSON:
            continue
        if not form.as_kind:
            return ""
        kind = (form.as_kind, form.group)
        if kind == (discovery.AGGREGATED_KIND, discovery.AGGREGATED_GROUP) and form.version in _VERSIONS:
            return form.version
    return ""


def _media(version: str) -> str:
    if not version:
        return JSON
    return f"{JSON};g={discovery.AGGREGATED_GROUP};v={version};as={discovery.AGGREGATED_KIND}"


def _document(value: Any, media: str) -> CatalogueDocument:
    return _tagged(_encode(value) + b"\n", media)


def _tagged(body: bytes, media: str) -> CatalogueDocument:
    return CatalogueDocument(body=body, media=media, etag=f'"{sha256(body).hexdigest().upper()[:32]}"')
