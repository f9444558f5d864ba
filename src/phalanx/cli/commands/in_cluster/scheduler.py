"""`phalanx scheduler`: only the scheduler, for any Kubernetes cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import uvloop

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.monitoring import monitored
from phalanx.cli.cluster.scheduling import schedule
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.files.policy_file import Settings, settings_of
from phalanx.cli.files.recording import require_recordable
from phalanx.cli.terminal.output import log_to_stderr, note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.client.connection import Connection
from phalanx.dialects.enabled import ON_CLUSTERS
from phalanx.kube.install.admission_policy import AdmissionMode
from phalanx.kube.install.rivals import refuse_beside_rivals
from phalanx.kube.leader.lease import Lease, LeaseDurations
from phalanx.kube.read.wire import WIRE_TYPES
from phalanx.metrics.serving import address

if TYPE_CHECKING:
    DialectName: TypeAlias = str
else:  # each by its name, for help and for who mistypes one
    DialectName = Literal[*ON_CLUSTERS]
# Two containers of one host network have one host name, and each is process 1.
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
    verbose: bool = False,
) -> None:
    """Schedule the jobs of a cluster, until Ctrl-C. (`phalanx up` does this too, for its own cluster.)

    Jobs with the label `phalanx.dev/queue` and pods with `schedulerName: phalanx` are its work; everything else it
    counts and leaves alone. Installs the definitions of queues, flavors and reservations, or brings them up to date,
    and the queue `default` where it is missing. Stopping it stops nothing that runs. Start it twice, or for the cluster
    of a `phalanx up`, and one stands by until the other is gone (a Lease, `kube-system/phalanx`).

    For example:

        phalanx scheduler
        phalanx scheduler --kubeconfig ~/.kube/config --context production
        phalanx scheduler --policy policy.yaml
        phalanx scheduler --dialect kueue --dialect volcano
        phalanx scheduler --record monday.jsonl
        phalanx scheduler --metrics-address 127.0.0.1:9090
        phalanx scheduler --ledger postgresql://phalanx@db/phalanx

    Parameters
    ----------
    default_queue
        The queue of jobs that name none. [default: what the policy says, else default]
    policy
        How to decide: YAML with backfill, scores, topologies, factors (docs/guide/kubernetes.md has every field), or
        Python that computes priorities (docs/guide/simulate.md).
    dialect
        Take the place of this scheduler, which itself must not run: answer to its scheduler name, read its kinds, which
        are defined where they are absent, and write their status. kubeflow: training jobs (PyTorchJob, TFJob and
        others), beside their operator. docs/dialects says what becomes of each field.
    record
        Add all that happens and all that is decided to this file, for `phalanx replay` and `phalanx whatif`.
    metrics_address
        Serve /metrics (for Prometheus), /healthz and /readyz there, without a token: nothing in them is secret, and
        they change nothing. Not served if this is not said. docs/guide/metrics.md lists what there is.
    ledger
        Record every job that runs in this database, for `phalanx history`: sqlite:///FILE or
        postgresql://USER@HOST/NAME (the password in PGPASSWORD or a .pgpass file). docs/guide/slurm.md says what is
        recorded.
    verbose
        Say more on standard error.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    settings = replace(settings_of(policy, default_queue), dialects=frozenset(dialect))
    if record is not None:
        require_recordable(record, settings.policy)
    where = None if metrics_address is None else address(metrics_address)
    if ledger is not None:
        _require_ledger(ledger)
    uvloop.run(_connected(target, settings, record, where, ledger))


def _require_ledger(url: str) -> None:
    """Raises LedgerError before anything starts, if the ledger cannot be opened."""
    from phalanx.ledger.store import Ledger  # a database, which is imported only where there is a ledger

    Ledger.open(url).close()


async def _connected(
    target: Target | None,
    settings: Settings,
    record: Path | None,
    where: tuple[str, int] | None,
    ledger: str | None,
) -> None:
    # Renewals have a connection of their own: they wait for nobody, and are the only writes that need no lease.
    async with connected(target) as connection, connected(target) as apart:
        await refuse_beside_rivals(connection, settings.dialects, time.time())
        note(f"scheduling for {connection.server}, as soon as no other does; Ctrl-C stops it, and nothing that runs")
        await until_stopped(_serve(connection, apart, settings, record, where, ledger))


async def _serve(
    connection: Connection,
    apart: Connection,
    settings: Settings,
    record: Path | None,
    where: tuple[str, int] | None,
    ledger: str | None,
) -> None:
    lease = Lease(apart, IDENTITY, terms=LeaseDurations(), policy=settings.text())
    connection.fence(lease.fence)
    apart.tally = connection.tally  # who stands by is known to be well by these calls alone
    async with monitored(connection, lease, where) as metrics, asyncio.TaskGroup() as group:
        informers = Informers(connection, group, WIRE_TYPES)
        leads = lambda: note("this process leads")  # noqa: E731 (it is passed on, not called)
        await schedule(connection, informers, lease, settings, leads, record, metrics, _say, ledger)


def _say(admission: AdmissionMode) -> None:
    """Where it is neither, the log says so (`install_policy`)."""
    if admission is not AdmissionMode.NEITHER:
        note(admission.value)
