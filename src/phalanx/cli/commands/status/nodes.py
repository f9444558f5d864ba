"""`phalanx nodes`: what each node has, and who uses it."""

from __future__ import annotations

from phalanx.cli.cluster.live_state import look
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.cli.views.node_view import COLUMNS, GIVES_WAY, row, views


async def nodes(*, target: Target | None = None, json: bool = False) -> None:
    """Show what each node has, how much of it is used, and by which jobs.

    Amounts are used/allocatable, where used is what the pods on the node ask for.

    For example:

        phalanx nodes
        phalanx nodes --json | jq '.[] | select(.state == "ready") | .node'

    Parameters
    ----------
    json
        Print JSON: cpu in millicores, everything else in whole units.
    """
    async with connected(target) as connection:
        found = views(await look(connection))
    if json:
        print_json([view.record() for view in found])
    elif found:
        print_table(COLUMNS, [row(view) for view in found], GIVES_WAY)
    else:
        note("there are no nodes; `phalanx up` makes this machine one")
