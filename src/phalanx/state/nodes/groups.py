"""Node groups: their descriptions, the nodes that were requested and have not arrived, and failed requests.

As soon as a node is requested, it is added to the node table as a placeholder that is not ready. So a job can be
nominated to the placeholder, and no other job takes the node when it joins the cluster.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from phalanx.model.node import Node, NodeGroup

BLOCKING = {"NoSchedule", "NoExecute"}  # taint effects that prevent pods from being placed on a node


class ComingNode(NamedTuple):
    """A requested node that has not arrived. All times are in seconds since the epoch.

    `until_s`: the time at which the request counts as failed if the node has not arrived.
    `is_seen`: whether the node exists, but accepts no pods yet."""

    group: str
    requested_s: float
    expected_s: float
    until_s: float
    is_seen: bool = False


class FailedRequest(NamedTuple):
    """The last failed request for nodes of a group. All times are in seconds since the epoch.

    `nodes`: the number of requested nodes that did not arrive.
    `retry_s`: the earliest time at which nodes are requested from the group again.
    `times`: the number of failed requests in a row.
    `text`: the provider's reason; empty if the nodes did not arrive in time and the provider gave no reason."""

    nodes: int
    requested_s: float
    failed_s: float
    retry_s: float
    times: int
    text: str = ""


class NodeGroups:
    """The node groups.

    `coming`: name -> requested node that has not arrived; the earliest request comes first.
    `releasing`: node that is being released to its provider -> True if the node was unschedulable even before its
    release.
    `failed`: group -> its last failed request.
    `idle_since_s`: for each empty node, the time since which it has been empty (seconds since the epoch).
    `notes`: job -> the last message of the world about the nodes for which the job waits.
    `granted`: the jobs for which it is certain that their requested nodes will arrive.
    `tried_at`: the sum of the stamps (`NodeTable.stamps`) of all ready nodes when the jobs that wait for nodes on
    demand were last tried on the ready nodes. These jobs are tried again when the sum has changed. The value is -1 if
    they must be tried in any case.
    `planned_s`: the time at which the scheduler last planned which nodes to request for waiting jobs (seconds since the
    epoch)."""

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
    """Return whether the node accepts pods: it is ready and schedulable, and has no blocking taints except those of its
    group's template."""
    expected = {(taint.key, taint.effect) for taint in group.template.taints}
    blocked = any(taint.effect in BLOCKING and (taint.key, taint.effect) not in expected for taint in node.taints)
    return node.ready and not node.unschedulable and not blocked
