"""`phalanx queues`: the tree of queues, what each has and uses, and what is in it."""

from __future__ import annotations

from phalanx.cli.cluster.live_state import look
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import print_json, print_table
from phalanx.cli.views.queue_view import COLUMNS, GIVES_WAY, row, views


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
        found = views(await look(connection))
    if json:
        print_json([view.record() for view in found])
    else:
        print_table(COLUMNS, [row(view) for view in found], GIVES_WAY)
