"""Find the devices of the machine, and make them available to pods."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.client.quantity import amount
from phalanx.embedded.node.container.cgroup import Cgroups
from phalanx.embedded.node.machine.devices.gpus import RESOURCE as AMD_GPU
from phalanx.embedded.node.machine.devices.gpus import (
    AmdGpu,
    AmdGpus,
    MigInstance,
    MigInstances,
    find_amd_gpus,
    find_instances,
    instance_files,
)
from phalanx.embedded.node.machine.devices.pool import DevicePool, watch_listed
from phalanx.embedded.node.machine.machine import HUGE_PAGES, SHARED_FILES, Gpu, capacity, find_gpus
from phalanx.embedded.node.machine.rdma import rdma_cards, rdma_resources, require_rdma
from phalanx.embedded.node.machine.settings import NodeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHardware:
    """The devices that the node found by itself. `gpus`: the NVIDIA GPUs, including those that are divided into
    `instances`."""

    gpus: tuple[Gpu, ...]
    instances: tuple[MigInstance, ...]
    amd_gpus: tuple[AmdGpu, ...]
    rdma_cards: tuple[str, ...]

    @property
    def whole_gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.index not in {one.gpu for one in self.instances})

    def allocatable(self, settings: NodeSettings) -> dict[str, str]:
        """Return the node's allocatable resources, without devices that may be added and removed later."""
        offered = rdma_resources(settings.rdma) | dict(settings.resources)
        return capacity(settings.data_dir, self.whole_gpus, settings.max_pods, offered)


def find_hardware() -> NodeHardware:
    """Return the devices of this machine."""
    return NodeHardware(gpus=find_gpus(), instances=find_instances(), amd_gpus=find_amd_gpus(), rdma_cards=rdma_cards())


def control_groups(
    name: str, allocatable: Mapping[str, str], settings: NodeSettings, hardware: NodeHardware
) -> Cgroups:
    """Return the control groups of the node. Raises PhalanxError if RDMA cards are to be divided and the machine does
    not support that."""
    cpu_milli = amount("cpu", allocatable["cpu"])
    besides = {
        "cpuset": settings.static_cpus,
        "hugetlb": any(allocatable.get(pages, "0") != "0" for pages in HUGE_PAGES),
        "rdma": bool(settings.rdma),
    }
    asked = tuple(controller for controller, is_asked in besides.items() if is_asked)
    cgroups = Cgroups.of_this_process(f"phalanx-{name}", cpu_milli, besides=asked)
    if settings.rdma:
        require_rdma(hardware.rdma_cards, enforced="rdma" in cgroups.enforced)
    return cgroups


async def offer_own_devices(pool: DevicePool, hardware: NodeHardware) -> None:
    """Make devices that the node itself found available to pods: parts of NVIDIA GPUs, and AMD GPUs."""
    instances = hardware.instances
    own = {gpu.index: (gpu.device_file, *instance_files(gpu.device_file)) for gpu in hardware.gpus if gpu.device_file}
    cut = {index: files for index, files in own.items() if index in {one.gpu for one in instances}}
    pool.known_files.update(path for files in cut.values() for path in files)
    files = {index: (*paths, *filter(os.path.exists, SHARED_FILES)) for index, paths in cut.items()}
    for resource in sorted({one.resource for one in instances}):
        source = MigInstances([one for one in instances if one.resource == resource], files)
        await pool.offer(resource, source.ids(), source)
    if hardware.amd_gpus:
        amd = AmdGpus(hardware.amd_gpus)
        pool.known_files.update(amd.files())
        await pool.offer(AMD_GPU, amd.ids(), amd)


def device_sources(settings: NodeSettings, devices: DevicePool) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield the tasks that add and remove devices while the node runs. The devices come from a file that lists them,
    and from device plugins."""
    if settings.devices is not None:
        yield watch_listed(settings.devices, devices, settings.patience.device_look_s)
    if settings.device_plugins is not None:
        # this module imports gRPC, which few nodes need
        from phalanx.embedded.node.machine.devices.plugins import serve_plugins

        yield serve_plugins(settings.device_plugins, devices)
