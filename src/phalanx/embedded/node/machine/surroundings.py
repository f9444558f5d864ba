"""The objects that all pods of one node share: the API connection, the settings, and the machine's resources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import SERVICE_ACCOUNTS, Kind
from phalanx.client.quantity import amount
from phalanx.embedded.node.container.cgroup import CgroupLimits, Cgroups
from phalanx.embedded.node.container.image import HOST, HOST_IMAGE, Image
from phalanx.embedded.node.container.isolation import Isolation
from phalanx.embedded.node.container.log.kept import KeptLogs
from phalanx.embedded.node.images.store import ImageStore
from phalanx.embedded.node.machine.devices.pool import DevicePool
from phalanx.embedded.node.machine.events import Occurrences
from phalanx.embedded.node.machine.machine import HUGE_PAGES, SHARED_FILES, Gpu
from phalanx.embedded.node.machine.owners import MachineOwner, Owners
from phalanx.embedded.node.machine.rdma import rdma_limits
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.network.fence import NetworkFence
from phalanx.embedded.node.network.names import Networks
from phalanx.embedded.node.network.naming import Naming
from phalanx.embedded.node.pod.admission import GPU, is_sidecar, limits, requests
from phalanx.embedded.node.pod.environment import EnvironmentFault
from phalanx.embedded.node.pod.lifecycle import BackOff

# The folder with the volumes in a pod's directory. The directory also has a folder for each container, and no container
# can have this name.
VOLUMES = ".volumes"
_TOKEN_S = 3607  # the lifetime of tokens, as in Kubernetes' admission plugin
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    connection: Connection
    settings: NodeSettings
    name: str
    allocatable: Mapping[str, str]
    gpus: tuple[Gpu, ...]
    has_gpus: bool  # True for whole GPUs or parts of GPUs
    rdma_cards: tuple[str, ...]
    devices: DevicePool
    cgroups: Cgroups
    home: Networks
    naming: Naming
    fence: NetworkFence | None  # None: pods may reach every address
    images: ImageStore
    isolation: Isolation
    owners: Owners | None  # None if the machine is not shared: pods run as the agent, or as their spec states
    tell: Occurrences
    shared_cpus: set[int]  # the CPUs of containers without exclusive CPUs; empty: all CPUs
    pressures: set[str]  # the node's conditions that report a problem now (Registration)
    observe: Callable[[Object], Any]  # adds the answer to a write to the cache, before the watch reports the change

    def device_files(self, gpus: Sequence[str]) -> tuple[str, ...]:
        """Return the device files of these GPUs, and those that all NVIDIA GPUs share."""
        own = [gpu.device_file for gpu in self.gpus if gpu.index in gpus and gpu.device_file]
        return tuple(path for path in (*own, *(SHARED_FILES if own else ())) if os.path.exists(path))

    def others_files(self, own: Iterable[str]) -> tuple[str, ...]:
        """Return the device files that a container must not open: the files of devices that are assigned by name,
        without the container's `own` files."""
        files = {gpu.device_file for gpu in self.gpus if gpu.device_file} | self.devices.known_files
        return tuple(sorted(files - set(own)))

    def limits(self, ask: Mapping[str, int], most: Mapping[str, int]) -> CgroupLimits:
        """Return the kernel's limits for a container with the requests `ask` and the limits `most`, without its CPUs,
        device files and number of processes."""
        default, offered = self.default_memory_bytes, self.settings.rdma
        return CgroupLimits(
            cpu_request_milli=ask.get("cpu", 0),
            cpu_limit_milli=most.get("cpu"),
            memory_limit_bytes=most.get("memory") or (max(default, ask.get("memory", 0)) if default else None),
            huge_pages_bytes={
                size_kib: most.get(name, 0)
                for name, size_kib in HUGE_PAGES.items()
                if self.allocatable.get(name, "0") != "0"
            },
            rdma=rdma_limits(offered, self.rdma_cards, most),
        )

    def limits_of_pod(self, spec: Object) -> CgroupLimits:
        """Return the limits of a whole pod: the largest sum over the containers that run at the same time; None for a
        resource if a container has no limit. An init container runs beside the sidecars before it."""
        init = spec.get("initContainers") or ()
        together = [*spec["containers"], *(one for one in init if is_sidecar(one))]
        amounts = {id(one): self.limits(requests(one), limits(one)) for one in (*together, *init)}

        def most(amount: Callable[[CgroupLimits], int | None]) -> int | None:
            each = {one: amount(found) for one, found in amounts.items()}
            if any(value is None for value in each.values()):
                return None
            peak = sidecars = 0
            for one in init:
                own = each[id(one)] or 0
                peak = max(peak, sidecars + own)
                sidecars += own if is_sidecar(one) else 0
            return max(sum(each[id(one)] or 0 for one in together), peak)

        return CgroupLimits(
            cpu_limit_milli=most(lambda one: one.cpu_limit_milli),
            memory_limit_bytes=most(lambda one: one.memory_limit_bytes),
        )

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
        """Return the image of this name: parts of this machine, or imported files; None if there is none. `host` with a
        tag, which some clients add to every name, is `host` unless such an image was imported. Raises OSError."""
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
    def default_memory_bytes(self) -> int:
        """Return the memory limit of containers without one; 0: none. On a shared machine it is the machine's memory
        per CPU, so that a missing limit does not let a container take other users' memory."""
        said = self.settings.default_memory_bytes
        if said is not None:
            return said
        cores = max(1, amount("cpu", self.allocatable["cpu"]) // 1000)
        return amount("memory", self.allocatable["memory"]) // cores if self.settings.shared else 0

    @property
    def back_off(self) -> BackOff:
        patience = self.settings.patience
        return BackOff(first_s=patience.backoff_first_s, most_s=patience.backoff_most_s)

    def variables(self, *, own_root: bool = False) -> dict[str, str]:
        """Return the variables that every container gets. PATH and HOME are those of the agent; a container with its
        own root gets a default PATH instead of both."""
        server = urlsplit(self.connection.server)
        here = {"PATH": os.environ.get("PATH") or _PATH, "HOME": os.path.expanduser("~")}
        return {
            **({"PATH": _PATH} if own_root else here),
            "LANG": "C.UTF-8",
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
        }

    async def look_up(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return a ConfigMap or Secret; None if it does not exist. Raises ApiError."""
        try:
            return await self.connection.get(kind, name, namespace)
        except ApiRefusal as error:
            if error.code == 404:
                return None
            raise

    async def token(self, namespace: str, account: str, source: Mapping[str, object]) -> str:
        """Return a service account's token by the TokenRequest API. Raises ApiError, EnvironmentFault."""
        spec: dict[str, Any] = {"expirationSeconds": source.get("expirationSeconds") or _TOKEN_S}
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.connection.create(SERVICE_ACCOUNTS, body, namespace, "token", account)
        token = (answer.get("status") or {}).get("token")
        if not token:
            raise EnvironmentFault(f"the API server gave no token for service account {namespace}/{account}")
        return str(token)
