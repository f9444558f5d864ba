"""The scheduler of a cluster, wired: the loop over the world that is an API server, and the status of its queues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from phalanx import loop
from phalanx.cli.output import note
from phalanx.cli.policy_file import Settings as Policies
from phalanx.cli.recording import Recorder
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.core.standing import foreseen, standings
from phalanx.kube.definitions import QUEUES
from phalanx.kube.lease import Lease, leading
from phalanx.kube.queue_status import Sight, keep_statuses
from phalanx.kube.usage import keep_usage
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
    record: Path | None = None,
) -> None:
    """As soon as no other leads (`leads` is called then), until cancelled. `record`: the recording that every step is
    added to. Raises LeaseLost if another may lead."""
    policy = policies.policy
    async with leading(lease):
        leads()
        await _lead(connection, informers, lease, policy, record)


async def _lead(
    connection: Connection, informers: Callable[[Kind], Informer], lease: Lease, policy: Policy, record: Path | None
) -> None:
    cluster, settings = Cluster(), Settings(default_queue=policy.default_queue)
    async with open_world(connection, informers, settings, fence=lease.fence) as world:
        sight = seen(world, cluster, informers, lease)
        keeping = (
            asyncio.ensure_future(keep_statuses(connection, sight, time.time)),
            asyncio.ensure_future(keep_usage(connection, cluster.usage, time.time, sight.may_write)),
        )
        try:
            await _run(world, cluster, policy, record)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.wait(keeping)


async def _run(world: KubeWorld, cluster: Cluster, policy: Policy, record: Path | None) -> None:
    if record is None:
        await loop.run(world, cluster, policy, time.time)
        return
    recorder = Recorder(world, record, policy, time.time, note)
    try:
        await loop.run(recorder, cluster, policy, recorder.clock)
    finally:
        recorder.close()


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
