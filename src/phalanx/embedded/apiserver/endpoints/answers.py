"""The forms in which a response can show objects: as JSON, YAML or protobuf, in any served version of their kind, whole
or with their metadata only, or as a Table.

The server chooses one `Form` per request from its Accept header. JSON in the stored version needs no conversion: the
server joins the stored bytes. For protobuf the server must encode each object of a list. So while it creates a long
list, it also handles other requests. `look` identifies a form, so that all watches with the same form share the bytes
of each event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.meta.resource import Resource, converted, type_package
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.parts.tables import table_list, table_row
from phalanx.embedded.apiserver.storage.store import Stored, decode, encode
from phalanx.embedded.apiserver.storage.watch import Frame, line_of
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.negotiation import PROTOBUF, YAML, Accept, encode_yaml, no_such_form
from phalanx.embedded.apiserver.transport.protobuf import protobuf
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response
from phalanx.embedded.apiserver.transport.tables.table import as_partial_metadata

META = "meta.k8s.io"
OWN = "phalanx.dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A representation of the objects of one kind. `one`: renders an object, as protobuf or as JSON (which is converted
    to YAML at the end)."""

    look: object
    media: str
    as_kind: str
    one: Callable[[Stored], bytes]
    # Renders an object as an item of a list; None if `one` also renders the items of lists.
    item: Callable[[Stored], bytes] | None = None
    # `value` renders an object that is not stored (a Status, the object of a bookmark). `frame` makes an event of a
    # stream from a rendered object.
    value: Callable[[Mapping[str, Any]], bytes] = encode
    frame: Frame = line_of
    # Renders every object of a stream after the first, because only the first Table names the columns; None if `one`
    # renders all objects of a stream.
    later: Callable[[Stored], bytes] | None = None
    # The API version that the shown objects have.
    version: str = "v1"

    @property
    def stream_media(self) -> str:
        return f"{self.media};stream=watch" if self.media == PROTOBUF else self.media


def form_of(
    resource: Resource, request: HttpRequest, *, listing: bool = False, stream: bool = False, missing: bool = False
) -> Form:
    """Return the form of a response: the first in the Accept header that the server can send for this kind. `missing`:
    True if the object does not exist. Raises `StatusError` 406."""
    for accept in request.accept:
        if stream and accept.media == YAML:
            continue
        if accept.group == META and not stream and not missing:
            _check_partial(resource, accept.as_kind, listing)
        found = _form(resource, request, accept, listing)
        if found is not None:
            return found
    raise no_such_form(stream=stream)


def _check_partial(resource: Resource, as_kind: str, listing: bool) -> None:
    """Check an Accept header that requests only metadata. The kind in the header must fit the response: one object, or
    a list. Raises `StatusError` 406."""
    kind = f"{type_package(resource)}.{resource.kind}{'List' if listing else ''}"
    if listing and as_kind == "PartialObjectMetadata":
        why = f"is a list (*{kind})"
    elif not listing and as_kind == "PartialObjectMetadataList":
        why = f"is not a list (*{kind})"
    else:
        return
    raise StatusError(406, "NotAcceptable", f"you requested {as_kind}, but the requested object {why}")


def _form(resource: Resource, request: HttpRequest, accept: Accept, listing: bool) -> Form | None:
    if accept.media == PROTOBUF:
        return _protobuf_form(resource, accept, listing)
    media = accept.media
    match accept.as_kind:
        case "":
            return Form(look=("own", resource.api_version), media=media, as_kind="", one=in_version(resource))
        case "Table" if accept.group == META and accept.version in _SHOWN_VERSIONS:
            policy, version = request.text("includeObject", "Metadata"), accept.version
            columns = ("Table", version, resource.api_version, policy)
            row = table_row(resource, policy, version=version)
            rest = table_row(resource, policy, version=version, headers=False)
            return Form(look=columns, media=media, as_kind="Table", one=row, later=rest, version=version)
        case "PartialObjectMetadata" | "PartialObjectMetadataList" if accept.group == META:
            version = accept.version if accept.version in _SHOWN_VERSIONS else "v1"
            look, partial = f"Partial {version}", _PARTIALS[version]
            return Form(look=look, media=media, as_kind="PartialObjectMetadata", one=partial, version=version)
        case "PartialObject" if accept.group == OWN and accept.version == "v1":
            render = partial_object(resource)
            return Form(look=("PartialObject", resource.api_version), media=media, as_kind="", one=render)
        case _:
            return None


def _protobuf_form(resource: Resource, accept: Accept, listing: bool) -> Form | None:
    """Return the protobuf form that the client accepts: whole objects of built-in kinds, or the metadata of objects of
    any kind. Return None if there is no such form; Tables, for example, have none."""
    wanted = "PartialObjectMetadataList" if listing else "PartialObjectMetadata"
    match accept.as_kind:
        case "" if protobuf.definition(resource.api_version, resource.kind):
            api_version, kind, shown = resource.api_version, resource.kind, _in_version(resource)
        case as_kind if as_kind == wanted and accept.group == META:
            api_version, kind, shown = f"{META}/v1", "PartialObjectMetadata", as_partial_metadata
        case _:
            return None
    name = protobuf.definition(api_version, kind)

    def item(stored: Stored) -> bytes:
        return protobuf.encode_message(name, shown(stored.obj))

    def value(obj: Mapping[str, Any]) -> bytes:
        known = protobuf.definition(obj["apiVersion"], obj["kind"])
        # Only the object in a bookmark of a custom kind has no protobuf definition. This object has only metadata.
        return protobuf.encode(obj if known else as_partial_metadata(dict(obj)))

    return Form(
        look=(PROTOBUF, api_version, kind),
        media=PROTOBUF,
        as_kind=accept.as_kind and kind,
        one=lambda stored: protobuf.enveloped(api_version, kind, item(stored)),
        item=item,
        value=value,
        frame=protobuf.frame,
    )


