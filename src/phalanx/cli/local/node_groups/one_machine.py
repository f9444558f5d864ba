"""The node groups of `phalanx up`: simulated groups of `--node-group`, and those of the file of `--node-groups`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.option import OPTION, node_groups
from phalanx.cli.local.node_groups.provider_fields import Autoscaler
from phalanx.cli.local.node_groups.providers import provisioning
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import NAMESPACES, Kind
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import NODE_GROUP
from phalanx.providers.provision import Provisioning
from phalanx.simulator.workload.workload import SimulatedGroup


def read_local_groups(
    texts: Sequence[str], file: Path | None
) -> tuple[tuple[SimulatedGroup, ...], tuple[GroupInFile, ...]]:
    """Return the groups of the options and those of the file. Raises PhalanxError."""
    simulated, listed = node_groups(texts), read_node_groups(file)
    names = {each.group.name for each in simulated}
    for each in listed:
        if each.group.name in names:
            raise PhalanxError(
                f"{OPTION} {each.group.name}: {file} has a node group of this name too. Give each its own name."
            )
        if each.label[0] == NODE_GROUP and each.label[1] in names:
            raise PhalanxError(
                f"{file}: the nodes of {each.group.name} have the label {'='.join(each.label)}, which is the label of "
                f"{OPTION} {each.label[1]}. Give one of both another name or nodeLabel."
            )
    return simulated, listed


async def local_provisioning(
    texts: Sequence[str],
    file: Path | None,
    connection: Connection,
    informers: Callable[[Kind], Informer],
    tasks: asyncio.TaskGroup,
) -> Provisioning | None:
    """Return all node groups with their providers; None if there are none. Creates the namespaces in which nodes are
    requested from autoscalers. Raises PhalanxError if Machines or a cloud cannot be read."""
    simulated, listed = read_local_groups(texts, file)
    for name in sorted({each.provider.namespace for each in listed if isinstance(each.provider, Autoscaler)}):
        try:
            await connection.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
    return await provisioning(listed, connection, informers, tasks, simulated)
