"""Serve device plugins like the kubelet (v1beta1), so that unchanged plugins of GPU, FPGA and RDMA vendors can
register.

A plugin is a separate program. It serves a socket in the node's folder, and calls Register on the node's socket
(`kubelet.sock`) with its socket's name and its resource. The node calls the plugin's ListAndWatch, whose stream reports
the devices and their health. Before the node starts a container with devices, it calls Allocate. When the stream ends,
the node does not offer the devices until the plugin registers again. Plugins watch the node's socket. When the socket
is created again (as after a restart of the kubelet), the plugins register again.

A program that may write to the folder can offer devices, and can choose mounts of the containers that use them. So the
folder must belong to root or to the agent's user.

The module also defines the messages between the kubelet and device plugins (v1beta1) as classes of the protobuf
library.

Source of the field names and numbers: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from phalanx.embedded.node.container.attempt import Mount
from phalanx.embedded.node.machine.devices.pool import DeviceFile, DevicePool, GrantedDevices, Ids
from phalanx.errors import PhalanxError
from phalanx.rpc.library import grpc
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


log = logging.getLogger(__name__)

SOCKET = "kubelet.sock"
_CALL_S = 30.0
_HEALTHY = "Healthy"


class DevicePlugin:
    """A device plugin that has registered."""

    def __init__(self, socket: Path, resource: str, pool: DevicePool, *, pre_start: bool) -> None:
        self._socket, self._resource, self._pool, self._pre_start = socket, resource, pool, pre_start
        self._channel: Any = None

    async def watch(self) -> None:
        """Offer the plugin's devices until the plugin's stream ends."""
        async with grpc.aio.insecure_channel(f"unix:{self._socket}") as self._channel:
            try:
                async for response in self._call("ListAndWatch", "Empty", "ListAndWatchResponse", stream=True):
                    healthy = [one.ID for one in response.devices if one.health == _HEALTHY]
                    log.info("%s: %d of %d devices are healthy", self._resource, len(healthy), len(response.devices))
                    await self._pool.offer(self._resource, healthy, self)
            except grpc.aio.AioRpcError as error:
                log.info("device plugin of %s: %s", self._resource, error.details())
            finally:
                await self._pool.withdraw(self._resource, self)
                log.warning("the device plugin of %s has ended; its devices are not offered any more", self._resource)

    async def allocate(self, ids: Ids) -> GrantedDevices:
        """Return the mounts, device files and environment variables for a container that gets these devices. Raises
        PhalanxError."""
        asked = message("AllocateRequest")()
        asked.container_requests.add().devices_ids.extend(ids)
        try:
            answer = await self._call("Allocate", "AllocateRequest", "AllocateResponse", asked)
            if self._pre_start:
                request = message("PreStartContainerRequest")(devicesIDs=ids)
                await self._call("PreStartContainer", "PreStartContainerRequest", "PreStartContainerResponse", request)
        except grpc.aio.AioRpcError as error:
            raise PhalanxError(f"the device plugin of {self._resource} refused: {error.details()}") from error
        if len(answer.container_responses) != 1:
            raise PhalanxError(f"the device plugin of {self._resource} returned no answer for the container")
        return _granted(self._resource, answer.container_responses[0])

    def _call(self, method: str, request: str, response: str, value: object = None, *, stream: bool = False) -> Any:
        make = self._channel.unary_stream if stream else self._channel.unary_unary
        call = make(
            service("DevicePlugin", method),
            request_serializer=message(request).SerializeToString,
            response_deserializer=message(response).FromString,
        )
        return call(message(request)() if value is None else value, timeout=None if stream else _CALL_S)


def _granted(resource: str, said: Any) -> GrantedDevices:
    if said.cdi_devices:
        raise PhalanxError(
            f"the device plugin of {resource} names CDI devices ({said.cdi_devices[0].name}), which this node does not "
            "read; let it pass device files (NVIDIA's: PASS_DEVICE_SPECS=true and DEVICE_LIST_STRATEGY=envvar)"
        )
    paths = [one.host_path for one in (*said.mounts, *said.devices)]
    if wrong := [one for one in paths if not one.startswith("/") or ".." in Path(one).parts]:
        raise PhalanxError(f"the device plugin of {resource} names the path {wrong[0]!r}, which is not absolute")
    return GrantedDevices(
        env={one.key: one.value for one in said.envs},
        mounts=tuple(
            Mount(source=one.host_path, target=one.container_path, read_only=one.read_only) for one in said.mounts
        ),
        files=tuple(DeviceFile(source=one.host_path, target=one.container_path) for one in said.devices),
    )


class _Registration:
    """The node's implementation of the call Register."""

    def __init__(self, folder: Path, pool: DevicePool, group: asyncio.TaskGroup) -> None:
        self._folder, self._pool, self._group = folder, pool, group
        self._watched: dict[str, asyncio.Task[None]] = {}

    async def register(self, request: Any, context: Any) -> Any:
        try:
            plugin = self._plugin(request)
        except PhalanxError as error:
            log.warning("a device plugin was refused: %s", error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        before = self._watched.pop(request.resource_name, None)
        if before is not None:  # the plugin has restarted, and its old socket does not exist any more
            before.cancel()
        self._watched[request.resource_name] = self._group.create_task(plugin.watch())
        return message("Empty")()

    def _plugin(self, request: Any) -> DevicePlugin:
        if request.version != VERSION:
            raise PhalanxError(f"version {request.version[:20]!r} is not supported, but {VERSION}")
        if Path(request.endpoint).name != request.endpoint or request.endpoint in ("", SOCKET, "..", "."):
            raise PhalanxError(f"the endpoint {request.endpoint[:100]!r} is not a socket name in {self._folder}")
        self._pool.require_free(request.resource_name)
        return DevicePlugin(
            self._folder / request.endpoint,
            request.resource_name,
            self._pool,
            pre_start=request.options.pre_start_required,
        )


async def serve_plugins(folder: Path, pool: DevicePool) -> None:
    """Accept registrations of device plugins, until cancelled. Raises PhalanxError or OSError if other users may write
    to the folder, or if a kubelet uses the folder."""
    async with asyncio.TaskGroup() as group, _serving(folder, _Registration(folder, pool, group)):
        log.info("device plugins register at %s", folder / SOCKET)
        await asyncio.Event().wait()


@asynccontextmanager
async def _serving(folder: Path, registration: _Registration) -> AsyncIterator[None]:
    _require_own(folder)
    socket = folder / SOCKET
    if await _answers(socket):
        raise PhalanxError(f"a kubelet serves {socket}; choose another folder for this node's device plugins")
    socket.unlink(missing_ok=True)
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 1 << 20)])
    handler = grpc.unary_unary_rpc_method_handler(
        registration.register,
        request_deserializer=message("RegisterRequest").FromString,
        response_serializer=message("Empty").SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(f"{VERSION}.Registration", {"Register": handler}),)
    )
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    socket.chmod(0o600)
    try:
        yield
    finally:
        await server.stop(None)
        with suppress(FileNotFoundError):
            socket.unlink()


def _require_own(folder: Path) -> None:
    """Check that only root and the agent's user may write to the folder. Raises PhalanxError, OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PhalanxError(f"{folder}: other users may write to it, and could choose containers' mounts. chmod go-w it")


async def _answers(socket: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(str(socket))
    except OSError:
        return False
    writer.close()
    return True
