"""Run the process of a scheduler: open its connections, hold its Lease, fill its caches and serve its metrics."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.monitoring import monitored
from phalanx.cli.cluster.scheduling.schedule import schedule
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.files.policy_file import PolicySettings
from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.cli.local.node_groups.providers import provisioning
from phalanx.cli.terminal.output import note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.client.connection import Connection
from phalanx.kube.install.admission_policy import AdmissionMode
from phalanx.kube.install.rivals import refuse_beside_rivals
from phalanx.kube.leader import Lease, LeaseDurations
from phalanx.kube.read.wire import WIRE_TYPES

# The random part makes the identity unique: two containers in the host network may have the same host name and process
# id.
IDENTITY = f"{socket.gethostname()}-{secrets.token_hex(4)}-{os.getpid()}"


async def run_scheduler(
    target: Target | None,
    settings: PolicySettings,
    record: Path | None,
    where: tuple[str, int] | None,
    ledger: str | None,
    groups: Sequence[GroupInFile],
) -> None:
    """Schedule a cluster until SIGTERM or Ctrl-C. `record`: the file of the recording. `where`: the address of the
    metrics. `ledger`: the URL of the ledger. `groups`: the node groups. Raises PhalanxError if another scheduler runs
    that Phalanx must replace."""
    # The Lease is renewed over its own connection, so that other requests do not delay a renewal. A renewal is the only
    # write that needs no Lease.
    async with connected(target) as connection, await connection.another() as apart:
        await refuse_beside_rivals(connection, settings.dialects, time.time())
        note(
            f"scheduling for {connection.server}, as soon as no other scheduler does; Ctrl-C stops the scheduler, but "
            "no running job"
        )
        await until_stopped(_serve(connection, apart, settings, record, where, ledger, groups))


async def _serve(
    connection: Connection,
    apart: Connection,
    settings: PolicySettings,
    record: Path | None,
    where: tuple[str, int] | None,
    ledger: str | None,
    groups: Sequence[GroupInFile],
) -> None:
    lease = Lease(apart, IDENTITY, terms=LeaseDurations(), policy=settings.text())
    connection.fence(lease.fence)
    # the calls over this connection are the only calls of a standby, so the health check must count them
    apart.tally = connection.tally
    async with monitored(connection, lease, where) as metrics, asyncio.TaskGroup() as group:
        informers = Informers(connection, group, WIRE_TYPES)
        leads = lambda: note("this process leads")  # noqa: E731 (it is passed on, not called)
        nodes = await provisioning(groups, connection, informers, group)
        await schedule(connection, informers, lease, settings, leads, record, metrics, _say, ledger, nodes=nodes)


def _say(admission: AdmissionMode) -> None:
    """Print the kind of admission that prepares new Jobs for their queue. If there is none, `install_policy` has logged
    the reason."""
    if admission is not AdmissionMode.NEITHER:
        note(admission.value)