def _in_version(resource: Resource) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that returns an object in the version of `resource`."""

    def shown(obj: dict[str, object]) -> dict[str, Any]:
        return obj if obj["apiVersion"] == resource.api_version else converted(resource, obj)

    return shown


def in_version(resource: Resource) -> Callable[[Stored], bytes]:
    """Return a function that renders an object in the resource's version. An object that is stored in this version, as
    most objects are, needs no conversion."""
    wanted = head_of(resource)

    def render(stored: Stored) -> bytes:
        if stored.data.startswith(wanted):
            return stored.data
        return encode(converted(resource, stored.obj))

    return render


def head_of(resource: Resource) -> bytes:
    """Return the bytes with which the JSON of every object of this kind and version begins: its kind and apiVersion.
    `decoding.ordered` has put these two fields first."""
    return _head(resource.kind, resource.api_version)


@cached(1024)
def _head(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def _partial(stored: Stored) -> bytes:
    return encode(as_partial_metadata(stored.obj))


def _partial_v1beta1(stored: Stored) -> bytes:
    return encode(as_partial_metadata(stored.obj, "v1beta1"))


_SHOWN_VERSIONS = ("v1", "v1beta1")
_PARTIALS = {"v1": _partial, "v1beta1": _partial_v1beta1}


def partial_object(resource: Resource) -> Callable[[Stored], bytes]:
    """Return a function that renders an object without two large parts that only its author and controllers read: the
    managed fields and the pod template (docs/decisions/0038-partial-objects.md)."""
    shown, wanted = _in_version(resource), head_of(resource)

    def render(stored: Stored) -> bytes:
        if stored.partial.startswith(wanted):
            return stored.partial
        obj = dict(shown(stored.obj))
        for part, left_out in (("metadata", "managedFields"), ("spec", "template")):
            if isinstance(whole := obj.get(part), dict) and left_out in whole:
                obj[part] = {name: field for name, field in whole.items() if name != left_out}
        stored.partial = encode(obj)
        return stored.partial

    return render


def one(resource: Resource, request: HttpRequest, stored: Stored, code: int = 200) -> Response:
    """Return a response with one stored object."""
    form = form_of(resource, request)
    body = form.one(stored)
    if form.media == YAML:
        body = encode_yaml(decode(body))
    return Response(code=code, body=body, media=form.media)


def value(request: HttpRequest, obj: object, code: int = 200) -> Response:
    """Return a response with an object that is not stored, such as a Status or a Scale."""
    media, body = negotiation.render(request.accept, obj)
    return Response(code=code, body=body, media=media)


async def many(resource: Resource, request: HttpRequest, found: Sequence[Stored], meta: dict[str, object]) -> Response:
    """Return a response with a list of objects, in the form that the request accepts."""
    form = form_of(resource, request, listing=True)
    version = f"{META}/{form.version}"
    partial: dict[str, Any] = {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": meta}
    head = partial if form.as_kind == "PartialObjectMetadata" else _list_head(resource, meta)
    if form.item is not None:
        messages = await _in_turns(form.item, found)
        body = protobuf.encode_list(head["apiVersion"], head["kind"], meta, messages)
        return Response(body=body, media=form.media)
    match form.as_kind:
        case "Table":
            body = table_list(resource, found, meta, request.text("includeObject", "Metadata"), form.version)
        case "PartialObjectMetadata":
            body = _joined(head, [form.one(stored) for stored in found]) if found else encode(head | {"items": None})
        case _:
            body = _joined(head, _items(resource, form, found))
    if form.media == YAML:
        body = encode_yaml(decode(body))
    return Response(body=body, media=form.media)


# The number of objects that are encoded before the event loop runs other tasks. Each object takes about 40 us.
TURN = 250


async def _in_turns(item: Callable[[Stored], bytes], found: Sequence[Stored]) -> list[bytes]:
    """Return the rendered objects of a list. After every `TURN` objects, the server handles other requests."""
    made: list[bytes] = []
    for start in range(0, len(found), TURN):
        if start:
            await asyncio.sleep(0)
        made += map(item, found[start : start + TURN])
    return made


def _list_head(resource: Resource, meta: dict[str, object]) -> dict[str, Any]:
    kind = resource.list_kind or resource.kind + "List"
    if resource.custom:
        meta = {"continue": "", **meta}  # lists of custom kinds have the field `continue` even if it is empty
    return {"kind": kind, "apiVersion": resource.api_version, "metadata": meta}


def _items(resource: Resource, form: Form, found: Sequence[Stored]) -> list[bytes]:
    """Return the JSON of the items of a list. Items of built-in kinds have neither kind nor apiVersion; items of custom
    kinds have both."""
    rendered = [form.one(stored) for stored in found]
    if resource.custom:
        return rendered
    skip = len(head_of(resource))
    return [b"{" + one[skip:] for one in rendered]


def _joined(head: dict[str, object], items: list[bytes]) -> bytes:
    return encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"
