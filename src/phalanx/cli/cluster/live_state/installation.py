"""Read the data that the scheduler of a cluster has written: its queues, its policy, and run times in its ledger."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from phalanx.cli.files.policy_file import PolicySettings as Policies
from phalanx.cli.files.policy_file import settings_from
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import LEASES
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.leader import NAME, NAMESPACE
from phalanx.kube.read.labels import POLICY
from phalanx.ledger.store import Ledger, LedgerError
from phalanx.ledger.usage import MOST, past_runs
from phalanx.model.event import RunTold


def not_listed(connection: Connection, after_s: float) -> PhalanxError:
    """Return the error for a server that did not list all objects within `after_s` seconds."""
    return PhalanxError(
        f"{connection.server} did not list pods, Jobs, nodes and queues within {after_s:g} s. Nothing was shown. "
        "Check that you may list all of them: kubectl auth can-i list pods -A"
    )


def past_runs_of(ledger: str | None) -> Sequence[RunTold]:
    """Return the run times of past jobs in the ledger. Without a readable ledger, the result is empty, and expected
    starts are computed only from the objects."""
    try:
        if ledger is None:
            return ()
        with Ledger.open(ledger, read_only=True) as book:
            return tuple(past_runs(book.ended(MOST)))
    except LedgerError as error:
        logging.getLogger(__name__).info("run times are not read from the ledger: %s", error)
        return ()


async def settings_of_leader(connection: Connection) -> Policies:
    """Return the policy settings of the scheduler that holds the Lease. The scheduler writes them into an annotation of
    the Lease."""
    try:
        lease = await connection.get(LEASES, NAME, NAMESPACE)
    except ApiRefusal:
        return settings_from("")
    return settings_from((lease["metadata"].get("annotations") or {}).get(POLICY, ""))


async def require_queues(connection: Connection) -> None:
    """Raise PhalanxError if the cluster has no queues, because Phalanx is not installed in it."""
    try:
        await connection.list(QUEUES)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        raise PhalanxError(
            f"the cluster at {connection.server} knows no queues, so Phalanx is not installed there. Start `phalanx "
            "scheduler` for it, or a cluster on this machine with `phalanx up`."
        ) from error
