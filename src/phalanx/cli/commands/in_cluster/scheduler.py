"""`phalanx scheduler`: run the scheduler alone, for any Kubernetes cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import uvloop

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.monitoring import monitored
from phalanx.cli.cluster.scheduling import schedule
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.files.policy_file import PolicySettings, settings_of
from phalanx.cli.files.recording import require_recordable
from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.providers import provisioning
from phalanx.cli.terminal.output import log_to_stderr, note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.client.connection import Connection
from phalanx.dialects.enabled import ON_CLUSTERS
from phalanx.kube.install.admission_policy import AdmissionMode
from phalanx.kube.install.rivals import refuse_beside_rivals
from phalanx.kube.leader import Lease, LeaseDurations
from phalanx.kube.read.wire import WIRE_TYPES
from phalanx.metrics.address import address

if TYPE_CHECKING:
    DialectName: TypeAlias = str
else:  # at run time, a Literal of all names: the help lists them, and errors suggest the right name
    DialectName = Literal[*ON_CLUSTERS]
# The random part makes the identity unique: two containers in the host network may have the same host name and process
# id.
IDENTITY = f"{socket.gethostname()}-{secrets.token_hex(4)}-{os.getpid()}"


def scheduler(
    *,
    target: Target | None = None,
    default_queue: str | None = None,
    policy: Path | None = None,
    dialect: tuple[DialectName, ...] = (),
    record: Path | None = None,
    metrics_address: str | None = None,
    ledger: str | None = None,
    node_groups: Path | None = None,
    verbose: bool = False,
) -> None:
    """Schedule the jobs of a cluster, until Ctrl-C. `phalanx up` contains a scheduler for its own cluster.

    The scheduler starts Jobs with the label `phalanx.dev/queue` and pods with `schedulerName: phalanx`. It takes the
    resources of all other pods into account, but does not change these pods. It installs or updates the definitions of
    queues, flavors and reservations, and creates the queue `default` if that is missing. Running jobs go on when the
    scheduler stops. If a cluster has two schedulers, the Lease `kube-system/phalanx` makes one of them the standby.

    For example:

        phalanx scheduler --kubeconfig ~/.kube/config --context production
        phalanx scheduler --policy policy.yaml
        phalanx scheduler --dialect kueue --dialect volcano
        phalanx scheduler --metrics-address 127.0.0.1:9090
        phalanx scheduler --ledger postgresql://phalanx@db/phalanx
        phalanx scheduler --node-groups node-groups.yaml

    Parameters
    ----------
    default_queue
        The queue of jobs that name no queue. [default: the policy's default queue, else `default`]
    policy
        The scheduling policy: YAML with backfill, scores, topologies, factors (docs/guide/kubernetes.md describes each
        field), or a Python file that computes priorities (docs/guide/simulate.md).
    dialect
        Take the place of this other scheduler, which must not run. Phalanx then schedules pods that have the other
        scheduler's name, installs its kinds where they are missing, reads its objects and writes their status. With
        `kubeflow`, Phalanx schedules training jobs; their operator must run as well.
    record
        Append all events and decisions to this file, for `phalanx replay` and `phalanx whatif`.
    metrics_address
        Serve /metrics (for Prometheus), /healthz and /readyz at this address, without a token: they contain no secret,
        and requests change nothing. Without this option no metrics are served.
    ledger
        Record every job that runs in this database, for `phalanx history`: sqlite:///FILE or
        postgresql://USER@HOST/NAME (the password in PGPASSWORD or a .pgpass file). See docs/guide/slurm.md.
    node_groups
        Request nodes for gangs that do not fit. The file names the node groups and their provider
        (docs/guide/autoscaling.md describes each field).
    verbose
        Log more details to standard error.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    settings = replace(settings_of(policy, default_queue), dialects=frozenset(dialect))
    if record is not None:
        require_recordable(record, settings.policy)
    where = None if metrics_address is None else address(metrics_address)
    _require_ledger(ledger)
    uvloop.run(_connected(target, settings, record, where, ledger, read_node_groups(node_groups)))


def _require_ledger(url: str | None) -> None:
    """Raise LedgerError, before anything starts, if the ledger cannot be opened."""
    if url is None:
        return
    from phalanx.ledger.store import Ledger  # a database, which is imported only where there is a ledger

    Ledger.open(url).close()


async def _connected(
    target: Target | None,
    settings: PolicySettings,
    record: Path | None,
    where: tuple[str, int] | None,
    ledger: str | None,
    groups: Sequence[GroupInFile],
) -> None:
    # The Lease is renewed over its own connection, so that no other request delays it. Renewals are the only writes
    # that need no Lease.
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
    # a standby makes no other calls, so the health check must see the calls of this connection
    apart.tally = connection.tally
    async with monitored(connection, lease, where) as metrics, asyncio.TaskGroup() as group:
        informers = Informers(connection, group, WIRE_TYPES)
        leads = lambda: note("this process leads")  # noqa: E731 (it is passed on, not called)
        nodes = await provisioning(groups, connection, informers, group)
        await schedule(connection, informers, lease, settings, leads, record, metrics, _say, ledger, nodes=nodes)


def _say(admission: AdmissionMode) -> None:
    """Print which kind of admission prepares new Jobs for the queue. If there is none, `install_policy` has logged the
    reason."""
    if admission is not AdmissionMode.NEITHER:
        note(admission.value)
