"""The scheduler of a cluster, wired: the loop over the world that is an API server, and the status of its queues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from phalanx import loop
from phalanx.cli.policy_file import Settings as Policies
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.core.standing import foreseen, standings
from phalanx.kube.definitions import QUEUES
from phalanx.kube.lease import Lease, leading
from phalanx.kube.queue_status import Sight, keep_statuses
from phalanx.kube.world import KubeWorld, Settings, open_world
from phalanx.model.cluster import Cluster
from phalanx.model.policy import Policy
from phalanx.model.standing import Standing

FORESEEN_JOBS = 200  # with more live jobs than these, a status does not say when jobs are expected to start


async def schedule(
    connection: Connection,
    informers: Callable[[Kind], Informer],
    lease: Lease,
    policies: Policies,
    leads: Callable[[], None] = lambda: None,
) -> None:
    """As soon as no other leads (`leads` is called then), until cancelled. Raises LeaseLost if another may lead."""
    policy = policies.policy
    async with leading(lease):
        leads()
        await _lead(connection, informers, lease, policy)


async def _lead(connection: Connection, informers: Callable[[Kind], Informer], lease: Lease, policy: Policy) -> None:
    cluster, settings = Cluster(), Settings(default_queue=policy.default_queue)
    async with open_world(connection, informers, settings, fence=lease.fence) as world:
        keeping = asyncio.ensure_future(keep_statuses(connection, seen(world, cluster, informers, lease), time.time))
        try:
            await loop.run(world, cluster, policy, time.time)
        finally:
            keeping.cancel()


def seen(world: KubeWorld, cluster: Cluster, informers: Callable[[Kind], Informer], lease: Lease) -> Sight:
    """What the writer of statuses sees."""

    def now() -> list[Standing]:
        return foreseen(cluster, list(standings(cluster)), time.time(), FORESEEN_JOBS)

    return Sight(
        standings=now,
        wrong=lambda: world.tree.wrong,
        objects=lambda: informers(QUEUES).objects,
        may_write=lambda: asyncio.get_running_loop().time() < lease.fence(),
    )
