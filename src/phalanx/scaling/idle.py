"""Empty nodes of node groups: since when they are empty, and which of them are released.

A node is kept while a gang waits that could run on it once other nodes are free as well. Otherwise the node would be
released and requested again.

A provider that removes empty nodes itself (an autoscaler) removes those that have arrived. Requested nodes that no job
waits for any more, for instance because the job was deleted, are cancelled here in every group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from phalanx.core.reasons.explain import holds
from phalanx.model.node import NodeGroup
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import RequestClass

# Requested nodes of a provider that removes empty nodes itself are cancelled when no job has waited for them for
# UNWANTED_S seconds. It is longer than requests are planned together, so that jobs find their nodes after a restart.
UNWANTED_S = 30.0


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


def releasable(cluster: Cluster, now_s: float, waiting: Sequence[RequestClass]) -> Iterator[tuple[str, list[str]]]:
    """Yield the nodes of each group that have been empty for long enough. The group keeps its minimum.

    `waiting`: the gangs that could start on the present nodes later."""
    sizes = cluster.columns.group_sizes()
    for group in cluster.columns.groups.known.values():
        due = [name for name, at_s in idle_nodes(cluster, group) if at_s <= now_s]
        more = max(0, sizes[group.name] - leaving(cluster, group) - group.min_nodes)
        if due and more and not any(holds(group, demand) for each in waiting for demand in each.key.gang.demands):
            yield group.name, due[:more]


def next_release_s(cluster: Cluster, now_s: float) -> Iterator[float]:
    """Yield the times (seconds since the epoch) at which nodes that are empty now may be released."""
    for group in cluster.columns.groups.known.values():
        yield from (at_s for _, at_s in idle_nodes(cluster, group) if now_s < at_s < inf)


def idle_nodes(cluster: Cluster, group: NodeGroup) -> list[tuple[str, float]]:
    """Return the empty nodes of the group with the time at which each may be released, the longest empty node first."""
    groups = cluster.columns.groups
    cancelled = {name for name, each in groups.coming.items() if group.idle_s == inf and not each.is_seen}
    own = nodes_of(cluster, group, groups.idle_since_s)
    waits_s = ((name, UNWANTED_S if name in cancelled else group.idle_s) for name in own)
    return sorted(((name, groups.idle_since_s[name] + wait_s) for name, wait_s in waits_s), key=lambda each: each[::-1])


def leaving(cluster: Cluster, group: NodeGroup) -> int:
    """Return the number of nodes of the group that its provider is removing."""
    return len(nodes_of(cluster, group, cluster.columns.groups.releasing))


def nodes_of(cluster: Cluster, group: NodeGroup, names: Iterable[str]) -> list[str]:
    """Return the names that are those of present or requested nodes of the group."""
    nodes = (cluster.columns.node(name) for name in names)
    return [node.name for node in nodes if node is not None and node.group == group.name]
