"""Build the messages of a gRPC service as classes of the protobuf library, from a table of their fields.

A table has only the fields that Phalanx reads or writes; the library skips all other fields of a message. A protobuf
map is a repeated message with the fields `key` and `value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

# Message -> field -> (number, type). A type is a key of `_KINDS` or the name of a message. The prefix "*" marks a
# repeated field.
Table = Mapping[str, Mapping[str, tuple[int, str]]]
_KINDS = {
    "text": FieldDescriptorProto.TYPE_STRING,
    "flag": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "integer": FieldDescriptorProto.TYPE_INT32,  # also for an enum, which has the same encoding
    "long": FieldDescriptorProto.TYPE_INT64,
    "number": FieldDescriptorProto.TYPE_DOUBLE,
}


class Messages:
    """The message classes of one Protobuf package."""

    def __init__(self, package: str, table: Table) -> None:
        self._package, self._pool = package, DescriptorPool()
        file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for name, fields in table.items():
            message = DescriptorProto(name=name)
            for field, (number, kind) in fields.items():
                self._add(message, field, number, kind)
            file.message_type.append(message)
        self._pool.Add(file)

    def message(self, name: str) -> Any:
        """Return the class of a message."""
        return GetMessageClass(self._pool.FindMessageTypeByName(f"{self._package}.{name}"))

    def service(self, name: str, method: str) -> str:
        """Return the path of the gRPC call `method` of the service `name`."""
        return f"/{self._package}.{name}/{method}"

    def _add(self, message: DescriptorProto, field: str, number: int, kind: str) -> None:
        plain = kind.removeprefix("*")
        label = FieldDescriptorProto.LABEL_REPEATED if plain != kind else FieldDescriptorProto.LABEL_OPTIONAL
        one = message.field.add(name=field, number=number, label=label)
        if plain in _KINDS:
            one.type = _KINDS[plain]
        else:
            one.type, one.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{self._package}.{plain}"
