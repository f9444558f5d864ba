"""The node groups of a file, with their providers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.cli.local.node_groups.provider_fields import Autoscaler, ExecProvider, WebhookProvider
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, Kind
from phalanx.model.node import NodeGroup
from phalanx.providers.autoscaler import AutoscalerGroup, AutoscalerProvider
from phalanx.providers.calls import CalledProvider, Caller
from phalanx.providers.program import Program
from phalanx.providers.provider import Provider
from phalanx.providers.provision import Provisioning
from phalanx.providers.removal import EmptyNodes
from phalanx.providers.webhook import Webhook


def provisioning(
    groups: Sequence[GroupInFile],
    connection: Connection,
    informers: Callable[[Kind], Informer],
    tasks: asyncio.TaskGroup,
) -> Provisioning | None:
    """Return the node groups with their providers; None if there are no groups."""
    if not groups:
        return None
    found: list[tuple[NodeGroup, Provider]] = []
    autoscaled: list[AutoscalerGroup] = []
    for each in groups:
        if isinstance(each.provider, Autoscaler):
            here = each.provider
            autoscaled.append(AutoscalerGroup(each.group, each.label, here.namespace, here.image))
        else:
            found.append((each.group, _provider(each, connection, informers(NODES))))
    if autoscaled:
        autoscaler = AutoscalerProvider(connection, informers, autoscaled, tasks)
        found += ((each.group, autoscaler) for each in autoscaled)
    return Provisioning(found, time.time, {each.label: each.group.name for each in groups})


def _provider(of: GroupInFile, connection: Connection, nodes: Informer) -> Provider:
    """Return the provider of a group without an autoscaler."""

    def provider_id(name: str) -> str:
        return str(((nodes.objects.get(name) or {}).get("spec") or {}).get("providerID") or "")

    called = CalledProvider(caller(of), provider_id)
    return EmptyNodes(called, connection)


def caller(of: GroupInFile) -> Caller:
    """Return the program or the web server of a group."""
    match of.provider:
        case ExecProvider(command=command, timeout_s=timeout_s):
            return Program(command, timeout_s)
        case WebhookProvider(url=url, authority=authority, token=token, timeout_s=timeout_s):
            return Webhook(url, authority, token, timeout_s)
        case Autoscaler():
            raise AssertionError("an autoscaler is not called")
