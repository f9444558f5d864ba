"""Convert JSON objects into protobuf messages, and back, like Go's conversion.

`values(name)` and `reader(name)` each return a function for the definition `name`; each function is created only once.
The function that `values` returns converts an object into the arguments of its message class. The protobuf library then
encodes the message in C. It drops `kind` and `apiVersion`, because the envelope contains them and the message has no
fields for them. The function that `reader` returns converts a message into an object. It leaves out fields whose value
is zero, except those whose zero is significant in JSON."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.limits import VALUES
from phalanx.embedded.apimachinery.schema.schema import Type
from phalanx.embedded.apiserver.transport.protobuf.messages import (
    SCHEMA,
    embedded_name,
    fields_of,
    leaf,
    node_of,
    proto_name,
)

Object = dict[str, Any]
Values = Callable[[Any], Any]
Reader = Callable[[Any, "SizeBudget"], Any]
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
_ZEROS = ("", 0, False)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class SizeBudget:
    """The number of values that may still be read from a message. The limit is needed because a value takes only two
    bytes or more, so a small body could contain millions of values."""

    __slots__ = ("left",)

    def __init__(self, left: int = VALUES) -> None:
        self.left = left

    def spend(self, values: int) -> None:
        """Subtract values from the budget. Raises ValueError if too few are left."""
        self.left -= values
        if self.left < 0:
            raise ValueError(f"more than {VALUES} values")


# --- objects to messages -------------------------------------------------------------------------------------------


@cache
def values(name: str) -> Callable[[Mapping[str, Any]], Object]:
    """Return the function that converts an object of a definition into the arguments of its message class."""
    ways = _ways(name, node_of(name))

    def convert(obj: Mapping[str, object]) -> Object:
        found: Object = {}
        for key, value in obj.items():
            way = ways.get(key)
            if way is None or value is None:
                continue
            into, field, one = way
            place = found
            for struct in into:
                place = place.setdefault(struct, {})
            place[field] = value if one is None else one(value)
        return found

    return convert


# The names of the structs around a field, the name of the field, and the conversion of its value (None if it is
# unchanged).
_Way = tuple[tuple[str, ...], str, Values | None]


def _ways(name: str, node: Type, into: tuple[str, ...] = ()) -> dict[str, _Way]:
    found: dict[str, _Way] = {}
    for field in fields_of(name):
        if field.embedded:
            found |= _ways(embedded_name(name, field.name), node, (*into, proto_name(field.name)))
        else:
            found[field.name] = (into, proto_name(field.name), _value(node.fields[field.name]))
    return found


def _value(node: Type) -> Values | None:
    match node.shape:
        case "list" | "map" if node.items is not None:
            return _collection(node.shape, _map_value(node.items) if node.shape == "map" else _value(node.items))
        case "object":
            return lambda value: _object(node, value)
        case "string" if node.raw.get("format") == "byte":
            return base64.b64decode
        case "quantity":
            return lambda value: {"string": str(value)}
        case "int-or-string":
            return _int_or_string
        case "time" | "microtime":
            return _instant
        case "any":
            found: Values = _TO_MESSAGE.get(leaf(node), _raw)
            return found
    return None


def _collection(shape: str, one: Values | None) -> Values | None:
    if one is None:
        return None
    if shape == "list":
        return lambda value: [one(item) for item in value]
    return lambda value: {key: one(item) for key, item in value.items()}


def _object(node: Type, value: Any) -> Object:
    """Convert an object of a nested definition. The definition is looked up only now, because definitions can contain
    themselves."""
    return values(node.name)(value)


def _map_value(node: Type) -> Values | None:
    return (lambda value: {"items": value}) if node.shape == "list" else _value(node)


def _int_or_string(value: int | str) -> Object:
    return {"type": 1, "strVal": value} if isinstance(value, str) else {"type": 0, "intVal": value}


def _instant(value: str) -> Object:
    since = dt.datetime.fromisoformat(value) - _EPOCH
    return {"seconds": since.days * 86400 + since.seconds, "nanos": since.microseconds * 1000}


def _raw(value: object) -> Object:
    return {"raw": _encode(value)}


def _schema_or_bool(value: Any) -> Object:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": values(SCHEMA)(value)}


def _schema_or_schemas(value: Any) -> Object:
    convert = values(SCHEMA)
    return {"schemas": [convert(one) for one in value]} if isinstance(value, list) else {"schema": convert(value)}


def _schema_or_texts(value: Any) -> Object:
    return {"texts": value} if isinstance(value, list) else {"schema": values(SCHEMA)(value)}


_TO_MESSAGE: dict[str, Values] = {
    "SchemaOrBool": _schema_or_bool,
    "SchemaOrSchemas": _schema_or_schemas,
    "SchemaOrTexts": _schema_or_texts,
}


# --- messages to objects -------------------------------------------------------------------------------------------


@cache
def reader(name: str, around: str = "") -> Callable[[Any, SizeBudget], Object]:
    """Return the function that reads a message of a definition, or of a struct that is embedded in the definition
    `around`."""
    node = node_of(around or name)
    ways: dict[int, tuple[str, bool, Reader]] = {}
    for field in fields_of(name):
        if field.embedded:
            ways[field.number] = ("", False, reader(embedded_name(name, field.name), around or name))
        else:
            inner = node.fields[field.name]
            scalar = inner.shape in ("string", "boolean", "integer", "number")
            ways[field.number] = (field.name, scalar and not field.zero_counts, _reader(inner))

    def read(message: Any, budget: SizeBudget) -> Object:
        found: Object = {}
        fields = message.ListFields()
        budget.spend(len(fields))
        for descriptor, value in fields:
            name, omitted, one = ways[descriptor.number]
            if not name:
                found |= one(value, budget)
            elif not (omitted and value in _ZEROS):
                found[name] = one(value, budget)
        return found

    return read


def _reader(node: Type) -> Reader:
    match node.shape:
        case "list":
            assert node.items is not None  # the schema of a list has items
            one = _reader(node.items)
            return lambda value, budget: _read_list(value, one, budget)
        case "map":
            assert node.items is not None
            of = _read_texts if node.items.shape == "list" else _reader(node.items)
            return lambda value, budget: _read_map(value, of, budget)
        case "object":
            return lambda value, budget: _read_object(node, value, budget)
        case "string" if node.raw.get("format") == "byte":
            return lambda value, budget: base64.b64encode(value).decode()
        case "quantity":
            return lambda value, budget: value.string or "0"
        case "int-or-string":
            return lambda value, budget: value.strVal if value.type else value.intVal
        case "time":
            return lambda value, budget: _time(value, "")
        case "microtime":
            return lambda value, budget: _time(value, f".{value.nanos // 1000:06}")
        case "any":
            return _FROM_MESSAGE.get(leaf(node), _read_raw)
    return lambda value, budget: value


def _read_object(node: Type, value: object, budget: SizeBudget) -> Object:
    return reader(node.name)(value, budget)


def _read_list(value: Any, one: Reader, budget: SizeBudget) -> list[object]:
    budget.spend(len(value))
    return [one(item, budget) for item in value]


def _read_map(value: Any, one: Reader, budget: SizeBudget) -> Object:
    budget.spend(len(value))
    return {key: one(value[key], budget) for key in value}


def _read_texts(value: Any, budget: SizeBudget) -> list[str]:
    budget.spend(len(value.items))
    return list(value.items)


def _time(value: Any, fraction: str) -> str | None:
    """Return a time as text; None for an empty message, which stands for a missing time in Go. Raises OverflowError."""
    if not value.HasField("seconds"):
        return None
    at = _EPOCH + dt.timedelta(seconds=value.seconds)
    return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _read_raw(value: Any, budget: SizeBudget) -> object:
    budget.spend(value.raw.count(b",") + value.raw.count(b"[") + value.raw.count(b"{"))
    return _decode(value.raw) if value.raw else None


def _read_schema_or_bool(value: Any, budget: SizeBudget) -> object:
    return reader(SCHEMA)(value.schema, budget) if value.HasField("schema") else value.allows


def _read_schema_or_schemas(value: Any, budget: SizeBudget) -> object:
    if value.HasField("schema"):
        return reader(SCHEMA)(value.schema, budget)
    return _read_list(value.schemas, reader(SCHEMA), budget)


def _read_schema_or_texts(value: Any, budget: SizeBudget) -> object:
    return reader(SCHEMA)(value.schema, budget) if value.HasField("schema") else list(value.texts)


_FROM_MESSAGE: dict[str, Reader] = {
    "SchemaOrBool": _read_schema_or_bool,
    "SchemaOrSchemas": _read_schema_or_schemas,
    "SchemaOrTexts": _read_schema_or_texts,
}
