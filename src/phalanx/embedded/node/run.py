"""Run this machine as a node, and run simulated nodes. The caller supplies the connection and the caches, which other
components share.

`run_node` calls all parts: it reads the machine's size, starts the log endpoint, registers the node, renews its Lease,
and runs pods.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.client.connection import ApiError, ApiUnknown, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import NAMESPACES, NODES, PODS, SERVICES, Kind
from phalanx.client.quantity import amount
from phalanx.embedded.endless import endless
from phalanx.embedded.node.agent.agent import Agent
from phalanx.embedded.node.agent.server import serving, shared_token
from phalanx.embedded.node.agent.usage import Meter
from phalanx.embedded.node.container.cgroup import CONTROLLERS, Cgroups
from phalanx.embedded.node.container.durable import sole_owner
from phalanx.embedded.node.container.isolation import Isolation, find_isolation
from phalanx.embedded.node.images.store import ImageStore
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
from phalanx.embedded.node.machine.events import Occurrences
from phalanx.embedded.node.machine.machine import (
    HUGE_PAGES,
    SHARED_FILES,
    Gpu,
    capacity,
    find_gpus,
    host_name,
    node_info,
)
from phalanx.embedded.node.machine.owners import Owners
from phalanx.embedded.node.machine.rdma import rdma_cards, rdma_resources, require_rdma
from phalanx.embedded.node.machine.registration import (
    Registration,
    keep_lease,
    keep_registered,
    register,
    renew_lease,
    tell_pressure,
)
from phalanx.embedded.node.machine.settings import NodeSettings, SimulatedSettings
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.network.fence import NetworkFence, take_down
from phalanx.embedded.node.network.names import Networks, networks
from phalanx.embedded.node.network.naming import Naming
from phalanx.embedded.node.pod.admission import GPU
from phalanx.embedded.node.pod.allotment import DEVICES
from phalanx.embedded.node.simulated.nodes import SimulatedNodes
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)

Informers = Callable[[Kind], Informer]
_RETRY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hardware:
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
        """Return the resources that the node offers, without devices that may be added and removed later."""
        offered = rdma_resources(settings.rdma) | dict(settings.resources)
        return capacity(settings.data_dir, self.whole_gpus, settings.max_pods, offered)


def _find_hardware() -> _Hardware:
    return _Hardware(gpus=find_gpus(), instances=find_instances(), amd_gpus=find_amd_gpus(), rdma_cards=rdma_cards())


async def run_node(connection: Connection, informers: Informers, settings: NodeSettings) -> None:
    """Run this machine as a node, until cancelled. The processes of its pods continue after that, and the next run
    finds them.

    Raises PhalanxError if the port of the log endpoint is in use, or if another agent uses the directory. Raises
    OSError if the directory cannot be written."""
    with sole_owner(settings.pods_dir), networks(settings.data_dir) as home:
        await _run_node(connection, informers, settings, home)


async def _run_node(connection: Connection, informers: Informers, settings: NodeSettings, home: Networks) -> None:
    shared_token(settings.token_file)
    name = settings.name or host_name()
    hardware = await asyncio.to_thread(_find_hardware)
    allocatable = hardware.allocatable(settings)
    cgroups = _cgroups(name, allocatable, settings, hardware)
    isolation = await asyncio.to_thread(find_isolation, settings.pods_dir)
    _require_confinement(settings, isolation)
    pods, nodes = informers(PODS), informers(NODES)
    registration: Registration | None = None

    async def changed() -> None:
        if registration is not None:
            with suppress(ApiError):  # the next heartbeat writes the status
                nodes.observe(await register(connection, registration))

    fence = await _fence(settings, home)
    around = Surroundings(
        connection=connection,
        settings=settings,
        name=name,
        allocatable=allocatable,
        gpus=hardware.whole_gpus,
        has_gpus=GPU in allocatable or bool(hardware.instances),
        rdma_cards=hardware.rdma_cards,
        devices=DevicePool(allocatable, changed),
        cgroups=cgroups,
        home=home,
        naming=Naming(name, home, connection.server, settings.pods_dir, pods, informers(SERVICES), fence),
        fence=fence,
        images=ImageStore(settings.data_dir),
        isolation=isolation,
        owners=Owners(informers(NAMESPACES)) if settings.shared else None,
        tell=Occurrences(connection, name),
        shared_cpus=set(),
        pressures=set(),
        observe=pods.observe,
    )
    await _offer_own_devices(around.devices, hardware)
    agent = Agent(around, nodes)
    async with _closing(around), serving(agent, meter := Meter(agent.pods, name), settings) as port:
        registration = _registration(around, port)
        nodes.observe(node := await _register(connection, registration, settings.patience.lease_duration_s))
        _warn_of_limits(around, node)

        async def tell() -> None:
            with suppress(ApiError):  # the next check tries again
                nodes.observe(await tell_pressure(connection, registration, nodes.objects.get(name) or node))

        loops: dict[str, Callable[[], Awaitable[None]]] = {
            **_upkeep(around),
            "disk": lambda: agent.watch_disk(tell),
            "usage": meter.run,
            **_heartbeats(connection, registration, nodes, node["metadata"]["uid"], settings),
        }
        async with asyncio.TaskGroup() as group:
            for what, loop in loops.items():
                group.create_task(endless(what, loop))
            for work in (*_device_sources(settings, around.devices), agent.run(pods)):
                group.create_task(work)


def _upkeep(around: Surroundings) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return the tasks that keep the environment of pods up to date."""
    fence = {} if around.fence is None else {"network": around.fence.keep}
    return {"events of pods": around.tell.run, "names of pods": around.naming.run, **fence}


