"""Create the backends of providers. A backend calls a cloud provider, programs or a web server to create, list and
remove nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.cli.local.node_groups.provider_fields import (
    CloudProvider,
    ExecProvider,
    MachineProvider,
    SlurmProvider,
    WebhookProvider,
)
from phalanx.client.connection import Connection, Object
from phalanx.providers.counted.called import Program, Webhook
from phalanx.providers.counted.calls import Backend, Documents
from phalanx.providers.counted.machines import MachineSet
from phalanx.providers.counted.suspend import PoweredNodes
from phalanx.slurm.notation.hostlist import compress


def hostlist(names: Iterable[str]) -> str:
    return compress(names, ordered=True)


def cloud(
    of: GroupInFile, said: CloudProvider, nodes: Callable[[], Iterable[Object]], connection: Connection | None = None
) -> Backend:
    """Return the backend that calls the cloud provider. `nodes`: a function that returns the Node objects of the
    cluster."""
    from phalanx.providers.counted.cloud import Instances

    return Instances(said.at, said.group, nodes, of.label, connection)


def powered(
    of: GroupInFile,
    said: SlurmProvider,
    connection: Connection,
    node: Callable[[str], Object | None],
    tasks: asyncio.TaskGroup,
) -> PoweredNodes:
    """Return the backend that calls the programs of a slurm.conf. `node`: a function that returns the Node object of
    this name. `tasks`: the task group in which the backend runs."""
    return PoweredNodes(said.settings, hostlist, connection, node, of.label, tasks)


def machine_set(of: GroupInFile, said: MachineProvider) -> MachineSet:
    """Return a reference to the MachineDeployment or MachineSet whose Machines are the nodes of the group."""
    return MachineSet(said.kind, said.namespace, said.name, of.label)


def documents(said: ExecProvider | WebhookProvider) -> Documents:
    """Return the backend that calls the program or the web server."""
    match said:
        case ExecProvider(command=command, timeout_s=timeout_s):
            return Documents(Program(command, timeout_s))
        case WebhookProvider(url=url, authority=authority, token=token, timeout_s=timeout_s):
            return Documents(Webhook(url, authority, token, timeout_s))
