"""`phalanx scheduler`: run only the scheduler, for any Kubernetes cluster."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import uvloop

from phalanx.cli.cluster.target import Target
from phalanx.cli.commands.in_cluster.scheduler_process import run_scheduler
from phalanx.cli.files.policy_file import settings_of
from phalanx.cli.files.recording import require_recordable
from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.cli.terminal.output import log_to_stderr
from phalanx.dialects.enabled import ON_CLUSTERS
from phalanx.metrics.address import address

if TYPE_CHECKING:
    DialectName: TypeAlias = str
else:  # at run time this is a Literal of all names, so that the help lists them, and errors suggest the right name
    DialectName = Literal[*ON_CLUSTERS]


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
        Replace this other scheduler, which must not run. Phalanx then schedules pods that have the other scheduler's
        name, installs its kinds where they are missing, reads its objects and writes their status. With `kubeflow`,
        Phalanx schedules training jobs; their operator must run as well.
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
    uvloop.run(run_scheduler(target, settings, record, where, ledger, read_node_groups(node_groups)))


def _require_ledger(url: str | None) -> None:
    """Raise LedgerError, before anything starts, if the ledger cannot be opened."""
    if url is None:
        return
    from phalanx.ledger.store import Ledger  # imports a database, so import it only if there is a ledger

    Ledger.open(url).close()
