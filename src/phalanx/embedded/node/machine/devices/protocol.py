"""The messages between the kubelet and device plugins, version v1beta1, as classes of the protobuf library.

Source of names and numbers: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from __future__ import annotations

from phalanx.rpc.messages import Messages

VERSION = "v1beta1"
_MESSAGES = Messages(
    VERSION,
    {
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
    },
)
message, service = _MESSAGES.message, _MESSAGES.service
