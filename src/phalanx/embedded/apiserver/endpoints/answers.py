"""How objects look in an answer: as JSON, as YAML, in another version of their kind, as a Table, as metadata only.

A `Form` is chosen once per request from its Accept header. JSON in the stored version needs no work: the stored bytes
are joined. `look` names a form, so that watchers who want the same share the bytes of each event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.apiserver.apimachinery.caching import cached
from phalanx.embedded.apiserver.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.endpoints import parts
from phalanx.embedded.apiserver.storage.store import Stored, decode, encode
from phalanx.embedded.apiserver.transport.negotiation import JSON, YAML, Accept, encode_yaml, not_acceptable
from phalanx.embedded.apiserver.transport.request import Request, Response
from phalanx.embedded.apiserver.transport.tables.table import as_partial_metadata

META = "meta.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A representation of the objects of one kind. `one` renders an object to JSON bytes."""

    look: object
    media: str
    as_kind: str
    one: Callable[[Stored], bytes]
    # In a stream, how every object but the first is shown: only the first Table says what its columns are.
    later: Callable[[Stored], bytes] | None = None


def form_of(resource: Resource, request: Request, *, listing: bool = False) -> Form:
    """The first form of the Accept header that this kind can have. Raises `ApiError` 406."""
    for accept in request.accept:
        found = _form(resource, request, accept, listing)
        if found is not None:
            return found
    raise not_acceptable()


def _form(resource: Resource, request: Request, accept: Accept, listing: bool) -> Form | None:
    media = accept.media
    match accept.as_kind:
        case "":
            return Form(look=("own", resource.api_version), media=media, as_kind="", one=in_version(resource))
        case "Table" if accept.group == META and accept.version in ("v1", "v1beta1"):
            policy = request.text("includeObject", "Metadata")
            look = ("Table", resource.api_version, policy)
            row = parts.table_row(resource, policy)
            rest = parts.table_row(resource, policy, headers=False)
            return Form(look=look, media=media, as_kind="Table", one=row, later=rest)
        case ("PartialObjectMetadata" | "PartialObjectMetadataList") as kind if accept.group == META:
            if (kind == "PartialObjectMetadataList") is not listing:
                return None
            return Form(look=("Partial",), media=media, as_kind="PartialObjectMetadata", one=_partial)
        case _:
            return None


def in_version(resource: Resource) -> Callable[[Stored], bytes]:
    """An object as a resource's version shows it. Most objects are stored in the version that is asked for."""
    wanted = head_of(resource)

    def render(stored: Stored) -> bytes:
        if stored.data.startswith(wanted):
            return stored.data
        return encode(parts.converted(resource, stored.obj))

    return render


def head_of(resource: Resource) -> bytes:
    """How the JSON of an object of this kind and version begins, as `write.ordered` has it encoded."""
    return _head(resource.kind, resource.api_version)


@cached(1024)
def _head(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def _partial(stored: Stored) -> bytes:
    return encode(as_partial_metadata(stored.obj))


def one(
    resource: Resource, request: Request, stored: Stored, code: int = 200, warnings: Sequence[str] = ()
) -> Response:
    """The answer that is one object."""
    form = form_of(resource, request)
    body = form.one(stored)
    if form.media == YAML:
        body = encode_yaml(decode(body))
    return Response(code=code, body=body, media=form.media, warnings=tuple(warnings))


def value(request: Request, obj: Any, code: int = 200, warnings: Sequence[str] = ()) -> Response:
    """The answer that is a Status, a Scale … : something that is not stored."""
    if request.accept[0].media == YAML:
        return Response(code=code, body=encode_yaml(obj), media=YAML, warnings=tuple(warnings))
    return Response(code=code, body=encode(obj), media=JSON, warnings=tuple(warnings))


def many(resource: Resource, request: Request, found: Sequence[Stored], meta: dict[str, Any]) -> Response:
    """The answer that is a list, in the form that the request accepts."""
    form = form_of(resource, request, listing=True)
    match form.as_kind:
        case "Table":
            body = parts.table_list(resource, found, meta, request.text("includeObject", "Metadata"))
        case "PartialObjectMetadata":
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
            body = _joined(head, [form.one(stored) for stored in found])
        case _:
            body = _joined(_list_head(resource, meta), _items(resource, form, found))
    if form.media == YAML:
        body = encode_yaml(decode(body))
    return Response(body=body, media=form.media)


def _list_head(resource: Resource, meta: dict[str, Any]) -> dict[str, Any]:
    kind = resource.list_kind or resource.kind + "List"
    if resource.custom:
        meta = {"continue": "", **meta}  # unstructured lists print it though it is empty
    return {"kind": kind, "apiVersion": resource.api_version, "metadata": meta}


def _items(resource: Resource, form: Form, found: Sequence[Stored]) -> list[bytes]:
    """Items of built-in kinds carry neither kind nor apiVersion; those of custom kinds do."""
    rendered = [form.one(stored) for stored in found]
    if resource.custom:
        return rendered
    skip = len(head_of(resource))
    return [b"{" + one[skip:] for one in rendered]


def _joined(head: dict[str, Any], items: list[bytes]) -> bytes:
    return encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"
