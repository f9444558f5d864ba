"""Past jobs on the page: their rows and their reasons, read from the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from phalanx.cli.views.entry_view import last_entry
from phalanx.cli.views.page import rows
from phalanx.cli.views.page.rows import Unit
from phalanx.dashboard.rows import PastRow
from phalanx.ledger.store import LedgerError
from phalanx.state.cluster import Cluster

log = logging.getLogger(__name__)


class PastJobs:
    """The past jobs of one cluster. `ledger`: the URL of its ledger; None: there are no past jobs. If the ledger cannot
    be read, a warning is logged, and the page shows no past jobs."""

    def __init__(self, ledger: str | None) -> None:
        self._ledger = ledger

    async def rows(self, cluster: Cluster, from_s: float, to_s: float) -> Sequence[PastRow]:
        """Return the jobs that ran between two times. `cluster`: the present state; its nodes determine the unit of the
        rows."""
        if self._ledger is None:
            return ()
        unit = Unit(node for node in cluster.columns.nodes if node is not None)
        try:
            return await asyncio.to_thread(rows.read_past, self._ledger, unit, from_s, to_s)
        except LedgerError as error:
            log.warning("the past is not shown: %s", error)
            return ()

    async def reasons(self, job: str) -> Sequence[tuple[float, str]]:
        """Return (time, code) for each change of the job's reason: the time of the change, and the code of the new
        reason."""
        if self._ledger is None:
            return ()
        try:
            entry = await asyncio.to_thread(last_entry, self._ledger, job)
        except LedgerError as error:
            log.warning("the history of a job is not shown: %s", error)
            return ()
        return [(change.at_s, change.code) for change in entry.reasons] if entry is not None else ()
