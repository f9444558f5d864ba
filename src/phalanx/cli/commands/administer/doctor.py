"""`phalanx doctor`: report which rules this machine or cluster enforces, which problems it has, and how to solve
them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from phalanx.cli.cluster.live_state.access import may_see_all
from phalanx.cli.cluster.live_state.installation import settings_of_leader
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.commands.administer.cluster_findings import of_clusters, of_moves
from phalanx.cli.commands.administer.node_group_findings import OK, PROBLEM, WARNING, Finding, hidden, of_node_groups
from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.cli.terminal.output import counted, duration, print_json
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import LEASES, NODES, Kind
from phalanx.client.moment import MomentError, read_moment
from phalanx.kube.install.admission_policy import INSTALLED, WEBHOOK, WEBHOOKS
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.install.rivals import rivals_at_work
from phalanx.kube.leader import NAME, NAMESPACE

_LATE_S = 60.0  # if a Lease was not renewed for this time, its holder is assumed to be dead
# The conditions by which Phalanx's node agent reports what the node enforces. If a limit is not enforced, the message
# states how to make the node enforce it.
_ENFORCED: Final = ("ResourceLimitsEnforced", "ImagesSupported", "DeviceFilesWithheld", "CpusStatic", "NetworkIsolated")
_MARKS = {OK: "ok      ", WARNING: "warning ", PROBLEM: "problem "}


async def doctor(*, target: Target | None = None, node_groups: Path | None = None, json: bool = False) -> int:
    """Show which rules this machine or cluster enforces and which not, whether two schedulers start the same pods, and
    how to solve each problem.

    The exit code is 1 if there is a problem. A problem means that jobs do not start, or start wrongly. A warning means
    that a rule is not enforced. The command changes nothing.

    For example:

        phalanx doctor
        phalanx doctor --node-groups node-groups.yaml
        phalanx doctor --json | jq '.[] | select(.state != "ok")'

    Parameters
    ----------
    node_groups
        Also ask the providers in this file (the file of `phalanx scheduler --node-groups`) for their nodes, and compare
        these nodes with the nodes of the cluster.
    json
        Print JSON: about, state (ok, warning or problem), text, mend (how to solve it).
    """
    groups = read_node_groups(node_groups)
    async with connected(target) as connection:
        parts = await asyncio.gather(
            _of_scheduler(connection, time.time()),
            _of_rivals(connection, time.time()),
            _of_admission(connection),
            _of_queues(connection),
            _of_nodes(connection),
            of_clusters(connection),
            of_moves(connection),
            _of_rights(connection),
            of_node_groups(connection, groups),
        )
    found = [finding for part in parts for finding in part]
    if json:
        print_json([asdict(finding) for finding in found])
    else:
        print("\n".join(_lines(found)))
    return 1 if any(finding.state == PROBLEM for finding in found) else 0


def _lines(found: Iterable[Finding]) -> Iterator[str]:
    for finding in found:
        yield f"{_MARKS[finding.state]}{finding.about}: {finding.text}"
        if finding.mend:
            yield f"        {finding.mend}"


async def _of_scheduler(connection: Connection, now_s: float) -> list[Finding]:
    start = "Start one: `phalanx scheduler`, or on this machine `phalanx up`."
    try:
        spec = (await connection.get(LEASES, NAME, NAMESPACE)).get("spec") or {}
        ago_s = now_s - read_moment(spec.get("renewTime"))
    except ApiRefusal as error:
        if error.code == 403:
            return [hidden("scheduler", f"leases in {NAMESPACE}")]
        return [Finding(about="scheduler", state=PROBLEM, text="no scheduler has ever run in this cluster", mend=start)]
    except MomentError:
        return [Finding(about="scheduler", state=PROBLEM, text="no scheduler runs, so no job starts", mend=start)]
    holder = spec.get("holderIdentity") or "no scheduler"
    if ago_s > _LATE_S:
        text = f"{holder} has not renewed its Lease for {duration(ago_s)}, so no job starts"
        return [Finding(about="scheduler", state=PROBLEM, text=text, mend=start)]
    return [Finding(about="scheduler", state=OK, text=f"{holder} leads")]


async def _of_rivals(connection: Connection, now_s: float) -> list[Finding]:
    """Return findings about other schedulers that run in the cluster. If one of them schedules the same jobs as
    Phalanx, the finding is a problem, because both would start the same jobs."""
    settings = await settings_of_leader(connection)
    running = await rivals_at_work(connection, now_s)
    if not running:
        return [
            Finding(
                about="other schedulers", state=OK, text="no scheduler that Phalanx can replace runs in this cluster"
            )
        ]
    return [
        Finding(
            about="other schedulers",
            state=PROBLEM,
            text=f"{rival.what} runs ({seen}), and Phalanx also schedules its jobs: both start the same jobs",
            mend=f"Stop one: {rival.stop}; or start the scheduler without --dialect {name}.",
        )
        if name in settings.dialects
        else Finding(
            about="other schedulers", state=OK, text=f"{rival.what} runs, and schedules only its own jobs ({seen})"
        )
        for name, (rival, seen) in running.items()
    ]


async def _of_admission(connection: Connection) -> list[Finding]:
    """Return a finding that states whether new Jobs with Phalanx's queue label are suspended at creation. Jobs that are
    not suspended do not wait in their queue."""
    wanted = [(kind, obj["metadata"]["name"]) for kind, obj in INSTALLED]
    try:
        there = [await _is_there(connection, kind, name) for kind, name in wanted]
        webhook = await _is_there(connection, WEBHOOKS, WEBHOOK["metadata"]["name"])
    except ApiRefusal:
        return [hidden("admission", "admission policies")]
    if all(there) or webhook:
        how = "by admission policies" if all(there) else "by the webhook"
        return [Finding(about="admission", state=OK, text=f"new Jobs with a queue label are suspended, {how}")]
    return [
        Finding(
            about="admission",
            state=WARNING,
            text="new Jobs with a queue label are not suspended: Jobs without `suspend: true` "
            "start pod by pod, without regard to their queue",
            mend="Let the scheduler install its policies (Kubernetes 1.36), add deploy/components/webhook, or submit "
            "with `phalanx submit`.",
        )
    ]


async def _is_there(connection: Connection, kind: Kind, name: str) -> bool:
    """Return True if the object exists. Raises ApiRefusal if the user may not read it."""
    try:
        await connection.get(kind, name)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        return False
    return True


async def _of_queues(connection: Connection) -> list[Finding]:
    try:
        queues: list[Object] = (await connection.list(QUEUES))["items"]
    except ApiRefusal as error:
        if error.code == 403:
            return [hidden("queues", "queues")]
        text, mend = (
            "the definition of queues is not installed",
            "The scheduler installs it when it starts: `phalanx scheduler`.",
        )
        return [Finding(about="queues", state=PROBLEM, text=text, mend=mend)]
    wrong = [
        Finding(
            about=f"queue {queue['metadata']['name']}",
            state=PROBLEM,
            text=f"starts no jobs: {condition.get('message', '')}",
            mend=f"Change it: `phalanx queue edit {queue['metadata']['name']} --help`.",
        )
        for queue in queues
        for condition in (queue.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "Active" and condition.get("reason") == "Misconfigured"
    ]
    return wrong or [Finding(about="queues", state=OK, text=counted(len(queues), "queue"))]


async def _of_nodes(connection: Connection) -> list[Finding]:
    try:
        nodes: list[Object] = (await connection.list(NODES))["items"]
    except ApiRefusal:
        return [hidden("nodes", "nodes")]
    if not nodes:
        text, mend = "the cluster has no nodes, so no pod can start", "Add a node to the cluster."
        return [Finding(about="nodes", state=PROBLEM, text=text, mend=mend)]
    return list(node_findings(nodes))


def node_findings(nodes: Iterable[Object]) -> Iterator[Finding]:
    """Yield findings about nodes that are not ready, and about the limits that nodes do or do not enforce. Nodes with
    the same text share one finding."""
    listed = list(nodes)
    conditions = {
        node["metadata"]["name"]: {one["type"]: one for one in (node.get("status") or {}).get("conditions") or ()}
        for node in listed
    }
    ready = [name for name, found in conditions.items() if (found.get("Ready") or {}).get("status") == "True"]
    if missing := sorted(conditions.keys() - set(ready)):
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        mend = "`kubectl describe node` shows why; pods start on the other nodes."
        yield Finding(about="nodes", state=WARNING, text=f"not ready: {shown}", mend=mend)
    yield Finding(about="nodes", state=OK if ready else PROBLEM, text=f"{len(ready)} of {len(listed)} ready")
    for kind in _ENFORCED:
        texts: dict[tuple[str, str], list[str]] = {}
        for name, found in conditions.items():
            if (one := found.get(kind)) is not None:
                texts.setdefault((one["status"], one.get("message", "")), []).append(name)
        for (status, message), names in texts.items():
            where = names[0] if len(names) == 1 else counted(len(names), "node")
            text, _, mend = message.partition(". ") if status != "True" else (message, "", "")
            state = OK if status == "True" else WARNING
            yield Finding(about=f"{kind} on {where}", state=state, text=text, mend=mend)


async def _of_rights(connection: Connection) -> list[Finding]:
    try:
        if await may_see_all(connection):
            return [Finding(about="your rights", state=OK, text="you may list the jobs of all namespaces")]
    except ApiRefusal:
        return []
    text = "you may list the jobs of some namespaces only, so `phalanx jobs -A`, `nodes` and `whatif` show less or fail"
    return [Finding(about="your rights", state=OK, text=text)]
