"""Build the row of a node from a snapshot, without side effects: its capacity, its usage, and the jobs on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.local.draining import is_simulated
from phalanx.kube.read.node import read_node
from phalanx.kube.read.pod import read_pod
from phalanx.kube.read.template.pod_shape import ShapeCache
from phalanx.kube.read.workload.adapter import job_owner
from phalanx.model.pod import CPU, MEMORY, PODS, format_amount

GPU = "nvidia.com/gpu"
COLUMNS = ("NODE", "STATE", "CPU", "MEMORY", "GPU", "PODS", "USED BY")
GIVES_WAY = ("PODS",)
_USERS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The row of a node. `simulated`: True if the node is simulated. `allocatable`, `used`: amounts by resource, in
    millicores for cpu and in whole units for other resources. `users`: job -> number of its pods on the node."""

    name: str
    state: str
    simulated: bool
    allocatable: dict[str, int]
    used: dict[str, int]
    users: dict[str, int]

    def record(self) -> dict[str, Any]:
        """Return the record of the node for `--json`; docs/guide/command-line.md describes its fields."""
        return {
            "node": self.name,
            "state": self.state,
            "simulated": self.simulated,
            "allocatable": self.allocatable,
            "used": self.used,
            "used_by": self.users,
        }


def views(snapshot: Snapshot) -> list[NodeView]:
    used: dict[str, Counter[str]] = {}
    users: dict[str, Counter[str]] = {}
    owner = {uid: gang.id for gang in snapshot.gangs.values() for uid in gang.objects.pods}
    shapes = ShapeCache()
    for obj in snapshot.pods.values():
        pod = read_pod(obj, shapes, owner=job_owner(obj["metadata"]))
        if pod.charged:
            used.setdefault(pod.node, Counter()).update(dict(pod.requests))
            users.setdefault(pod.node, Counter())[owner.get(pod.uid, f"{pod.key} (not a job)")] += 1
    found = []
    for obj in snapshot.nodes.values():
        node = read_node(obj)
        found.append(
            NodeView(
                name=node.name,
                state="not ready" if not node.ready else "cordoned" if node.unschedulable else "ready",
                simulated=is_simulated(obj),
                allocatable=dict(node.allocatable),
                used=dict(used.get(node.name, {})),
                users=dict(users.get(node.name, Counter()).most_common()),
            )
        )
    return sorted(found, key=lambda view: view.name)


def row(view: NodeView) -> list[str]:
    """Return the cells of the node's row, one for each of `COLUMNS`. Amounts have the form used/allocatable."""
    amounts = (_share(view, resource) for resource in (CPU, MEMORY, GPU, PODS))
    return [view.name, view.state, *amounts, _users(view.users)]


def _share(view: NodeView, resource: str) -> str:
    has = view.allocatable.get(resource, 0)
    return f"{format_amount(resource, view.used.get(resource, 0))}/{format_amount(resource, has)}" if has else "-"


def _users(users: dict[str, int]) -> str:
    shown = [f"{job} x{pods}" if pods > 1 else job for job, pods in list(users.items())[:_USERS_SHOWN]]
    more = len(users) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
