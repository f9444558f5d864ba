"""The messages of Kubernetes' protobuf format, as classes of the protobuf library.

A published definition contains the names and types of the fields of a message, and `numbers` adds their field numbers.
When the first body in protobuf arrives, descriptors are created from the definitions and the numbers. With these
descriptors the library reads and writes messages. Some values are a string or a number in JSON but a message in
protobuf: Quantity, Time, IntOrString and arbitrary JSON. `_LEAVES` describes these messages. All integers have the type
int64 here, because protobuf encodes every integer type of Go in the same way.

Sources: generated.proto of k8s.io/apimachinery (pkg/api/resource, pkg/apis/meta/v1, pkg/runtime, pkg/util/intstr) and
of k8s.io/apiextensions-apiserver.

The file `field_numbers.txt` contains the field numbers of Kubernetes' protobuf messages.

The numbers are from the struct tags in the types.go files of k8s.io/api, k8s.io/apimachinery (pkg/apis/meta/v1) and
k8s.io/apiextensions-apiserver at Kubernetes 1.36.2. The numbers were compared with the generated.proto files of the
same packages. The file names a field by its name in JSON. A line `[io.k8s.api.core.v1]` begins the messages of a
package. The file does not repeat types, lists and maps, which the published definitions contain. It also omits list
kinds, all of which have metadata=1 and items=2.

`~Name=2` is a struct that Go embeds: in protobuf it is a nested message, and in JSON its fields are those of the outer
object. `!` marks a number, string or boolean whose zero value is significant (a pointer in Go, or a field without
`omitempty`). Other fields that are not pointers are omitted in JSON if their value is zero, although Go writes them to
protobuf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from phalanx.embedded.apimachinery.schema.schema import Type, definitions, type_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufField:
    """A field of a message. `name`: its name in JSON, or the name of an embedded struct."""

    name: str
    number: int
    embedded: bool = False
    zero_counts: bool = False


@cache
def numbers() -> Mapping[str, tuple[ProtobufField, ...]]:
    """Return the fields of each message, by the name of its definition (`io.k8s.api.core.v1.Pod`)."""
    text = files("phalanx.embedded.apiserver.transport.protobuf").joinpath("field_numbers.txt").read_text()
    found: dict[str, tuple[ProtobufField, ...]] = {}
    package = ""
    for line in text.replace("\n  ", " ").splitlines():
        if line.startswith("["):
            package = line.strip("[]")
            continue
        message, *fields = line.split()
        found[f"{package}.{message}"] = tuple(map(_field, fields))
    return found


def _field(word: str) -> ProtobufField:
    name, _, number = word.rpartition("=")
    return ProtobufField(
        name=name.removeprefix("~"),
        number=int(number.removesuffix("!")),
        embedded=name.startswith("~"),
        zero_counts=number.endswith("!"),
    )


_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA = f"{_CRD}JSONSchemaProps"
# The message for kinds without a published definition, of which only the metadata is shown.
PARTIAL = f"{_META}PartialObjectMetadata"

_TYPE = FieldDescriptorProto
_PACKAGE = ".k8s."
# For each message of a value, its fields: (name, number, type of a scalar or name of a message, True if repeated).
_LEAVES: dict[str, tuple[tuple[str, int, int | str, bool], ...]] = {
    "Quantity": (("string", 1, _TYPE.TYPE_STRING, False),),
    "Time": (("seconds", 1, _TYPE.TYPE_INT64, False), ("nanos", 2, _TYPE.TYPE_INT32, False)),
    "IntOrString": (
        ("type", 1, _TYPE.TYPE_INT64, False),
        ("intVal", 2, _TYPE.TYPE_INT64, False),
        ("strVal", 3, _TYPE.TYPE_STRING, False),
    ),
    "Raw": (("raw", 1, _TYPE.TYPE_BYTES, False),),
    "Texts": (("items", 1, _TYPE.TYPE_STRING, True),),
    "SchemaOrBool": (("allows", 1, _TYPE.TYPE_BOOL, False), ("schema", 2, SCHEMA, False)),
    "SchemaOrSchemas": (("schema", 1, SCHEMA, False), ("schemas", 2, SCHEMA, True)),
    "SchemaOrTexts": (("schema", 1, SCHEMA, False), ("texts", 2, _TYPE.TYPE_STRING, True)),
    # The messages that contain objects. The objects have the type bytes in these messages, because each object is
    # encoded separately.
    "TypeMeta": (("apiVersion", 1, _TYPE.TYPE_STRING, False), ("kind", 2, _TYPE.TYPE_STRING, False)),
    "Unknown": (
        ("typeMeta", 1, "TypeMeta", False),
        ("raw", 2, _TYPE.TYPE_BYTES, False),
        ("contentEncoding", 3, _TYPE.TYPE_STRING, False),
        ("contentType", 4, _TYPE.TYPE_STRING, False),
    ),
    "List": (("metadata", 1, f"{_META}ListMeta", False), ("items", 2, _TYPE.TYPE_BYTES, True)),
    "WatchEvent": (("type", 1, _TYPE.TYPE_STRING, False), ("object", 2, "Raw", False)),
}
_SPECIAL = {
    "quantity": "Quantity",
    "int-or-string": "IntOrString",
    "time": "Time",
    "microtime": "Time",
    f"{_CRD}JSONSchemaPropsOrBool": "SchemaOrBool",
    f"{_CRD}JSONSchemaPropsOrArray": "SchemaOrSchemas",
    f"{_CRD}JSONSchemaPropsOrStringArray": "SchemaOrTexts",
}
_SCALARS = {
    "string": _TYPE.TYPE_STRING,
    "boolean": _TYPE.TYPE_BOOL,
    "integer": _TYPE.TYPE_INT64,
    "number": _TYPE.TYPE_DOUBLE,
}


@cache
def node_of(name: str) -> Type:
    """Return the type of the objects that a message encodes. Raises KeyError for a name that does not exist."""
    if name == PARTIAL:
        return Type({"type": "object", "properties": {"metadata": {"$ref": f"#/$defs/{_META}ObjectMeta"}}})
    return type_of(name)


def fields_of(name: str) -> tuple[ProtobufField, ...]:
    """Return the fields of a message, or of a struct that is embedded in a message (`embedded_name`)."""
    if name == PARTIAL:
        return (ProtobufField(name="metadata", number=1),)
    outer, _, embedded = name.partition("~")
    return numbers().get(f"{outer.rpartition('.')[0]}.{embedded}" if embedded else outer, ())


def embedded_name(name: str, struct: str) -> str:
    """Return the name of a Go struct that is embedded in the message `name`, or in a struct that the message embeds."""
    return f"{name.partition('~')[0]}~{struct}"


def leaf(node: Type) -> str:
    """Return the name of the message in `_LEAVES` that holds the values of a type; "" if the type is a scalar or has a
    message of its own."""
    if node.shape == "list":  # a list as the value of a map, for which protobuf needs a message
        return "Texts"
    return _SPECIAL.get(node.name) or _SPECIAL.get(node.shape) or ("Raw" if node.shape == "any" else "")


def proto_name(json_name: str) -> str:
    """Return the name of a field in its descriptor, which may contain only letters."""
    return re.sub(r"\W", "_", json_name)


@cache
def message(name: str) -> type[Any]:
    """Return the class of a message: that of a definition, of an embedded struct, or of one of `_LEAVES`."""
    return GetMessageClass(_pool().FindMessageTypeByName(f"k8s.{_identifier(name)}"))


@cache
def _pool() -> DescriptorPool:
    file = FileDescriptorProto(name="k8s.proto", package="k8s", syntax="proto2")
    for name, fields in _LEAVES.items():
        made = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            _typed(made.field.add(name=field, number=number), kind, repeated=repeated)
    for name in _names():
        made = file.message_type.add(name=_identifier(name))
        node = node_of(name.partition("~")[0])
        for one in fields_of(name):
            _add(made, name, one, node)
    pool = DescriptorPool()
    pool.Add(file)
    return pool


def _names() -> Iterator[str]:
    """Yield the name of every message that a definition has, and of the structs that are embedded in these messages."""
    yield PARTIAL
    waiting = [name for name in definitions() if name in numbers() or _is_empty(name)]
    while waiting:
        name = waiting.pop()
        yield name
        waiting += [embedded_name(name, one.name) for one in fields_of(name) if one.embedded]


def _is_empty(name: str) -> bool:
    """Return True if objects of the definition have no fields (CustomResourceSubresourceStatus)."""
    node = type_of(name)
    return node.shape == "object" and not node.fields


def _add(made: DescriptorProto, owner: str, field: ProtobufField, node: Type) -> None:
    """Add a field to the message `made`, which describes objects of the type `node`."""
    if field.embedded:
        descriptor = made.field.add(name=proto_name(field.name), number=field.number)
        _typed(descriptor, embedded_name(owner, field.name))
        return
    inner = node.fields[field.name]
    descriptor = made.field.add(name=proto_name(field.name), number=field.number)
    match inner.shape:
        case "list":
            assert inner.items is not None  # the schema of a list has items
            _typed(descriptor, _kind(inner.items), repeated=True)
        case "map":
            assert inner.items is not None
            words = (part[:1].upper() + part[1:] for part in descriptor.name.split("_"))
            entry = made.nested_type.add(name=f"{''.join(words)}Entry")
            entry.options.map_entry = True
            _typed(entry.field.add(name="key", number=1), _TYPE.TYPE_STRING)
            _typed(entry.field.add(name="value", number=2), _kind(inner.items))
            _typed(descriptor, f"{_PACKAGE}{made.name}.{entry.name}", repeated=True)
        case _:
            _typed(descriptor, _kind(inner))


def _kind(node: Type) -> int | str:
    """Return the type of a scalar, or the name of a message."""
    if node.shape == "string" and node.raw.get("format") == "byte":
        return _TYPE.TYPE_BYTES
    return leaf(node) or _SCALARS.get(node.shape) or node.name


def _typed(descriptor: FieldDescriptorProto, kind: int | str, *, repeated: bool = False) -> None:
    descriptor.label = _TYPE.LABEL_REPEATED if repeated else _TYPE.LABEL_OPTIONAL
    if isinstance(kind, int):
        descriptor.type = kind  # type: ignore[assignment]  # a number is all that its enumeration is
        return
    descriptor.type = _TYPE.TYPE_MESSAGE
    descriptor.type_name = kind if kind.startswith(_PACKAGE) else f"{_PACKAGE}{_identifier(kind)}"


def _identifier(name: str) -> str:
    """Return the name of a definition's message, without dots, because a dot would mean a nested message."""
    return re.sub(r"\W", "_", name)
