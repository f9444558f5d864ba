"""Get the rows of jobs: from the scheduler, if it serves them to this user, or computed from all objects."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.cli.cluster.jobs.finding import kind_word
from phalanx.cli.cluster.numbers.fetching import fetch_rows
from phalanx.cli.views.job.job_view import JobTableRow
from phalanx.client.connection import Connection


async def look_at_rows(
    connection: Connection,
    namespace: str,
    ledger: str | None = None,
    *,
    finished: bool = False,
    recorded: bool = False,
    foreseen: bool = True,
) -> tuple[float, list[JobTableRow]]:
    """Return the current time (seconds since the epoch) and the rows of the jobs in a namespace ("": in all
    namespaces).

    The scheduler serves the rows to users with the right to read them. For other users, this process computes the rows
    from all objects, which takes longer. `finished`: include finished jobs. `recorded`: include all fields that
    `--json` prints.
    `foreseen`: include expected starts. Raises PhalanxError."""
    served = await fetch_rows(connection, namespace, finished=finished, recorded=recorded)
    if served is not None:
        return served["now_s"], msgspec.convert(served["items"], list[JobTableRow])
    from phalanx.cli.cluster.live_state.look import look
    from phalanx.cli.views.job.reading import expected_starts, views

    snapshot = await look(connection, namespace, ledger)
    found = views(snapshot, namespace, finished=finished)
    starts = expected_starts(found, snapshot) if foreseen else {}
    return snapshot.now_s, [view.row(starts.get(view.id), snapshot.now_s, recorded=recorded) for view in found]


async def job_states(connection: Connection, namespace: str) -> Mapping[tuple[str, str], str]:
    """Return (kubectl's word for the kind, NAMESPACE/NAME) -> state, for the jobs in a namespace ("": in all
    namespaces). Raises PhalanxError."""
    _, rows = await look_at_rows(connection, namespace, foreseen=False)
    return {(kind_word(row.kind), row.title.replace("/pod:", "/")): row.state for row in rows}
