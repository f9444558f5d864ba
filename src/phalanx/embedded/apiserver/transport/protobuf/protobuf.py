r"""Bodies of built-in kinds in Kubernetes' protobuf format, `application/vnd.kubernetes.protobuf`.

A body consists of the bytes `k8s\0` and a message `Unknown`, which contains the kind of the object and the message of
the object. A stream of events consists of frames. A frame is four bytes with its length (big-endian), and a
`WatchEvent`; only the object in the event begins with `k8s\0`. Fields that Kubernetes 1.36 does not know are skipped,
as in kube-apiserver.

Sources: generated.proto of k8s.io/apimachinery (pkg/runtime, pkg/apis/meta/v1), its pkg/runtime/serializer/protobuf and
pkg/util/framer; https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.limits import DEPTH, VALUES, extent
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request
from phalanx.embedded.apimachinery.schema.schema import definitions
from phalanx.embedded.apiserver.transport.protobuf.convert import SizeBudget, reader, values
from phalanx.embedded.apiserver.transport.protobuf.messages import PARTIAL, message, numbers

MAGIC = b"k8s\0"
MEDIA = "application/vnd.kubernetes.protobuf"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_META_GROUP = "meta.k8s.io/v1"


@cached(1024)
def definition(api_version: str, kind: str) -> str:
    """Return the name of the message of a kind; empty if this server has no message for it. Custom kinds never have
    one."""
    if (api_version, kind) == (_META_GROUP, "PartialObjectMetadata"):
        return PARTIAL
    group, _, version = api_version.rpartition("/")
    wanted = {"group": group, "version": version, "kind": kind}
    for name, one in definitions().items():
        if name in numbers() and wanted in one.get("x-kubernetes-group-version-kind", ()):
            return name
    return ""


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in a body. Raises `StatusError` 400 for a malformed body, and 415 for a kind without a
    message."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = message("Unknown").FromString(body[len(MAGIC) :])
        api_version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
        name = definition(api_version, kind)
        if not name:
            text = f"this server does not read {kind} of {api_version} as protobuf; send JSON or YAML"
            raise StatusError(415, "UnsupportedMediaType", text)
        found = reader(name)(message(name).FromString(envelope.raw), SizeBudget())
    except (DecodeError, OverflowError, RecursionError, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error}") from None
    count, levels = extent(found, VALUES)
    if count > VALUES or levels > DEPTH:
        raise bad_request(f"the protobuf body has more than {VALUES} values, or is deeper than {DEPTH} levels")
    return {"kind": kind, "apiVersion": api_version, **found}


def encode(obj: Mapping[str, Any]) -> bytes:
    """Return an object as a body. Raises KeyError for a kind without a message, so callers check `definition` first."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    return enveloped(api_version, kind, encode_message(definition(api_version, kind), obj))


def encode_message(name: str, obj: Mapping[str, object]) -> bytes:
    """Return only the message of an object, without the envelope, as lists contain it."""
    return _serialized(name, values(name)(obj))


def encode_list(api_version: str, kind: str, meta: Mapping[str, object], items: Iterable[bytes]) -> bytes:
    """Return a list as a body. `items`: the messages of its objects, which are of one kind."""
    return enveloped(
        api_version, kind, _serialized("List", {"metadata": values(_LIST_META)(meta), "items": list(items)})
    )


def enveloped(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return a message with its envelope, as a body."""
    return MAGIC + _serialized("Unknown", {"typeMeta": {"apiVersion": api_version, "kind": kind}, "raw": raw})


def frame(event: str, body: bytes) -> bytes:
    """Return an event of a stream. `event`: the type of the event, such as ADDED. `body`: the body of its object."""
    one = _serialized("WatchEvent", {"type": event, "object": {"raw": body}})
    return struct.pack(">I", len(one)) + one


def _serialized(name: str, fields: Mapping[str, object]) -> bytes:
    found: bytes = message(name)(**fields).SerializeToString(deterministic=True)
    return found
