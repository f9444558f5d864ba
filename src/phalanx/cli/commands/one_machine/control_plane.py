"""`phalanx control-plane` (internal): all parts of `phalanx up` except the API server, in one process.

The scheduler, the Job controller and other controllers, this machine's node agent and the simulated nodes share one
connection and one cache for each kind. They communicate only through the API. If one of them fails, the process writes
the traceback to its log and ends, and `phalanx up` starts the process again. No state is lost, because all state is in
the API.

The scheduler uses the same Lease as `phalanx scheduler`. So if both run, only one of them schedules, and the other is
the standby. Only one `phalanx up` runs on a data directory, so the holder identity in the Lease is a constant: after a
crash the next process takes over at once, even if the Lease has not expired.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvloop

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.monitoring import monitored
from phalanx.cli.cluster.scheduling.schedule import schedule
from phalanx.cli.files.policy_file import DIALECTS, PolicySettings, settings_of
from phalanx.cli.local.control_plane.companions import companions
from phalanx.cli.local.control_plane.preparation import prepare
from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.cli.local.node_groups.option import local_provisioning
from phalanx.cli.terminal.output import log_to_stderr
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.job.served import ServedViews
from phalanx.client.connection import Connection
from phalanx.kube.leader import Lease, LeaseDurations
from phalanx.metrics.address import address
from phalanx.metrics.collector import Scheduler

IDENTITY = "phalanx-up"
# These times are longer than those of `phalanx scheduler`. No standby waits until this Lease expires, and the API
# server may be slow for a while, because the jobs run on the same machine.
TERMS = LeaseDurations(lease_s=60.0, renew_s=45.0, retry_s=5.0)


def control_plane(
    *,
    data: Path,
    policy: Path | None = None,
    record: Path | None = None,
    metrics_address: str | None = None,
    machines: LocalMachines | None = None,
) -> None:
    """Run the control plane of `phalanx up`. Only `phalanx up` starts this command.

    For example:

        phalanx control-plane --data ~/.phalanx
    """
    log_to_stderr(logging.INFO)
    gc.set_threshold(50_000, 20, 50)  # a watch creates many objects, and few of them refer to each other in cycles
    # all dialects are enabled, because no other scheduler runs in this cluster
    settings = replace(settings_of(policy), dialects=DIALECTS)
    where = None if metrics_address is None else address(metrics_address)
    uvloop.run(_serve(DataDirectory(data), settings, machines or LocalMachines(), record, where))


async def _serve(
    directory: DataDirectory,
    settings: PolicySettings,
    machines: LocalMachines,
    record: Path | None,
    where: tuple[str, int] | None,
) -> None:
    """Run all parts of the control plane until SIGTERM. Pods of this machine keep running afterwards."""
    async with await Connection.open(directory.control_plane_kubeconfig) as connection:
        lease = Lease(connection, IDENTITY, terms=TERMS, policy=settings.text())
        async with monitored(connection, lease, where) as metrics:
            await until_stopped(_run_all(connection, directory, settings, machines, record, lease, metrics))


async def _run_all(
    connection: Connection,
    directory: DataDirectory,
    settings: PolicySettings,
    machines: LocalMachines,
    record: Path | None,
    lease: Lease,
    metrics: Scheduler | None,
) -> None:
    async with asyncio.TaskGroup() as group:
        informers = Informers(connection, group)
        await prepare(connection, machines)
        nodes = await local_provisioning(machines.node_group, machines.node_groups, connection, informers, group)
        for part in companions(connection, informers, directory, machines):
            group.create_task(part)
        await schedule(
            connection,
            informers,
            lease,
            settings,
            record=record,
            metrics=metrics,
            ledger=directory.ledger_url,
            alone=_is_bound_here,
            views=directory.views,
            nodes=nodes,
            rows=partial(ServedViews, ledger=directory.ledger_url),
        )


def _is_bound_here(spec: Mapping[str, object]) -> bool:
    """Return True for every pod, because no other scheduler runs in this cluster: Phalanx also binds pods of the
    default scheduler. A bound pod whose image is missing waits with ErrImagePull, and the node starts the pod as soon
    as the image exists."""
    return True
