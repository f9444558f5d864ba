"""Empty nodes of node groups: since when they are empty, and which of them are released.

A node is kept while a gang waits that could run on it once other nodes are free as well. Otherwise the node would be
released and requested again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from phalanx.core.reasons.explain import holds
from phalanx.model.node import NodeGroup
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import RequestClass


def note_idle(cluster: Cluster, now_s: float) -> None:
    """Note since when each node of a group is empty, but for pods of DaemonSets and static pods. A requested node is
    empty if no job is nominated to it. Nothing depends on these times but the release of nodes."""
    groups, columns = cluster.columns.groups, cluster.columns
    residents = Counter(cluster.foreign[pod][0] for pod in cluster.residents)
    empty = [
        node.name
        for node in columns
        if node.group in groups.known
        and not node.protected
        and node.name not in groups.releasing
        and columns.charges[columns.row_of[node.name]] == residents[node.name]
    ]
    groups.idle_since_s = {name: groups.idle_since_s.get(name, now_s) for name in empty}


def releasable(
    cluster: Cluster, now_s: float, sizes: Counter[str], waiting: Sequence[RequestClass]
) -> Iterator[tuple[NodeGroup, list[str]]]:
    """Yield the nodes of each group that have been empty for long enough. The group keeps its minimum.

    `waiting`: the gangs that could start on the present nodes later."""
    for group in cluster.columns.groups.known.values():
        due = [name for name, at_s in idle_nodes(cluster, group) if at_s + group.idle_s <= now_s]
        more = max(0, sizes[group.name] - leaving(cluster, group) - group.min_nodes)
        if due and more and not any(may_use(group, request_class) for request_class in waiting):
            yield group, due[:more]


def next_release_s(cluster: Cluster, now_s: float) -> Iterator[float]:
    """Yield the times (seconds since the epoch) at which nodes that are empty now may be released."""
    for group in cluster.columns.groups.known.values():
        times = (at_s + group.idle_s for _, at_s in idle_nodes(cluster, group))
        yield from (at_s for at_s in times if now_s < at_s < inf)


def idle_nodes(cluster: Cluster, group: NodeGroup) -> list[tuple[str, float]]:
    """Return the empty nodes of the group with the time since which each is empty, the longest empty node first."""
    nodes = ((name, at_s, cluster.columns.node(name)) for name, at_s in cluster.columns.groups.idle_since_s.items())
    found = [(name, at_s) for name, at_s, node in nodes if node is not None and node.group == group.name]
    return sorted(found, key=lambda each: (each[1], each[0]))


def leaving(cluster: Cluster, group: NodeGroup) -> int:
    """Return the number of nodes of the group that its provider is removing."""
    nodes = (cluster.columns.node(name) for name in cluster.columns.groups.releasing)
    return sum(node is not None and node.group == group.name for node in nodes)


def may_use(group: NodeGroup, request_class: RequestClass) -> bool:
    """Return whether some pod of the class has room on an empty node of the group."""
    return any(holds(group, demand) for demand in request_class.key.gang.demands)
