"""Create the provider of each node group of a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from random import Random

from phalanx.cli.local.node_groups.annotation_fields import complete
from phalanx.cli.local.node_groups.backends import cloud, documents, machine_set, powered
from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.cli.local.node_groups.provider_fields import (
    Autoscaler,
    CloudProvider,
    ExecProvider,
    MachineProvider,
    SlurmProvider,
    WebhookProvider,
)
from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, Kind
from phalanx.model.node import NodeGroup
from phalanx.providers.autoscaler import AutoscalerGroup, AutoscalerProvider
from phalanx.providers.counted.calls import CountedProvider
from phalanx.providers.counted.machines import Machines
from phalanx.providers.provider import EmptyNodes, Provider
from phalanx.providers.provision import Provisioning
from phalanx.providers.simulated import SimulatedProvider
from phalanx.simulator.workload import SimulatedGroup


async def provisioning(
    groups: Sequence[GroupInFile],
    connection: Connection,
    informers: Callable[[Kind], Informer],
    tasks: asyncio.TaskGroup,
    simulated: Sequence[SimulatedGroup] = (),
) -> Provisioning | None:
    """Return the node groups with their providers; None if there are no groups. `tasks`: the task group in which
    providers run. `simulated`: the simulated groups. Raises PhalanxError if Machines or a cloud provider cannot be
    read."""
    if not groups and not simulated:
        return None
    found: list[tuple[NodeGroup, Provider]] = []
    if simulated:
        provider = SimulatedProvider(connection, simulated, tasks, Random())
        found += ((each.group, provider) for each in simulated)
    autoscaled: list[AutoscalerGroup] = []
    for each in groups:
        match each.provider:
            case Autoscaler(namespace=namespace, image=image):
                autoscaled.append(AutoscalerGroup(each.group, each.label, namespace, image))
            case MachineProvider() as said:
                found.append(await _machines(each, said, connection, informers(NODES), tasks))
            case SlurmProvider() as said:
                backend = powered(each, said, connection, informers(NODES).objects.get, tasks)
                found.append((each.group, EmptyNodes(CountedProvider(backend, lambda name: ""), connection)))
            case CloudProvider() as said:
                found.append(await _cloud(each, said, connection, informers(NODES)))
            case ExecProvider() | WebhookProvider() as said:
                calls = CountedProvider(documents(said), lambda name: provider_id(informers(NODES), name))
                found.append((each.group, EmptyNodes(calls, connection)))
    if autoscaled:
        autoscaler = AutoscalerProvider(connection, informers, autoscaled, tasks)
        found += ((each.group, autoscaler) for each in autoscaled)
    return Provisioning(found, time.time, {each.label: each.group.name for each in groups})


async def _machines(
    of: GroupInFile, said: MachineProvider, connection: Connection, nodes: Informer, tasks: asyncio.TaskGroup
) -> tuple[NodeGroup, Provider]:
    """Return the group with the missing fields from its annotations, and its provider."""
    there = connection
    if said.kubeconfig is not None:
        there = await Connection.open(said.kubeconfig)
        tasks.create_task(_close_at_the_end(there))
    owner = machine_set(of, said)
    completed = await complete(of, owner, there)

    def node(name: str) -> Object | None:
        return nodes.objects.get(name)

    provider = CountedProvider(Machines(there, owner, connection, node), lambda name: "")
    return completed.group, EmptyNodes(provider, connection, deletes=False)


async def _cloud(
    of: GroupInFile, said: CloudProvider, connection: Connection, nodes: Informer
) -> tuple[NodeGroup, Provider]:
    """Return the group with the missing fields from its cloud provider, and the provider."""
    from phalanx.cli.local.node_groups.cloud_fields import complete_cloud

    completed = await complete_cloud(of, said)
    backend = cloud(of, said, nodes.objects.values, connection)
    return completed.group, EmptyNodes(CountedProvider(backend, lambda name: provider_id(nodes, name)), connection)


async def _close_at_the_end(connection: Connection) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await connection.close()


def provider_id(nodes: Informer, name: str) -> str:
    return str(((nodes.objects.get(name) or {}).get("spec") or {}).get("providerID") or "")
