"""Create the objects that all pods of the node share (`machine.surroundings`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import NAMESPACES, PODS, SERVICES, Kind
from phalanx.embedded.node.images.store import ImageStore
from phalanx.embedded.node.machine.devices.pool import DevicePool
from phalanx.embedded.node.machine.events import Occurrences
from phalanx.embedded.node.machine.machine import host_name
from phalanx.embedded.node.machine.owners import Owners
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.network.names import Networks
from phalanx.embedded.node.network.naming import Naming
from phalanx.embedded.node.pod.admission import GPU
from phalanx.embedded.node.run.confinement import isolation_of, network_fence
from phalanx.embedded.node.run.hardware import control_groups, find_hardware, offer_own_devices


async def assemble(
    connection: Connection,
    informers: Callable[[Kind], Informer],
    settings: NodeSettings,
    home: Networks,
    changed: Callable[[], Awaitable[None]],
) -> Surroundings:
    """Return the objects that the node's pods share. `home`: the networks of this node. `changed`: a function that is
    called when devices are added or removed. Raises PhalanxError if the machine lacks what the settings require."""
    name = settings.name or host_name()
    hardware = await asyncio.to_thread(find_hardware)
    allocatable = hardware.allocatable(settings)
    cgroups = control_groups(name, allocatable, settings, hardware)
    isolation = await isolation_of(settings)
    pods = informers(PODS)
    fence = await network_fence(settings, home)
    devices = DevicePool(allocatable, changed)
    await offer_own_devices(devices, hardware)
    return Surroundings(
        connection=connection,
        settings=settings,
        name=name,
        allocatable=allocatable,
        gpus=hardware.whole_gpus,
        has_gpus=GPU in allocatable or bool(hardware.instances),
        rdma_cards=hardware.rdma_cards,
        devices=devices,
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
