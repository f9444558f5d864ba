"""The devices of one node other than GPUs: extended resources whose units have names.

The source of a resource reports its devices and their health, again at each change. It also returns the environment,
mounts and device files for a container that uses them. The node's capacity is the number of healthy devices. The node
records the devices of each pod, and assigns none twice. If the source of a resource ends, the capacity becomes zero;
containers keep their devices.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Protocol

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
    """The grant of devices to a container."""

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
        """Return what the container is given. Raises PhalanxError."""


class DevicePool:
    """The devices of the node. `capacity`: the node's capacity, which the pool updates. `changed`: awaited after each
    change of it."""

    def __init__(self, capacity: MutableMapping[str, str], changed: Callable[[], Awaitable[None]]) -> None:
        self._capacity, self._changed = capacity, changed
        self._own = frozenset(capacity)  # devices that the node offers itself
        self._healthy: dict[str, Ids] = {}
        self._sources: dict[str, DeviceSource] = {}
        self.known_files: set[str] = set()  # device files that belong to a device: not open to all containers

    @property
    def resources(self) -> frozenset[str]:
        """Return the names of all resources that were ever offered."""
        return frozenset(self._healthy)

    def require_free(self, resource: str) -> None:
        """Raises PhalanxError if the resource has an invalid name, or if the node itself offers it."""
        if "/" not in resource or resource.partition("/")[0].endswith("kubernetes.io") or len(resource) > 253:
            raise PhalanxError(f"{resource[:253]!r} is no name of an extended resource; write DOMAIN/NAME")
        if resource in self._own:
            raise PhalanxError(f"{resource} is offered by the node itself; leave it to that, or start with none of it")

    async def offer(self, resource: str, healthy: Iterable[str], source: DeviceSource) -> None:
        """Set the healthy devices of a resource, and the source that offers them. Raises PhalanxError."""
        self.require_free(resource)
        self._sources[resource] = source
        await self._set(resource, tuple(sorted(healthy)))

    async def withdraw(self, resource: str, source: DeviceSource) -> None:
        """Remove the source, because it is gone. If another source has taken its place, do nothing."""
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
        """Return the healthy devices that nobody has."""
        used = set(taken)
        return tuple(one for one in self._healthy.get(resource, ()) if one not in used)

    async def grant(self, devices: Mapping[str, Ids]) -> GrantedDevices:
        """Return the mounts, files and variables of a container with all its devices. Raises PhalanxError."""
        found = GrantedDevices()
        for resource, ids in sorted(devices.items()):
            source = self._sources.get(resource)
            if source is None:
                raise PhalanxError(f"nobody offers {resource} any more, of which this container has {', '.join(ids)}")
            found += await source.allocate(ids)
        self.known_files.update(one.source for one in found.files)
        return found
