"""Kubernetes' protobuf bodies -> JSON values. kubectl's imperative commands send nothing else.

A body is the magic `k8s\\0` and a runtime.Unknown: apiVersion and kind, and the object's own bytes. The types of
fields come from the OpenAPI definitions, their numbers from `fields`. Only requests are read; answers are
JSON, which every client that sends protobuf accepts. Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator
from typing import Any

import msgspec

from phalanx.embedded.apiserver.apimachinery.caching import cached
from phalanx.embedded.apiserver.apimachinery.limits import DEPTH, VALUES, extent
from phalanx.embedded.apiserver.apimachinery.meta.status import ApiError, bad_request
from phalanx.embedded.apiserver.apimachinery.schema.schema import Type, definitions, type_of
from phalanx.embedded.apiserver.transport.protobuf.fields import FIELDS

_VARINT_BITS = 63  # of a number's seven at a time, ten may come
MAGIC = b"k8s\x00"
Wire = int | bytes


def decode(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body. Raises `ApiError`: 400 for what is no such body, 415 for a kind that is not
    read here."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(_fields(body[len(MAGIC) :]))
        names = dict(_fields(_as_bytes(envelope.get(1, b""))))
        api_version, kind = _as_bytes(names.get(1, b"")).decode(), _as_bytes(names.get(2, b"")).decode()
        found = _message(_as_bytes(envelope.get(2, b"")), _definition(api_version, kind))
    except (IndexError, KeyError, OverflowError, RecursionError, ValueError, msgspec.DecodeError, OSError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error}") from None
    values, levels = extent(found, VALUES)
    if values > VALUES or levels > DEPTH:
        raise bad_request(f"the protobuf body has more than {VALUES} values, or is deeper than {DEPTH} levels")
    return {"kind": kind, "apiVersion": api_version, **found}


@cached(1024)
def _definition(api_version: str, kind: str) -> Type:
    """The definition of a kind; DeleteOptions belong to every group and are the same in all."""
    group, _, version = api_version.rpartition("/")
    wanted = {"group": group, "version": version, "kind": kind}
    for name, one in definitions().items():
        if wanted in one.get("x-kubernetes-group-version-kind", ()):
            return type_of(name)
    raise _not_read(f"{kind} of {api_version}")


def _not_read(what: str) -> ApiError:
    message = f"this server does not read {what} as protobuf; send JSON or YAML (kubectl create -f, apply -f)"
    return ApiError(415, "UnsupportedMediaType", message)


def _as_bytes(value: Wire) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where a message should be")
    return value


def _as_number(value: Wire) -> int:
    if not isinstance(value, int):
        raise ValueError("a message where a number should be")
    return value


def _signed(value: int) -> int:
    """Protobuf writes negative int32 and int64 as two's complement of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _VARINT_BITS:
            raise ValueError("a number of more than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    """(number, value) of each field of a message, in the order in which they stand."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise ValueError("a field ends beyond its message")
                yield key >> 3, data[at : at + length]
                at += length
            case other:
                raise ValueError(f"wire type {other} is not used by Kubernetes")


def _message(data: bytes, node: Type, message: str = "") -> dict[str, Any]:
    """A message as a JSON object of the type `node`. `message` is its name where that is not the type's."""
    message = message or node.kind
    names = FIELDS.get(message)
    if names is None:
        raise _not_read(message)
    found: dict[str, Any] = {}
    for number, value in _fields(data):
        name = names.get(number)
        if name is None:
            raise _not_read(f"field {number} of {message}")
        if name.startswith("~"):
            found |= _message(_as_bytes(value), node, name[1:])
            continue
        field = node.fields[name]
        match field.shape:
            case "list":
                assert field.items is not None  # a list's schema has items
                found.setdefault(name, []).append(_value(value, field.items))
            case "map":
                assert field.items is not None
                entry = dict(_fields(_as_bytes(value)))
                key = _as_bytes(entry.get(1, b"")).decode()
                found.setdefault(name, {})[key] = _value(entry.get(2, b""), field.items)
            case _:
                found[name] = _value(value, field)
    return found


def _value(value: Wire, node: Type) -> Any:
    match node.shape:
        case "object":
            return _message(_as_bytes(value), node)
        case "list":  # what protobuf wraps: the values of a map of lists
            assert node.items is not None
            return [_value(one, node.items) for _, one in _fields(_as_bytes(value))]
        case "string" if node.raw.get("format") == "byte":
            return base64.b64encode(_as_bytes(value)).decode()
        case "string":
            return _as_bytes(value).decode()
        case "boolean":
            return bool(value)
        case "integer" if isinstance(value, int):
            return _signed(value)
        case "quantity":
            return _as_bytes(dict(_fields(_as_bytes(value))).get(1, b"0")).decode()
        case "int-or-string":
            parts = dict(_fields(_as_bytes(value)))
            return _as_bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(_as_number(parts.get(2, 0)))
        case "time" | "microtime" as precision:
            return _time(dict(_fields(_as_bytes(value))), precision)
        case "any" if node.kind == "FieldsV1":  # the JSON of a managed field set, as it is
            return msgspec.json.decode(_as_bytes(dict(_fields(_as_bytes(value))).get(1, b"null")))
        case other:
            raise _not_read(f"a field of the form {other}")


def _time(parts: dict[int, Wire], precision: str) -> str | None:
    """An instant; the zero time, which Go writes for none, is an empty message."""
    seconds, nanos = parts.get(1), parts.get(2, 0)
    if not (isinstance(seconds, int) and isinstance(nanos, int)):
        return None
    at = dt.datetime.fromtimestamp(_signed(seconds), dt.UTC)
    fraction = f".{nanos // 1000:06}" if precision == "microtime" else ""
    return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}Z"
