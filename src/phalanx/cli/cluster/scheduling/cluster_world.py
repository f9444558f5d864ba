"""The world of the cluster that is scheduled, with its node groups and the other clusters to which jobs are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from phalanx.cli.files.policy_file import PolicySettings
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.clusters.dispatch import Dispatcher
from phalanx.dialects.kueue.kinds import NAME as KUEUE
from phalanx.kube.leader import Lease
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.capacity_sources import CapacitySources, NodeProvisioning
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.kube.world.opening import open_world
from phalanx.state.cluster import Cluster


def world_settings(policies: PolicySettings, alone: Callable[[Mapping[str, Any]], bool] | None) -> KubeSettings:
    """Return the settings of the world, the scheduler's interface to the cluster. `alone`: see `schedule`."""
    settings = KubeSettings(default_queue=policies.policy.default_queue, dialects=policies.dialects)
    return settings if alone is None else replace(settings, alone=alone, sole=True)


def open_cluster(
    connection: Connection,
    informers: Callable[[Kind], Informer],
    settings: KubeSettings,
    clock: Callable[[], float],
    lease: Lease,
    cluster: Cluster,
    nodes: NodeProvisioning | None,
) -> AbstractAsyncContextManager[KubeWorld]:
    """Return the context in which the world runs. `cluster`: the cluster state; it counts decisions that overcommit a
    node.
    `nodes`: the node groups."""

    def breaches() -> int:
        return len(cluster.breaches)

    clusters = Dispatcher(connection, informers, clock, lease.fence) if KUEUE in settings.dialects else None
    sources = CapacitySources(nodes=nodes, clusters=clusters)
    return open_world(connection, informers, settings, clock, lease.fence, breaches, sources)
