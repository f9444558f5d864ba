"""Devices that a file lists: any generic resource of this machine, such as licences, boards or instruments.

    resources:
      lab.example.org/scope:
      - {id: left, devices: [/dev/ttyUSB0], env: {SCOPE: left}}
      - {id: right, devices: [/dev/ttyUSB1], env: {SCOPE: right}}

A device is healthy as long as its files exist, so an unplugged device is removed and comes back by itself. The list is
read again when it changes; an invalid list is reported and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec
import yaml

from phalanx.embedded.node.machine.devices.pool import DeviceFile, DevicePool, GrantedDevices, Ids
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)


class _Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    devices: tuple[str, ...] = ()
    env: dict[str, str] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    resources: dict[str, tuple[_Listed, ...]]


class ListedDevices:
    """A resource of the file."""

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
        """Return the files and the environment of these devices. If several set the same variable, their values are
        joined by commas."""
        env: dict[str, str] = {}
        mine = [self._devices[one] for one in ids if one in self._devices]
        if len(mine) != len(ids):
            raise PhalanxError(f"of the devices {', '.join(ids)} not all are listed any more")
        for one in mine:
            for name, value in one.env.items():
                env[name] = f"{env[name]},{value}" if name in env else value
        files = tuple(DeviceFile(source=path, target=path) for one in mine for path in one.devices)
        return GrantedDevices(env=env, files=files)


def read_devices(path: Path) -> dict[str, ListedDevices]:
    """Return what a file lists, by the names of resources. Raises PhalanxError."""
    try:
        said = msgspec.convert(yaml.safe_load(path.read_text()), type=_File)
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"the devices {path} cannot be read: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PhalanxError(f"the devices {path} are no YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise PhalanxError(f"the devices {path}: {error}") from error
    for resource, devices in said.resources.items():
        ids = [one.id for one in devices]
        files = [file for one in devices for file in one.devices]
        if len(set(ids)) != len(ids) or len(set(files)) != len(files):
            raise PhalanxError(f"the devices {path}: {resource} has an id or a file twice")
        if wrong := [file for file in files if not file.startswith("/dev/") or ".." in Path(file).parts]:
            raise PhalanxError(f"the devices {path}: {wrong[0]!r} is no path below /dev")
    return {resource: ListedDevices(devices) for resource, devices in said.resources.items()}


async def watch_listed(path: Path, pool: DevicePool, look_s: float) -> None:
    """Offer what the file lists, until cancelled."""
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
                log.warning("%s; what was read before goes on", error)
            told = str(error)
        await asyncio.sleep(look_s)
