"""Take a snapshot of a live cluster, and compute the decisions of the next scheduling cycle, for commands such as
`explain` and `jobs`.

The objects are listed once. The scheduler's own code reads them and builds the cluster state from them, and the
scheduler's function `decide` runs on this state. So the numbers in a reason are current, and equal to those that the
scheduler would report. This module writes nothing. Some facts exist only in the scheduler's memory, for example that a
job backs off after a failed start. Such facts are read from the reason that the scheduler wrote on the Job.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.live_state.access import may_see, may_see_all
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.live_state.decision import think, without_warnings
from phalanx.cli.cluster.live_state.installation import not_listed, past_runs_of, require_queues, settings_of_leader
from phalanx.cli.cluster.live_state.silent_pods import with_causes
from phalanx.cli.cluster.numbers.fetching import fetch_reasons
from phalanx.client.connection import Connection, Object
from phalanx.client.kind import PODS
from phalanx.clusters.choices import FiguredClusters
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS
from phalanx.errors import PhalanxError
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.usage import load_usage
from phalanx.kube.world.capacity_sources import CapacitySources
from phalanx.kube.world.kube_world import KubeWorld

_LISTING_S = 60.0


async def look(connection: Connection, namespace: str = "", ledger: str | None = None) -> Snapshot:
    """Return a snapshot of the cluster, or only of `namespace` if the user may not list the whole cluster. `ledger`:
    the URL of the cluster's ledger, from which the run times of deleted jobs are read.

    Raises PhalanxError if Phalanx is not installed in the cluster, or if the user may list the jobs neither of all
    namespaces nor of `namespace`."""
    partial = not await may_see_all(connection)
    if partial and not namespace:
        raise PhalanxError(
            "this needs the right to list the jobs of all namespaces, which you do not have. Nothing was shown. "
            "`phalanx "
            "jobs` shows the jobs of your namespace, `kubectl get queues` the queues."
        )
    if partial and not await may_see(connection, namespace):
        raise PhalanxError(f"you may not list the jobs of namespace {namespace}. Nothing was shown.")
    # without this, a partial look would warn about each kind of object that the user may not list
    quiet = "phalanx.kube" if partial else "phalanx.kube.routing.fence"
    await require_queues(connection)
    settings = await settings_of_leader(connection)
    policy = settings.policy
    if settings.function:
        logging.getLogger(__name__).warning(
            "the scheduler computes priorities with %s, which this command cannot call: in queues ordered by "
            "multifactor, positions and expected starts may differ",
            settings.function,
        )
    async with asyncio.TaskGroup() as group:
        informers = Informers(connection, group, namespace=namespace if partial else "")
        how = KubeSettings(default_queue=policy.default_queue, dialects=settings.dialects, patient=False)
        sources = CapacitySources(clusters=FiguredClusters(lambda: clusters_in(world)))
        world = KubeWorld(connection, informers, how, time.time, sources=sources)
        try:
            with without_warnings(quiet):
                async with asyncio.timeout(_LISTING_S):
                    await world.sync(load_usage(connection))
                snapshot = think(world, informers, time.time(), policy, past_runs_of(ledger))
        except TimeoutError as error:
            raise not_listed(connection, _LISTING_S) from error
        informers.stop()
    told = await fetch_reasons(connection, namespace) if partial else {}
    objects = {**snapshot.objects, PODS: await with_causes(connection, snapshot.pods, snapshot.now_s)}
    return replace(snapshot, partial=partial, numbers=told, objects=objects)


def clusters_in(world: KubeWorld) -> Mapping[str, Object]:
    """Return the MultiKueueClusters by name; empty if this kind is not watched."""
    return world.caches.objects(MULTI_CLUSTERS) if world.caches.watches(MULTI_CLUSTERS) else {}
