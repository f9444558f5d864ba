"""`phalanx queues`: the tree of queues, with the quota, the usage and the jobs of each queue."""

from __future__ import annotations

from phalanx.cli.cluster.live_state import look, may_see_all
from phalanx.cli.cluster.numbers import fetch_summaries
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import print_json, print_table
from phalanx.cli.views.queue_view import COLUMNS, GIVES_WAY, QueueView, row, told_view, views
from phalanx.client.connection import Connection


async def queues(*, target: Target | None = None, json: bool = False) -> None:
    """Show the tree of queues: how many jobs run and wait in each and below, and what they use.

    Used / guaranteed / limit are of all nodes, or of a flavor's in brackets. The share is what a queue uses beyond its
    guarantee, of what there is to share, by its weight: among siblings in fair order the lowest comes first.

    A queue is an object like any other: `kubectl get queues`, `kubectl edit queue default`, `kubectl explain
    queue.spec`.

    For example:

        phalanx queues
        phalanx queues --json | jq '.[] | select(.pending > 0)'

    Parameters
    ----------
    json
        Print JSON: cpu in millicores, everything else in whole units.
    """
    async with connected(target) as connection:
        found = await _views(connection)
    if json:
        print_json([view.record() for view in found])
    else:
        print_table(COLUMNS, [row(view) for view in found], GIVES_WAY)


async def _views(connection: Connection) -> list[QueueView]:
    """Return the queues. For a user who may not list all jobs, use the numbers that the cluster publishes for each
    user. Raises PhalanxError."""
    if not await may_see_all(connection) and (summaries := await fetch_summaries(connection)) is not None:
        return [told_view(each) for each in summaries]
    return views(await look(connection))
