"""The objects that all pods of one node share: the API connection, the settings, and the machine's devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from phalanx.client.connection import Connection, Object
from phalanx.embedded.node.container.cgroup import Cgroups
from phalanx.embedded.node.container.image import HOST, HOST_IMAGE, Image
from phalanx.embedded.node.container.isolation import Isolation
from phalanx.embedded.node.container.log.kept import KeptLogs
from phalanx.embedded.node.images.store import ImageStore
from phalanx.embedded.node.machine.devices.pool import DevicePool
from phalanx.embedded.node.machine.events import Occurrences
from phalanx.embedded.node.machine.machine import SHARED_FILES, Gpu
from phalanx.embedded.node.machine.owners import MachineOwner, Owners
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.network.fence import NetworkFence
from phalanx.embedded.node.network.names import Networks
from phalanx.embedded.node.network.naming import Naming
from phalanx.embedded.node.pod.admission import GPU
from phalanx.embedded.node.pod.lifecycle import BackOff

# The folder with the volumes in a pod's directory. The directory also has a folder for each container, and no container
# can have this name.
VOLUMES = ".volumes"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    connection: Connection
    settings: NodeSettings
    name: str
    allocatable: Mapping[str, str]
    gpus: tuple[Gpu, ...]
    has_gpus: bool  # True if the node has whole GPUs or parts of GPUs
    rdma_cards: tuple[str, ...]
    devices: DevicePool
    cgroups: Cgroups
    home: Networks
    naming: Naming
    fence: NetworkFence | None  # None if pods may connect to every address
    images: ImageStore
    isolation: Isolation
    owners: Owners | None  # None if the machine is not shared: pods run as the agent, or as their spec states
    tell: Occurrences
    shared_cpus: set[int]  # the CPUs of containers without exclusive CPUs; empty for all CPUs
    pressures: set[str]  # the node's conditions that report a problem now (Registration)
    # a function that adds the response to a write to the cache, before the watch delivers the change
    observe: Callable[[Object], Any]

    def device_files(self, gpus: Sequence[str]) -> tuple[str, ...]:
        """Return the device files of these GPUs, and the device files that are common to all NVIDIA GPUs."""
        own = [gpu.device_file for gpu in self.gpus if gpu.index in gpus and gpu.device_file]
        return tuple(path for path in (*own, *(SHARED_FILES if own else ())) if os.path.exists(path))

    def others_files(self, own: Iterable[str]) -> tuple[str, ...]:
        """Return the device files that a container must not open: the files of all devices that are assigned by id,
        except the container's `own` files."""
        files = {gpu.device_file for gpu in self.gpus if gpu.device_file} | self.devices.known_files
        return tuple(sorted(files - set(own)))

    def device_ids(self) -> list[str]:
        """Return the ids of the node's GPUs. If the machine has no GPU but the settings state a number of GPUs, the ids
        are the numbers from 0 on."""
        count = int(self.allocatable.get(GPU, "0"))
        known = [gpu.index for gpu in self.gpus]
        return known[:count] if known else [str(number) for number in range(count)]

    def pod_dir(self, uid: str) -> Path:
        return self.settings.pods_dir / uid

    @property
    def kept_logs(self) -> KeptLogs:
        return KeptLogs(self.settings.data_dir, self.settings.kept_log_bytes, self.settings.kept_log_s)

    def image(self, name: str) -> Image | None:
        """Return the image of this name; None if there is none. An image consists of files of this machine, or was
        imported. Some clients add a tag to every name: `host` with any tag means the image `host`, unless an image with
        this full name was imported. Raises OSError."""
        if name == HOST_IMAGE:
            return HOST
        tagged = HOST if name.startswith(f"{HOST_IMAGE}:") else None
        return self.settings.images.get(name) or self.images.find(name) or tagged

    def owner(self, namespace: str) -> MachineOwner | None:
        """Return the user of the namespace's pods; None if the machine is not shared, or if the namespace belongs to
        root. Raises EnvironmentFault."""
        owner = self.owners.of(namespace) if self.owners is not None else None
        return owner if owner is not None and owner.user != 0 else None

    @property
    def back_off(self) -> BackOff:
        patience = self.settings.patience
        return BackOff(first_s=patience.backoff_first_s, most_s=patience.backoff_most_s)

    def variables(self, *, own_root: bool = False) -> dict[str, str]:
        """Return the environment variables that every container gets. PATH and HOME are those of the agent. A container
        with its own root gets only a default PATH instead."""
        server = urlsplit(self.connection.server)
        here = {"PATH": os.environ.get("PATH") or _PATH, "HOME": os.path.expanduser("~")}
        return {
            **({"PATH": _PATH} if own_root else here),
            "LANG": "C.UTF-8",
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
        }
