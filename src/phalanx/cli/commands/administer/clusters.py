"""`phalanx clusters`: show the other clusters to which jobs are sent, and why a cluster gets no jobs."""

from __future__ import annotations

import time

from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.cli.views.cluster_view import table_of, view_of
from phalanx.client.connection import ApiRefusal
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS


async def clusters(*, target: Target | None = None, json: bool = False) -> None:
    """Show the other clusters to which this cluster sends jobs (MultiKueueClusters), with their resources and their
    usage. If a cluster gets no jobs, the last column shows why, and how to solve it.

    Amounts are used/allocatable on nodes that accept pods. JOBS is the number of jobs that were sent to the cluster and
    have not ended. OFFERS has the data sets and prices of the cluster, if it states any. The scheduler updates these
    numbers every 30 seconds.

    For example:

        phalanx clusters
        phalanx clusters --json | jq '.[] | select(.active | not) | {cluster, why, mend}'

    Parameters
    ----------
    json
        Print JSON, with cpu in millicores and all other amounts in whole units (bytes, GPUs).
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
        note("there are no other clusters; docs/guide/several-clusters.md describes how to add one")
