"""The node groups of a file, with their providers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random

from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.cli.local.node_groups.machine_fields import complete
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
from phalanx.providers.counted.called import Program, Webhook
from phalanx.providers.counted.calls import Backend, CountedProvider, Documents
from phalanx.providers.counted.machines import Machines, MachineSet
from phalanx.providers.counted.suspend import PoweredNodes
from phalanx.providers.provider import EmptyNodes, Provider
from phalanx.providers.provision import Provisioning
from phalanx.providers.simulated import SimulatedProvider
from phalanx.simulator.workload.workload import SimulatedGroup
from phalanx.slurm.notation.hostlist import compress


async def provisioning(
    groups: Sequence[GroupInFile],
    connection: Connection,
    informers: Callable[[Kind], Informer],
    tasks: asyncio.TaskGroup,
    simulated: Sequence[SimulatedGroup] = (),
) -> Provisioning | None:
    """Return the node groups with their providers; None if there are no groups. Raises PhalanxError if Machines or a
    cloud cannot be read."""
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
            case SlurmProvider(settings=settings):
                nodes = informers(NODES).objects
                powered = PoweredNodes(settings, hostlist, connection, nodes.get, each.label, tasks)
                found.append((each.group, EmptyNodes(CountedProvider(powered, lambda name: ""), connection)))
            case CloudProvider() as said:
                found.append(await _cloud(each, said, connection, informers(NODES)))
            case ExecProvider() | WebhookProvider() as said:
                calls = CountedProvider(documents(said), lambda name: provider_id(informers(NODES), name))
                found.append((each.group, EmptyNodes(calls, connection)))
    if autoscaled:
        autoscaler = AutoscalerProvider(connection, informers, autoscaled, tasks)
        found += ((each.group, autoscaler) for each in autoscaled)
    return Provisioning(found, time.time, {each.label: each.group.name for each in groups})


def hostlist(names: Iterable[str]) -> str:
    return compress(names, ordered=True)


async def _machines(
    of: GroupInFile, said: MachineProvider, connection: Connection, nodes: Informer, tasks: asyncio.TaskGroup
) -> tuple[NodeGroup, Provider]:
    """Return the group as its annotations complete it, and its provider."""
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
    """Return the group as its provider completes it, and the provider."""
    from phalanx.cli.local.node_groups.cloud_fields import complete_cloud

    completed = await complete_cloud(of, said)
    backend = cloud(of, said, nodes.objects.values, connection)
    return completed.group, EmptyNodes(CountedProvider(backend, lambda name: provider_id(nodes, name)), connection)


def cloud(
    of: GroupInFile, said: CloudProvider, nodes: Callable[[], Iterable[Object]], connection: Connection | None = None
) -> Backend:
    """Return the backend that is a cloud provider."""
    from phalanx.providers.counted.cloud import Instances

    return Instances(said.at, said.group, nodes, of.label, connection)


async def _close_at_the_end(connection: Connection) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await connection.close()


def machine_set(of: GroupInFile, said: MachineProvider) -> MachineSet:
    """Return the object whose Machines are the nodes of the group."""
    return MachineSet(said.kind, said.namespace, said.name, of.label)


def provider_id(nodes: Informer, name: str) -> str:
    return str(((nodes.objects.get(name) or {}).get("spec") or {}).get("providerID") or "")


def documents(said: ExecProvider | WebhookProvider) -> Documents:
    """Return the backend that is a program or a web server."""
    match said:
        case ExecProvider(command=command, timeout_s=timeout_s):
            return Documents(Program(command, timeout_s))
        case WebhookProvider(url=url, authority=authority, token=token, timeout_s=timeout_s):
            return Documents(Webhook(url, authority, token, timeout_s))
