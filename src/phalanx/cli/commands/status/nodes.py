"""`phalanx nodes`: show the resources of each node, and the jobs that use them."""

from __future__ import annotations

from phalanx.cli.cluster.live_state.look import look
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.cli.views.node_view import COLUMNS, GIVES_WAY, row, views


async def nodes(*, target: Target | None = None, json: bool = False) -> None:
    """Show the resources of each node, how much of them is used, and by which jobs.

    Amounts are used/allocatable. `used` is the sum of the requests of the pods on the node.

    For example:

        phalanx nodes
        phalanx nodes --json | jq '.[] | select(.state == "ready") | .node'

    Parameters
    ----------
    json
        Print JSON, with cpu in millicores and all other amounts in whole units (bytes, GPUs).
    """
    async with connected(target) as connection:
        found = views(await look(connection))
    if json:
        print_json([view.record() for view in found])
    elif found:
        print_table(COLUMNS, [row(view) for view in found], GIVES_WAY)
    else:
        note("the cluster has no nodes; `phalanx up` starts a cluster with this machine as its node")
