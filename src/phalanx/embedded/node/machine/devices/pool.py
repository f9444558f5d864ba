"""Manage the devices of one node, except whole NVIDIA GPUs. A device is one unit of an extended resource, and has an
id.

A source of devices, for example a device plugin, offers a resource. The source reports its devices and their health
when it starts, and again at each change. For a container with some of the devices, the source returns environment
variables, mounts and device files. The node's capacity is the number of healthy devices. The node records the devices
of each pod, and assigns no device twice. If the source of a resource ends, the node's capacity of this resource becomes
zero. Containers keep the devices that they have.

A file may list devices of any generic resource of this machine, such as licences, boards or instruments:

    resources:
      lab.example.org/scope:
      - {id: left, devices: [/dev/ttyUSB0], env: {SCOPE: left}}
      - {id: right, devices: [/dev/ttyUSB1], env: {SCOPE: right}}

A device is healthy as long as its files exist. So an unplugged device is not offered until it is plugged in again. The
list is read again when its file changes. If the new list is invalid, the error is reported, and the earlier list stays
in use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
import yaml

from phalanx.embedded.node.container.attempt import Mount
from phalanx.errors import PhalanxError

Ids = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFile:
    """A device file for a container: the machine's file `source` has the path `target` in the container."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedDevices:
    """The mounts, device files and environment variables that a container gets with its devices."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    files: tuple[DeviceFile, ...] = ()

    def __add__(self, other: GrantedDevices) -> GrantedDevices:
        return GrantedDevices(
            env={**self.env, **other.env}, mounts=self.mounts + other.mounts, files=self.files + other.files
        )


class DeviceSource(Protocol):
    """A source that offers devices of a resource."""

    async def allocate(self, ids: Ids) -> GrantedDevices:
        """Return the mounts, device files and environment variables for a container that gets the devices `ids`. Raises
        PhalanxError."""


class DevicePool:
    """The devices of the node. `capacity`: the node's capacity, which the pool updates. `changed`: a coroutine function
    that is called after each change of the capacity."""

    def __init__(self, capacity: MutableMapping[str, str], changed: Callable[[], Awaitable[None]]) -> None:
        self._capacity, self._changed = capacity, changed
        # the resources that the node itself offers; no source may offer these resources
        self._own = frozenset(capacity)
        self._healthy: dict[str, Ids] = {}
        self._sources: dict[str, DeviceSource] = {}
        self.known_files: set[str] = set()  # device files that only containers with the device may open

    @property
    def resources(self) -> frozenset[str]:
        """Return the names of all resources that sources offer now or offered earlier."""
        return frozenset(self._healthy)

    def require_free(self, resource: str) -> None:
        """Raise PhalanxError if the resource has an invalid name, or if the node itself offers this resource."""
        if "/" not in resource or resource.partition("/")[0].endswith("kubernetes.io") or len(resource) > 253:
            raise PhalanxError(f"{resource[:253]!r} is not the name of an extended resource; write DOMAIN/NAME")
        if resource in self._own:
            raise PhalanxError(f"{resource} is offered by the node itself, so no other source may offer it")

    async def offer(self, resource: str, healthy: Iterable[str], source: DeviceSource) -> None:
        """Set the healthy devices of a resource, and the source that offers them. Raises PhalanxError."""
        self.require_free(resource)
        self._sources[resource] = source
        await self._set(resource, tuple(sorted(healthy)))

    async def withdraw(self, resource: str, source: DeviceSource) -> None:
        """Remove the devices of a source that has ended. If another source now offers the resource, do nothing."""
        if self._sources.get(resource) is source:
            del self._sources[resource]
            await self._set(resource, ())

    async def _set(self, resource: str, healthy: Ids) -> None:
        if self._healthy.get(resource) == healthy:
            return
        self._healthy[resource] = healthy
        self._capacity[resource] = str(len(healthy))
        await self._changed()

    def free(self, resource: str, taken: Iterable[str]) -> Ids:
        """Return the healthy devices of the resource that are not in `taken`."""
        used = set(taken)
        return tuple(one for one in self._healthy.get(resource, ()) if one not in used)

    async def grant(self, devices: Mapping[str, Ids]) -> GrantedDevices:
        """Return the mounts, device files and environment variables for a container that gets all these devices. Raises
        PhalanxError."""
        found = GrantedDevices()
        for resource, ids in sorted(devices.items()):
            source = self._sources.get(resource)
            if source is None:
                raise PhalanxError(f"no source offers {resource} any more, and this container has {', '.join(ids)}")
            found += await source.allocate(ids)
        self.known_files.update(one.source for one in found.files)
        return found


log = logging.getLogger(__name__)


class _Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    devices: tuple[str, ...] = ()
    env: dict[str, str] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    resources: dict[str, tuple[_Listed, ...]]


class ListedDevices:
    """The devices of one resource that the file lists."""

    def __init__(self, devices: tuple[_Listed, ...]) -> None:
        self._devices = {one.id: one for one in devices}

    def healthy(self) -> Ids:
        """Return the devices whose files exist."""
        found = self._devices.values()
        return tuple(one.id for one in found if all(Path(path).exists() for path in one.devices))

    def files(self) -> frozenset[str]:
        """Return the device files of all devices of this resource."""
        return frozenset(path for one in self._devices.values() for path in one.devices)

    async def allocate(self, ids: Ids) -> GrantedDevices:
        """Return the device files and the environment variables of these devices. If several devices set the same
        variable, their values are joined by commas."""
        env: dict[str, str] = {}
        mine = [self._devices[one] for one in ids if one in self._devices]
        if len(mine) != len(ids):
            raise PhalanxError(f"some of the devices {', '.join(ids)} are not listed any more")
        for one in mine:
            for name, value in one.env.items():
                env[name] = f"{env[name]},{value}" if name in env else value
        files = tuple(DeviceFile(source=path, target=path) for one in mine for path in one.devices)
        return GrantedDevices(env=env, files=files)


def read_devices(path: Path) -> dict[str, ListedDevices]:
    """Return the devices that a file lists, by the name of their resource. Raises PhalanxError."""
    try:
        said = msgspec.convert(yaml.safe_load(path.read_text()), type=_File)
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"the list of devices {path} cannot be read: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PhalanxError(f"the list of devices {path} is not YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise PhalanxError(f"the devices {path}: {error}") from error
    for resource, devices in said.resources.items():
        ids = [one.id for one in devices]
        files = [file for one in devices for file in one.devices]
        if len(set(ids)) != len(ids) or len(set(files)) != len(files):
            raise PhalanxError(f"the devices {path}: {resource} has two devices with the same id or file")
        if wrong := [file for file in files if not file.startswith("/dev/") or ".." in Path(file).parts]:
            raise PhalanxError(f"the devices {path}: {wrong[0]!r} is not a path below /dev")
    return {resource: ListedDevices(devices) for resource, devices in said.resources.items()}


async def watch_listed(path: Path, pool: DevicePool, look_s: float) -> None:
    """Offer the devices that the file lists, until cancelled. `look_s`: the time between two checks of the file."""
    offered, told = read_devices(path), ""
    while True:
        try:
            found = read_devices(path)
            for resource, before in offered.items():
                if resource not in found:
                    await pool.withdraw(resource, before)
            for resource, devices in found.items():
                await pool.offer(resource, devices.healthy(), devices)
                pool.known_files.update(devices.files())
            offered, told = found, ""
        except PhalanxError as error:
            if str(error) != told:
                log.warning("%s; the earlier list stays in use", error)
            told = str(error)
        await asyncio.sleep(look_s)
