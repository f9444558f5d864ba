"""`phalanx status`: show whether the cluster answers and its scheduler runs, and the numbers of its nodes, queues and
jobs."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from phalanx.cli.cluster.jobs.choosing import live_jobs
from phalanx.cli.cluster.jobs.standing import standing
from phalanx.cli.cluster.target import Target, connected, find_kubeconfig
from phalanx.cli.terminal.output import counted, duration, print_json
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import LEASES, NODES
from phalanx.client.moment import MomentError, read_moment
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.leader import NAME, NAMESPACE

_LATE_S = 60.0  # if a Lease was not renewed for this time, its holder is assumed to be dead


async def status(*, target: Target | None = None, json: bool = False) -> int:
    """Show the cluster's address, whether its scheduler runs, and how many nodes, queues and jobs it has.

    The exit code is 1 if no scheduler runs, that is, if the scheduler's Lease is not renewed.

    For example:

        phalanx status
        phalanx status --json | jq .jobs

    Parameters
    ----------
    json
        Print JSON: server, kubeconfig, version, scheduler (holder, renewed_s_ago; null if there is none), nodes,
        queues, jobs by state. A number that you are not allowed to read is null.
    """
    chosen = find_kubeconfig(target or Target(), os.environ)
    async with connected(target) as connection:
        found = {
            "server": connection.server,
            "kubeconfig": str(chosen or os.environ.get("KUBECONFIG") or "~/.kube/config"),
            "version": (await connection.request("GET", "/version")).get("gitVersion", ""),
            "scheduler": await _scheduler(connection, time.time()),
            "nodes": await _nodes(connection),
            "queues": await _count(connection),
            "jobs": await _jobs(connection),
        }
    scheduler = found["scheduler"]
    runs = scheduler is not None and scheduler["renewed_s_ago"] < _LATE_S
    if json:
        print_json(found)
    else:
        print("\n".join(_lines(found)))
    return 0 if runs else 1


async def _scheduler(connection: Connection, now_s: float) -> dict[str, object] | None:
    try:
        spec = (await connection.get(LEASES, NAME, NAMESPACE)).get("spec") or {}
        return {
            "holder": spec.get("holderIdentity") or "",
            "renewed_s_ago": round(max(0.0, now_s - read_moment(spec.get("renewTime"))), 1),
        }
    except (ApiRefusal, MomentError):
        return None


async def _nodes(connection: Connection) -> dict[str, int] | None:
    try:
        nodes = (await connection.list(NODES))["items"]
    except ApiRefusal:
        return None
    conditions = [(node.get("status") or {}).get("conditions") or () for node in nodes]
    ready = sum(any((one["type"], one["status"]) == ("Ready", "True") for one in each) for each in conditions)
    return {"ready": ready, "not_ready": len(nodes) - ready}


async def _count(connection: Connection) -> int | None:
    try:
        return len((await connection.list(QUEUES))["items"])
    except ApiRefusal:
        return None


async def _jobs(connection: Connection) -> dict[str, int]:
    return dict(Counter(standing(job.members, ()).state for job in await live_jobs(connection, "")))


def _lines(found: dict[str, Any]) -> list[str]:
    scheduler, nodes = found["scheduler"], found["nodes"]
    leads = "no scheduler runs: nothing is scheduled"
    if scheduler is not None:
        ago_s = scheduler["renewed_s_ago"]
        leads = f"{scheduler['holder']}, renewed {duration(ago_s)} ago"
        leads += "" if ago_s < _LATE_S else ": the scheduler does not run, and nothing is scheduled"
    jobs = ", ".join(f"{count} {state}" for state, count in sorted(found["jobs"].items())) or "none"
    ready = "you are not allowed to list nodes" if nodes is None else f"{nodes['ready']} ready"
    more = f", {nodes['not_ready']} not ready" if nodes and nodes["not_ready"] else ""
    queues = "not readable, or not installed" if found["queues"] is None else counted(found["queues"], "queue")
    return [
        f"cluster    {found['server']}, Kubernetes {found['version']} ({found['kubeconfig']})",
        f"scheduler  {leads}",
        f"nodes      {ready}{more}",
        f"queues     {queues}",
        f"jobs       {jobs}",
    ]
