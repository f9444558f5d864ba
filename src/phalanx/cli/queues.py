"""`phalanx queues`: the queues, and what is in them."""

from __future__ import annotations

from phalanx.cli.output import print_json, print_table
from phalanx.cli.queue_view import COLUMNS, row, views
from phalanx.cli.snapshot import look
from phalanx.cli.target import Target, connected


async def queues(*, target: Target | None = None, json: bool = False) -> None:
    """Show the queues: how each starts its jobs, how many wait and run, and what they hold.

    A queue is an object like any other: `kubectl get queues`, `kubectl edit queue default`.

    For example:

        phalanx queues
        phalanx queues --json | jq '.[] | select(.jobs.queued > 0)'

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
        print_table(COLUMNS, [row(view) for view in found])
