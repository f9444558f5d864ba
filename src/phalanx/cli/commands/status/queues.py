"""`phalanx queues`: the tree of queues, with the quota, the usage and the jobs of each queue."""

from __future__ import annotations

from phalanx.cli.cluster.numbers.fetching import fetch_queue_table, fetch_summaries
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import print_json, print_table
from phalanx.client.connection import Connection, Object


async def queues(*, target: Target | None = None, json: bool = False) -> None:
    """Show the tree of queues. Each row counts the jobs that run and wait in the queue and in the queues below it, and
    what they use.

    The amounts are used / guaranteed / limit. If a flavor follows in brackets, they apply to the nodes of this flavor,
    otherwise to all nodes. The share is the usage of a queue beyond its guarantee, divided by the capacity that can be
    shared and by the weight of the queue. If the parent queue has the order `fair`, the child queue with the lowest
    share is next.

    A queue is an object of the Kubernetes API, so kubectl works with it: `kubectl get queues`, `kubectl edit queue
    default`, `kubectl explain queue.spec`.

    For example:

        phalanx queues
        phalanx queues --json | jq '.[] | select(.pending > 0)'

    Parameters
    ----------
    json
        Print JSON, with cpu in millicores and all other amounts in whole units (bytes, GPUs).
    """
    async with connected(target) as connection:
        found = await fetch_queue_table(connection) or await _computed(connection)
    if json:
        print_json([each["record"] for each in found["items"]])
    else:
        print_table(found["columns"], [each["cells"] for each in found["items"]], found["gives_way"])


async def _computed(connection: Connection) -> Object:
    """Compute the table in this process, because the scheduler does not serve it to this user. The data are all objects
    of the cluster or, if the user may not list all objects, the published summaries of the queues. Raises
    PhalanxError."""
    from phalanx.cli.cluster.live_state.access import may_see_all
    from phalanx.cli.cluster.live_state.look import look
    from phalanx.cli.views.queue_view import table_of, told_view, views

    if not await may_see_all(connection) and (summaries := await fetch_summaries(connection)) is not None:
        found = [told_view(each) for each in summaries]
    else:
        found = views(await look(connection))
    return table_of(found)
