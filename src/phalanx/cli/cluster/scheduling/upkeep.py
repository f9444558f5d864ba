"""The tasks that write to the API while the scheduling loop runs. They write the statuses of queues, past usage, and
Events about pods that no scheduler handles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from phalanx.cli.cluster.scheduling.glance import Glance
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, Kind
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.leader import Lease
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.queue_status import StatusSource, keep_queue_statuses
from phalanx.kube.status.unattended_pods import unattended_pods
from phalanx.kube.status.usage import keep_usage
from phalanx.kube.world.kube_world import KubeWorld


@asynccontextmanager
async def upkeep(
    connection: Connection,
    world: KubeWorld,
    glance: Glance,
    settings: KubeSettings,
    informers: Callable[[Kind], Informer],
    lease: Lease,
    clock: Callable[[], float],
) -> AsyncIterator[None]:
    """Run the tasks that write statuses, usage and Events while the context is open."""
    sight = seen(world, glance, informers, lease)
    unattended = unattended_pods(
        settings, lambda: informers(PODS).objects, partial(world.effects.reporter.object_event, warning=True), clock
    )
    tasks = (
        asyncio.ensure_future(keep_queue_statuses(connection, sight, clock)),
        asyncio.ensure_future(keep_usage(connection, glance.cluster.usage, clock, sight.may_write)),
        asyncio.ensure_future(unattended.run()),
    )
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def seen(world: KubeWorld, glance: Glance, informers: Callable[[Kind], Informer], lease: Lease) -> StatusSource:
    """Return the functions by which the writer of queue statuses reads its data."""
    return StatusSource(
        standings=glance.look,
        wrong=lambda: world.queues.wrong,
        objects=lambda: informers(QUEUES).objects,
        may_write=lambda: asyncio.get_running_loop().time() < lease.fence(),
    )
