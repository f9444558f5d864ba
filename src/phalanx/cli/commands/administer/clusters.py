"""`phalanx clusters`: the other clusters that get jobs, and why one gets none."""

from __future__ import annotations

import time

from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.cli.views.cluster_view import table_of, view_of
from phalanx.client.connection import ApiRefusal
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS


async def clusters(*, target: Target | None = None, json: bool = False) -> None:
    """Show the other clusters to which this one sends jobs (MultiKueueClusters), what each has, and how much of it is
    used. For a cluster that gets no jobs the last column says why, and how to mend that.

    Amounts are used/allocatable on nodes that take pods. JOBS counts the jobs sent there that have not ended. OFFERS
    has the cluster's data and prices, if it has any. The scheduler brings these numbers up to date every 30 seconds.

    For example:

        phalanx clusters
        phalanx clusters --json | jq '.[] | select(.active | not) | {cluster, why, mend}'

    Parameters
    ----------
    json
        Print JSON: cpu in millicores, everything else in whole units.
    """
    async with connected(target) as connection:
        try:
            listed = (await connection.list(MULTI_CLUSTERS))["items"]
        except ApiRefusal as error:
            if error.code != 404:
                raise
            listed = []
    views = sorted((view_of(each) for each in listed), key=lambda view: view.name)
    if json:
        print_json([view.record() for view in views])
    elif views:
        print_table(*table_of(views, time.time()))
    else:
        note("there are no other clusters; docs/guide/several-clusters.md says how to add one")
