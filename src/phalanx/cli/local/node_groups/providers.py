"""The node groups of a file, with their providers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.providers.autoscaler import AutoscalerGroup, AutoscalerProvider
from phalanx.providers.provision import Provisioning


def provisioning(
    groups: Sequence[GroupInFile],
    connection: Connection,
    informers: Callable[[Kind], Informer],
    tasks: asyncio.TaskGroup,
) -> Provisioning | None:
    """Return the node groups with their providers; None if there are no groups."""
    if not groups:
        return None
    autoscaled = [
        AutoscalerGroup(each.group, each.label, each.provider.namespace, each.provider.image) for each in groups
    ]
    provider = AutoscalerProvider(connection, informers, autoscaled, tasks)
    labels = {each.label: each.group.name for each in groups}
    return Provisioning([(each.group, provider) for each in groups], time.time, labels)
