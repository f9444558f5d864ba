"""Run the scheduler of a cluster: the scheduling loop with the objects of an API server, and all tasks that run at the
same time, such as the writer of queue statuses, the ledger and the recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.cli.cluster.scheduling.answers import RowsOf, visible_state
from phalanx.cli.cluster.scheduling.cluster_world import open_cluster, world_settings
from phalanx.cli.cluster.scheduling.glance import Glance
from phalanx.cli.cluster.scheduling.observers import accounted, measured, run_recorded
from phalanx.cli.cluster.scheduling.upkeep import upkeep
from phalanx.cli.files.policy_file import PolicySettings as Policies
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.kube.install.admission_policy import AdmissionMode
from phalanx.kube.leader import Lease, SteadyClock, leading
from phalanx.kube.world.capacity_sources import NodeProvisioning
from phalanx.scaling.waiting import admitted_together
from phalanx.state.cluster import Cluster

if TYPE_CHECKING:  # servers and a database are imported only if they are used
    from phalanx.metrics.collector import Scheduler


async def schedule(
    connection: Connection,
    informers: Callable[[Kind], Informer],
    lease: Lease,
    policies: Policies,
    leads: Callable[[], None] = lambda: None,
    record: Path | None = None,
    metrics: Scheduler | None = None,
    admits: Callable[[AdmissionMode], None] = lambda _: None,
    ledger: str | None = None,
    alone: Callable[[Mapping[str, Any]], bool] | None = None,
    views: Path | None = None,
    nodes: NodeProvisioning | None = None,
    rows: RowsOf | None = None,
) -> None:
    """Wait until this process becomes the leader, and then schedule until cancelled.

    `leads`: a function that is called when the process has become the leader. `record`: the recording to which every
    step is appended.
    `metrics`: the metrics of this process. `admits`: a function that is called with the mechanism by which this cluster
    prepares new Jobs for their queue. `ledger`: the URL of the ledger that records every job. `alone`: a function that
    takes the spec of a pod with the default scheduler's name, and returns True if Phalanx binds this pod too; None if
    another scheduler binds such pods. `views`: the folder of the socket on which API groups are served. `nodes`: the
    node groups. `rows`: a function that creates the rows and pages of jobs for this socket. Raises LeaseLost if another
    process may have become the leader, and LedgerError."""
    async with leading(lease):
        leads()
        await _lead(connection, informers, lease, policies, record, metrics, admits, ledger, alone, views, nodes, rows)


async def _lead(
    connection: Connection,
    informers: Callable[[Kind], Informer],
    lease: Lease,
    policies: Policies,
    record: Path | None,
    metrics: Scheduler | None,
    admits: Callable[[AdmissionMode], None],
    ledger: str | None,
    alone: Callable[[Mapping[str, Any]], bool] | None,
    views: Path | None,
    nodes: NodeProvisioning | None,
    rows: RowsOf | None,
) -> None:
    cluster, policy, clock = Cluster(), policies.policy, SteadyClock()
    settings = world_settings(policies, alone)
    async with open_cluster(connection, informers, settings, clock, lease, cluster, nodes) as world:
        admits(world.installed.admission)
        world.effects.reporter.admitted = lambda jobs: admitted_together(cluster, policy, clock(), jobs)
        glance = Glance(cluster, now_s=clock)
        async with upkeep(connection, world, glance, settings, informers, lease, clock):
            answer = None if rows is None else rows(cluster, world, informers, clock, glance.starts).answer
            async with visible_state(views, world, glance, clock, answer, ledger):
                with accounted(measured(world, glance, metrics), world, informers, ledger) as whole:
                    await run_recorded(whole, cluster, policy, record, clock)
