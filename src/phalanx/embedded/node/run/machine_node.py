"""Run this machine as a node. The caller supplies the connection and the caches, which other components share.

`run_node` calls all parts: it reads the machine's capacity, starts the log endpoint, registers the node, renews its
Lease, and runs pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from phalanx.client.connection import ApiError, ApiUnknown, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, PODS, Kind
from phalanx.embedded.endless import endless
from phalanx.embedded.node.agent.agent import Agent
from phalanx.embedded.node.agent.server import serving, shared_token
from phalanx.embedded.node.agent.usage import Meter
from phalanx.embedded.node.container.durable import sole_owner
from phalanx.embedded.node.machine.registration import (
    Registration,
    keep_lease,
    keep_registered,
    register,
    renew_lease,
    tell_pressure,
)
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.network.names import Networks, networks
from phalanx.embedded.node.run.assembly import assemble
from phalanx.embedded.node.run.hardware import device_sources
from phalanx.embedded.node.run.node_object import registration_of, warn_of_limits

log = logging.getLogger(__name__)

Informers = Callable[[Kind], Informer]
_RETRY_S = 0.5


async def run_node(connection: Connection, informers: Informers, settings: NodeSettings) -> None:
    """Run this machine as a node, until cancelled. The processes of its pods continue after that, and the next run
    finds them.

    Raises PhalanxError if the port of the log endpoint is in use, or if another agent uses the directory. Raises
    OSError if the directory cannot be written."""
    with sole_owner(settings.pods_dir), networks(settings.data_dir) as home:
        await _run_node(connection, informers, settings, home)


async def _run_node(connection: Connection, informers: Informers, settings: NodeSettings, home: Networks) -> None:
    shared_token(settings.token_file)
    registration: Registration | None = None

    async def changed() -> None:
        if registration is not None:
            with suppress(ApiError):  # the next heartbeat writes the status
                informers(NODES).observe(await register(connection, registration))

    around = await assemble(connection, informers, settings, home, changed)
    pods, nodes = informers(PODS), informers(NODES)
    agent = Agent(around, nodes)
    async with _closing(around), serving(agent, meter := Meter(agent.pods, around.name), settings) as port:
        registration = registration_of(around, port)
        nodes.observe(node := await _register(connection, registration, settings.patience.lease_duration_s))
        warn_of_limits(around, node)

        async def tell() -> None:
            with suppress(ApiError):  # the next check tries again
                nodes.observe(await tell_pressure(connection, registration, nodes.objects.get(around.name) or node))

        loops: dict[str, Callable[[], Awaitable[None]]] = {
            **_upkeep(around),
            "disk": lambda: agent.watch_disk(tell),
            "usage": meter.run,
            **_heartbeats(connection, registration, nodes, node["metadata"]["uid"], settings),
        }
        async with asyncio.TaskGroup() as group:
            for what, loop in loops.items():
                group.create_task(endless(what, loop))
            for work in (*device_sources(settings, around.devices), agent.run(pods)):
                group.create_task(work)


def _upkeep(around: Surroundings) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return the tasks that keep the shared objects of the pods up to date."""
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


@asynccontextmanager
async def _closing(around: Surroundings) -> AsyncIterator[None]:
    try:
        yield
    finally:
        around.cgroups.close()
        if around.fence is not None:
            around.fence.close()


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
