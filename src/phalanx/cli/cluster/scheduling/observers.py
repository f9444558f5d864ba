"""Pass each step of the scheduling loop to observers: the metrics, the ledger, and the recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from phalanx import loop
from phalanx.cli.cluster.scheduling.glance import Glance
from phalanx.cli.files.recording import Recorder
from phalanx.cli.terminal.output import note
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.metrics.decisions import Decisions, Measured
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster

if TYPE_CHECKING:  # servers and a database are imported only if they are used
    from phalanx.metrics.collector import Scheduler


def measured(world: KubeWorld, glance: Glance, metrics: Scheduler | None) -> loop.World:
    """Return a world that counts the decisions in the metrics. If `metrics` is None, return `world` itself."""
    if metrics is None:
        return world
    from phalanx.metrics.collector import Leader

    decisions = Decisions()
    metrics.leader = Leader(
        decisions=decisions,
        standings=lambda: glance.standings,
        overview=lambda: glance.overview,
        unanswered=lambda: world.effects.writer.unanswered,
        unsent=lambda: world.effects.writer.unsent,
        breaches=lambda: len(glance.cluster.breaches),
        others=world.answers.reports.counted(),
    )
    return Measured(world, glance.cluster, decisions)


@contextmanager
def accounted(
    inner: loop.World, world: KubeWorld, informers: Callable[[Kind], Informer], url: str | None
) -> Iterator[loop.World]:
    """Yield a world that records the jobs of the world `inner` in the ledger with this URL. Without a ledger, yield
    `inner` itself. Raises LedgerError."""
    if url is None:
        yield inner
        return
    from phalanx.cli.cluster.accounting import Objects
    from phalanx.ledger.accounted import Accounted  # imports a database, so import it only if there is a ledger
    from phalanx.ledger.store import Ledger

    objects = Objects(world.caches.words)
    objects.follow(informers, world.caches.served)
    with Ledger.open(url) as ledger:
        found = Accounted(inner, ledger, objects.look)
        try:
            yield found
        finally:
            found.close()


async def run_recorded(
    world: loop.World, cluster: Cluster, policy: Policy, record: Path | None, clock: Callable[[], float]
) -> None:
    """Run the scheduling loop, and append its steps to the file `record`. If `record` is None, write no recording."""
    if record is None:
        await loop.run(world, cluster, policy, clock)
        return
    recorder = Recorder(world, record, policy, clock, note)
    try:
        await loop.run(recorder, cluster, policy, recorder.clock)
    finally:
        recorder.close()
