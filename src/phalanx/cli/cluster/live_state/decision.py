"""Build the cluster state from objects as the scheduler does, and decide on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.ledger.usage import with_past_runs
from phalanx.model.event import Event, PolicySeen, QueueSeen, RunTold, Ticked
from phalanx.model.plan import Place, Plan
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster


@contextmanager
def without_warnings(name: str) -> Iterator[None]:
    """While the context is open, the logger of this name logs only errors. (The scheduler logs an invalid object once,
    but each command and each snapshot reads it again.)"""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def think(
    world: KubeWorld,
    informers: Callable[[Kind], Informer],
    now_s: float,
    policy: Policy | None = None,
    runs: Sequence[RunTold] = (),
    usage: Sequence[Event] = (),
    *,
    partial: bool = False,
    decides: bool = True,
) -> Snapshot:
    """Build the cluster state from the events of the world, the past runs `runs` and the past usage `usage`. Compute a
    plan for this state, and return both as a snapshot. The world sends no writes, because its writer is not started.
    `decides`: False for a snapshot without a decision, which is then partial."""
    cluster, policy = Cluster(), policy or Policy()
    told = list(world.events())
    known = max((at for at, event in enumerate(told, 1) if isinstance(event, QueueSeen)), default=0)
    events = tuple(with_past_runs([*told[:known], *usage, *told[known:]], runs))
    fold(cluster, (PolicySeen(policy), Ticked(now_s), *events))
    plan = decide(cluster, policy, now_s).plan if decides else Plan()
    sent = {gang.id for gang in world.gangs.values() if gang.elsewhere is not None}
    places = tuple(each for each in plan.actions if isinstance(each, Place) and each.job in sent)
    # The pods of these jobs run in other clusters, and the objects of this cluster do not name their nodes.
    fold_plan(cluster, Plan(actions=places))
    kinds = (JOBS, PODS, NODES, QUEUES, *sorted(world.caches.served, key=lambda kind: kind.plural))
    return Snapshot(
        cluster=cluster,
        events=events,
        plan=plan,
        gangs=world.gangs,
        objects={kind: dict(informers(kind).objects) for kind in kinds},
        wrong=dict(world.queues.wrong),
        now_s=now_s,
        partial=partial or not decides,
        reading=(world.caches.admission, world.watch.defaults),
    )
