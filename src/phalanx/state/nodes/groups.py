"""Node groups: their descriptions, the nodes that were requested and have not arrived, and failed requests.

A requested node is in the node table from the start, under a placeholder name and not ready. So a job can be nominated
to the requested node, and no other job takes the node when it arrives.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from phalanx.model.node import Node, NodeGroup

BLOCKING = {"NoSchedule", "NoExecute"}  # taint effects that keep pods off a node


class ComingNode(NamedTuple):
    """A requested node that has not arrived. All times are in seconds since the epoch.

    `until_s`: the time after which the request has failed.
    `is_seen`: True if the node exists, but accepts no pods yet."""

    group: str
    requested_s: float
    expected_s: float
    until_s: float
    is_seen: bool = False


class FailedRequest(NamedTuple):
    """The failure of a group's last requests for nodes. All times are in seconds since the epoch.

    `nodes`: the number of nodes that did not arrive.
    `retry_s`: the time until which no nodes are requested from the group.
    `times`: the number of failures in a row.
    `text`: the provider's reason; empty if the nodes did not arrive in time and the provider gave no reason."""

    nodes: int
    requested_s: float
    failed_s: float
    retry_s: float
    times: int
    text: str = ""


class NodeGroups:
    """The node groups.

    `coming`: the requested nodes that have not arrived, by name, the earliest request first.
    `releasing`: node that its provider removes -> whether the node accepted no pods before.
    `failed`: the last failed request of each group.
    `idle_since_s`: for each empty node, the time since which it has been empty (seconds since the epoch).
    `notes`: job -> the last message about the nodes for which it waits. `granted`: the jobs whose nodes will arrive.
    `tried_at`: the number of changes of ready nodes at the last time when jobs that wait for nodes on demand were tried
        on the ready nodes. These jobs are tried again only after further changes.
    `planned_s`: the last time at which nodes were planned for waiting jobs (seconds since the epoch)."""

    def __init__(self) -> None:
        self.known: dict[str, NodeGroup] = {}
        self.coming: dict[str, ComingNode] = {}
        self.releasing: dict[str, bool] = {}
        self.failed: dict[str, FailedRequest] = {}
        self.idle_since_s: dict[str, float] = {}
        self.notes: dict[str, str] = {}
        self.granted: set[str] = set()
        self.tried_at = -1
        self.planned_s = -inf

    def copy(self) -> NodeGroups:
        other = NodeGroups()
        other.known, other.coming, other.failed = dict(self.known), dict(self.coming), dict(self.failed)
        other.releasing, other.idle_since_s = dict(self.releasing), dict(self.idle_since_s)
        other.planned_s, other.notes, other.tried_at = self.planned_s, dict(self.notes), self.tried_at
        other.granted = set(self.granted)
        return other

    def forget(self, node: str) -> None:
        """Remove all data about a node that is gone."""
        self.coming.pop(node, None)
        self.releasing.pop(node, None)
        self.idle_since_s.pop(node, None)


def has_arrived(group: NodeGroup, node: Node) -> bool:
    """Return whether the node accepts pods: it is ready, and has no startup taints."""
    expected = {(taint.key, taint.effect) for taint in group.template.taints}
    blocked = any(taint.effect in BLOCKING and (taint.key, taint.effect) not in expected for taint in node.taints)
    return node.ready and not node.unschedulable and not blocked
