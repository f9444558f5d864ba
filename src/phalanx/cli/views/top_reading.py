"""Read the data of all tables of `phalanx top` from the cluster: a snapshot, the queues, and the measured usage of
nodes and pods."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.live_state.look import look
from phalanx.cli.cluster.numbers.fetching import fetch_summaries
from phalanx.cli.cluster.target import current_namespace
from phalanx.cli.views import node_view, queue_view
from phalanx.cli.views.job import reading
from phalanx.cli.views.page.agents import METRICS
from phalanx.cli.views.top_view import TopPicture, Use, own_first
from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.kind import Kind
from phalanx.client.quantity import amount
from phalanx.model.pod import CPU, MEMORY

_NODE_METRICS = Kind(group=METRICS.group, version=METRICS.version, plural="nodes", name="NodeMetrics", namespaced=False)


async def see(connection: Connection, user: str, namespace: str, *, everybody: bool) -> tuple[TopPicture, Snapshot]:
    """Return the data of all tables that this user may see, and the snapshot from which they were computed.
    `everybody`: True to include the jobs of other users. Raises PhalanxError."""
    home = namespace or current_namespace(os.environ)
    snapshot, summaries, nodes, pods = await asyncio.gather(
        look(connection, home),
        fetch_summaries(connection),
        _measured(connection, _NODE_METRICS),
        _pods_measured(connection, home),
    )
    found, own = own_first(reading.views(snapshot, namespace), user, home)
    told = [queue_view.told_view(each) for each in summaries or ()]
    picture = TopPicture(
        now_s=snapshot.now_s,
        user=user,
        jobs=tuple(view for view in found if everybody or view.id in own),
        own=own,
        nodes=tuple(node_view.views(snapshot)),
        queues=tuple(told if snapshot.partial else queue_view.views(snapshot)),
        partial=snapshot.partial,
        node_use=nodes,
        job_use=_by_job(snapshot, pods),
    )
    return picture, snapshot


async def _pods_measured(connection: Connection, namespace: str) -> dict[str, Use]:
    """Return the measured usage of all pods that this user may list, by NAMESPACE/NAME: the pods of all namespaces, or
    only those of `namespace`."""
    return await _measured(connection, METRICS) or await _measured(connection, METRICS, namespace)


async def _measured(connection: Connection, kind: Kind, namespace: str = "") -> dict[str, Use]:
    """Return the measured usage of each node by NAME, or of each pod by NAMESPACE/NAME; empty without a metrics
    server."""
    try:
        items = (await connection.list(kind, namespace))["items"]
    except ApiError:  # the metrics are not served, the user may not read them, or the metrics server does not respond
        return {}
    return {_key(item["metadata"]): use_of(item) for item in items}


def _key(meta: Object) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def use_of(metrics: Object) -> Use:
    """Return (CPU, memory) that a node uses, or that the containers of a pod use together."""
    each = [metrics, *(metrics.get("containers") or ())]
    used = [one.get("usage") or {} for one in each]
    return sum(amount(CPU, one.get("cpu", "0")) for one in used), sum(
        amount(MEMORY, one.get("memory", "0")) for one in used
    )


def _by_job(snapshot: Snapshot, pods: Mapping[str, Use]) -> dict[str, Use]:
    """Return job -> the sum of the usage of its pods, for jobs with measured pods."""
    found = {}
    for job, gang in snapshot.gangs.items():
        if used := [pods[pod.key] for pod in gang.objects.pods.values() if pod.key in pods]:
            found[job] = (sum(cpu for cpu, _ in used), sum(memory for _, memory in used))
    return found
