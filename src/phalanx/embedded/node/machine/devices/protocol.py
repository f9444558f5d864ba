"""The messages between the kubelet and device plugins, version v1beta1, as classes of the protobuf library.

Source of names and numbers: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto. Fields that Phalanx neither reads
nor writes are left out; the library skips them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

VERSION = "v1beta1"
_KINDS = {"text": FieldDescriptorProto.TYPE_STRING, "flag": FieldDescriptorProto.TYPE_BOOL}
# Message -> field -> (number, type); "*" before a type: repeated. A map is a repeated message of key and value.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": (1, "flag"), "get_preferred_allocation_available": (2, "flag")},
    "RegisterRequest": {
        "version": (1, "text"),
        "endpoint": (2, "text"),
        "resource_name": (3, "text"),
        "options": (4, "DevicePluginOptions"),
    },
    "Device": {"ID": (1, "text"), "health": (2, "text")},
    "ListAndWatchResponse": {"devices": (1, "*Device")},
    "ContainerAllocateRequest": {"devices_ids": (1, "*text")},
    "AllocateRequest": {"container_requests": (1, "*ContainerAllocateRequest")},
    "Variable": {"key": (1, "text"), "value": (2, "text")},
    "Mount": {"container_path": (1, "text"), "host_path": (2, "text"), "read_only": (3, "flag")},
    "DeviceSpec": {"container_path": (1, "text"), "host_path": (2, "text"), "permissions": (3, "text")},
    "CDIDevice": {"name": (1, "text")},
    "ContainerAllocateResponse": {
        "envs": (1, "*Variable"),
        "mounts": (2, "*Mount"),
        "devices": (3, "*DeviceSpec"),
        "cdi_devices": (5, "*CDIDevice"),
    },
    "AllocateResponse": {"container_responses": (1, "*ContainerAllocateResponse")},
    "PreStartContainerRequest": {"devicesIDs": (1, "*text")},
    "PreStartContainerResponse": {},
}


def _file() -> FileDescriptorProto:
    found = FileDescriptorProto(name="deviceplugin.proto", package=VERSION, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = DescriptorProto(name=name)
        for field, (number, kind) in fields.items():
            plain = kind.removeprefix("*")
            label = FieldDescriptorProto.LABEL_REPEATED if plain != kind else FieldDescriptorProto.LABEL_OPTIONAL
            one = message.field.add(name=field, number=number, label=label)
            if plain in _KINDS:
                one.type = _KINDS[plain]
            else:
                one.type, one.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{VERSION}.{plain}"
        found.message_type.append(message)
    return found


_POOL = DescriptorPool()
_POOL.Add(_file())


def message(name: str) -> Any:
    """Return the class of a message."""
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{VERSION}.{name}"))


def service(name: str, method: str) -> str:
    """Return the path of a call."""
    return f"/{VERSION}.{name}/{method}"
