"""Run all controllers in one event loop, with shared caches.

A controller decides nothing until each cache that it reads has been filled from the API server. Otherwise a Job whose
pods are not in the cache yet would get new pods.
"""

from __future__ import annotations

import asyncio
import time

from phalanx.client.connection import Connection
from phalanx.client.kind import (
    CRDS,
    DISRUPTION_BUDGETS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from phalanx.embedded.controllers.groups.deletion import deletion_group
from phalanx.embedded.controllers.groups.machines import machine_group
from phalanx.embedded.controllers.groups.operators import operator_group
from phalanx.embedded.controllers.groups.settings import Settings
from phalanx.embedded.controllers.groups.workloads import workload_group
from phalanx.embedded.controllers.job.controller import JobController
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, Informers
from phalanx.embedded.controllers.runtime.pod_state import OwnerPodIndex
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext
from phalanx.embedded.controllers.runtime.recorder import EventRecorder, marking
from phalanx.embedded.endless import endless

_NEEDED: tuple[Kind, ...] = (
    *(PODS, JOBS, NAMESPACES, NODES, LEASES, DISRUPTION_BUDGETS, CRDS, VOLUME_CLAIMS, VOLUMES),
    POD_GROUPS,
)


async def run_controllers(
    connection: Connection, informers: Informers, settings: Settings | None = None, clock: Clock = time.time
) -> None:
    """Run the controllers until cancelled. `informers(kind)` returns the running, shared cache of a kind. It is called
    at once for the kinds that controllers read, and later for every other built-in kind that the server serves."""
    settings = settings or Settings()
    await install_operators(connection)
    calls = Calls(connection, informers, in_flight=settings.in_flight)
    recorder = EventRecorder(calls, window_s=settings.events_window_s, writes_per_s=settings.events_per_s, clock=clock)
    index = OwnerPodIndex()
    calls.cache(PODS).subscribe(index.take)  # subscribed first, because later subscribers read the index
    job_index = OwnerPodIndex()
    calls.cache(JOBS).subscribe(job_index.take)
    jobs = JobController(calls, index, recorder, settings.job, clock)
    context = ControllerContext(
        calls=calls, recorder=recorder, pods=index, jobs=job_index, retry=settings.job.retry, clock=clock
    )
    groups = (
        deletion_group(connection, calls, settings, clock),
        machine_group(calls, recorder, settings, clock),
        workload_group(context, settings.volumes_dir),
        operator_group(context, settings),
    )
    jobs.start()
    for queued in (one for group in groups for one in group.queued):
        queued.start()
    loops = [one for group in groups for one in group.loops]
    for loop in loops:
        loop.start()
    for kind, queue in ((JOBS, jobs.queues[0]), *(each for group in groups for each in group.queues)):
        queue.on_defect = marking(recorder, calls.cache(kind))
    await asyncio.gather(*(calls.cache(kind).synced.wait() for kind in _NEEDED))
    async with asyncio.TaskGroup() as tasks:
        for queue in (*jobs.queues, *(one.queue for group in groups for one in group.queued)):
            tasks.create_task(queue.run())
        for loop in loops:
            tasks.create_task(loop.run())
        tasks.create_task(endless("events", recorder.run))
        for name, run in (each for group in groups for each in group.endless.items()):
            tasks.create_task(endless(name, run))