def _heartbeats(
    connection: Connection, registration: Registration, nodes: Informer, uid: str, settings: NodeSettings
) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return the tasks that report to the cluster that the node is alive."""
    patience, name = settings.patience, registration.name
    return {
        "node": lambda: keep_registered(connection, registration, nodes, patience.heartbeat_s),
        "lease": lambda: keep_lease(connection, name, uid, patience.lease_renew_s, patience.lease_duration_s),
    }


def _cgroups(name: str, allocatable: Mapping[str, str], settings: NodeSettings, hardware: _Hardware) -> Cgroups:
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


async def _offer_own_devices(pool: DevicePool, hardware: _Hardware) -> None:
    """Offer the devices that the node found by itself: parts of NVIDIA GPUs, and AMD GPUs."""
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


def _device_sources(settings: NodeSettings, devices: DevicePool) -> Iterator[Coroutine[Any, Any, None]]:
    if settings.devices is not None:
        yield watch_listed(settings.devices, devices, settings.patience.device_look_s)
    if settings.device_plugins is not None:
        from phalanx.embedded.node.machine.devices.plugins import serve_plugins  # gRPC, which few nodes need

        yield serve_plugins(settings.device_plugins, devices)


@asynccontextmanager
async def _closing(around: Surroundings) -> AsyncIterator[None]:
    try:
        yield
    finally:
        around.cgroups.close()
        if around.fence is not None:
            around.fence.close()


async def run_simulated_nodes(connection: Connection, informers: Informers, settings: SimulatedSettings) -> None:
    """Run simulated nodes (sim-000 …) until cancelled."""
    await SimulatedNodes(connection, informers, settings).run()


def _registration(around: Surroundings, port: int) -> Registration:
    info = node_info()
    labels = {
        "kubernetes.io/hostname": around.name,
        "kubernetes.io/arch": info["architecture"],
        "kubernetes.io/os": info["operatingSystem"],
        "beta.kubernetes.io/arch": info["architecture"],
        "beta.kubernetes.io/os": info["operatingSystem"],
        **_gpu_labels(around.gpus),
        **around.settings.labels,
    }
    return Registration(
        name=around.name,
        labels=labels,
        resources=around.allocatable,
        info=info,
        address=around.settings.address,
        port=port,
        conditions=(_limits_condition(around.cgroups), *_isolation_conditions(around)),
        annotations=_devices(around),
        pressures=around.pressures,
    )


def _require_confinement(settings: NodeSettings, isolation: Isolation) -> None:
    """Raise PhalanxError if pods of other users cannot be isolated on this machine, but the settings require it."""
    if settings.shared and isolation.shared_refusal:
        raise PhalanxError(
            f"this machine cannot be shared: {isolation.shared_refusal} (needed is Linux 5.12 or later). "
            "No pod was started. Start `phalanx up --shared` as root of the "
            "machine (`phalanx install` writes a service that does), or leave --shared out and have it for yourself."
        )


def _devices(around: Surroundings) -> dict[str, str]:
    """Return the annotation that lists the GPUs by name, so that a scheduler can assign single GPUs and parts of
    them."""
    memory = {gpu.index: f"{gpu.memory_mib}Mi" for gpu in around.gpus if gpu.memory_mib}
    listed = [{"name": one, "resource": GPU, "memory": memory.get(one, "0")} for one in around.device_ids()]
    return {DEVICES: msgspec.json.encode(listed).decode()} if listed else {}


def _gpu_labels(gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """Return the labels of NVIDIA's GPU feature discovery."""
    if not gpus:
        return {}
    first, prefix = gpus[0], GPU.partition("/")[0]
    product = first.product.replace(" ", "-")
    return {
        f"{prefix}/gpu.present": "true",
        f"{prefix}/gpu.count": str(len(gpus)),
        f"{prefix}/gpu.product": product,
        f"{prefix}/gpu.memory": str(first.memory_mib),
    }


