"""Open the `World` of a Kubernetes API: install Phalanx's kinds, list all objects, and run the tasks of the world.

Use as `async with open_world(connection, informers) as world: await loop.run(world, …)`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from phalanx.client.connection import Connection
from phalanx.kube.install.installation import install_all
from phalanx.kube.routing.caches import LISTED_FIRST, Informers
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.usage import load_usage
from phalanx.kube.world.capacity_sources import CapacitySources
from phalanx.kube.world.kube_world import KubeWorld


@asynccontextmanager
async def open_world(
    api: Connection,
    informers: Informers,
    settings: KubeSettings | None = None,
    clock: Callable[[], float] = time.time,
    fence: Callable[[], float] | None = None,
    breaches: Callable[[], int] = lambda: 0,
    sources: CapacitySources | None = None,
) -> AsyncIterator[KubeWorld]:
    """Yield a running world. The first events that it reports describe the whole cluster.

    `informers(kind)`: a function that returns the running cache of a kind. `fence`: a function that returns the event
    loop's time after which no write may be sent (see `leader`). None means that no other scheduler runs. `breaches`: a
    function that returns how many decisions have violated a limit so far, such as the capacity of a node. `sources`:
    the node groups, and the other clusters to which jobs are sent.
    """
    settings = settings or KubeSettings()
    for kind in LISTED_FIRST:  # start to list these kinds now, because the lists are long
        informers(kind)
    installed = await install_all(api, clock, settings.others)
    settings = replace(settings, dialects=settings.dialects - installed.unread)
    world = KubeWorld(api, informers, settings, clock, fence, installed, breaches, sources)
    async with asyncio.TaskGroup() as group:
        await world.sync(load_usage(api))
        tasks = [group.create_task(run()) for run in world.tasks()]
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()
