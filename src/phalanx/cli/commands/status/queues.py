"""`phalanx queues`: the tree of queues, with the quota, the usage and the jobs of each queue."""

from __future__ import annotations

from phalanx.cli.cluster.numbers.fetching import fetch_queue_table, fetch_summaries
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import print_json, print_table
from phalanx.client.connection import Connection, Object


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
        found = await fetch_queue_table(connection) or await _computed(connection)
    if json:
        print_json([each["record"] for each in found["items"]])
    else:
        print_table(found["columns"], [each["cells"] for each in found["items"]], found["gives_way"])


async def _computed(connection: Connection) -> Object:
    """Compute the table if the scheduler does not serve it to this user: from published summaries, or from all objects.

    Raises PhalanxError."""
    from phalanx.cli.cluster.live_state import look, may_see_all
    from phalanx.cli.views.queue_view import table_of, told_view, views

    if not await may_see_all(connection) and (summaries := await fetch_summaries(connection)) is not None:
        found = [told_view(each) for each in summaries]
    else:
        found = views(await look(connection))
    return table_of(found)