def _limits_condition(cgroups: Cgroups) -> tuple[str, str, str, str]:
    """Return a node condition of Phalanx that shows whether the limits of containers are enforced on this machine."""
    missing = [name for name in CONTROLLERS if name not in cgroups.enforced]
    if not missing:
        return "ResourceLimitsEnforced", "True", "CgroupsWritable", "limits of cpu, memory and pids are enforced"
    text = (
        f"limits of {', '.join(missing)} are NOT enforced: {'; '.join(cgroups.problems)}. Run the agent as root, or in "
        "a cgroup that is delegated to it (systemd-run --scope -p Delegate=yes)"
    )
    return "ResourceLimitsEnforced", "False", "CgroupsNotWritable", text


def _isolation_conditions(around: Surroundings) -> Iterator[tuple[str, str, str, str]]:
    """Yield node conditions of Phalanx about the isolation of containers and, on a shared machine, about missing
    isolation."""
    isolation = around.isolation
    if isolation.root_refusal:
        text = f"this node can only run `image: host`, and no other images: {isolation.root_refusal}"
        yield "ImagesSupported", "False", "NoNamespaces", text
    elif isolation.overlay_refusal:
        text = f"overlayfs does not work ({isolation.overlay_refusal}): each container gets a copy of its image's files"
        yield "ImagesSupported", "True", "Copied", text
    else:
        yield "ImagesSupported", "True", "Overlayfs", "the root of a container consists of the files of its image"
    if refusal := around.cgroups.devices_refusal:
        text = f"containers can open all device files whose permissions allow it: {refusal}"
        yield "DeviceFilesWithheld", "False", "NoDeviceFilter", text
    if around.settings.static_cpus and "cpuset" not in around.cgroups.enforced:
        text = "no container gets exclusive cpus: this machine has no cpuset controller of cgroups that can be written"
        yield "CpusStatic", "False", "NoCpuset", text
    if around.settings.shared:
        yield _network_condition(around.fence)


async def _fence(settings: NodeSettings, home: Networks) -> NetworkFence | None:
    if not settings.shared:
        return None
    if not settings.fenced:
        with suppress(PhalanxError):  # if nft fails, there are no rules to delete
            await take_down()
        return None
    fence = NetworkFence(home.services)
    await fence.try_out()
    return fence


def _network_condition(fence: NetworkFence | None) -> tuple[str, str, str, str]:
    if fence is not None and not fence.refusal:
        text = "only a pod's own user can connect to its TCP ports, except through a Service; UDP is not restricted"
        return "NetworkIsolated", "True", "Nftables", text
    why = "because of --local-open-network" if fence is None else fence.refusal
    text = f"pods share the machine's network: a pod can connect to the programs of every user ({why})"
    return "NetworkIsolated", "False", "SharedNetwork", text


def _warn_of_limits(around: Surroundings, node: Object) -> None:
    _, enforced, reason, message = _limits_condition(around.cgroups)
    if enforced != "True":
        log.warning("node %s: %s", around.name, message)
        around.tell.tell(node, reason, message, kind="Warning")


async def _register(connection: Connection, registration: Registration, lease_s: int) -> Object:
    """Register the node, and retry until the API server answers. Also create its Lease, without which the node would
    soon count as lost."""
    while True:
        try:
            node = await register(connection, registration)
            await renew_lease(connection, registration.name, node["metadata"]["uid"], lease_s)
            return node
        except ApiUnknown as error:
            log.info("registering node %s: %s", registration.name, error)
            await asyncio.sleep(_RETRY_S)
