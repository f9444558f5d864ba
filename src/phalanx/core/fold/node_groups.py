"""Apply events about node groups to the cluster state: changes of a group, requests for nodes, and the arrival or the
failure of requested nodes.

A *node group* is a group of nodes that a provider can enlarge. Until a requested node joins the cluster, the state has
a *placeholder* for it. The name of the node may differ from the name of the placeholder. So a new node of a group
replaces the oldest placeholder of this group, and gets all nominations to this placeholder. If the node does not fit
the group's template, nominations to the node are withdrawn, and the next cycle decides about the nominated jobs
again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phalanx.core.fold.charging import nominate, settle_charge, withdraw_nomination
from phalanx.model.event import NodeGroupGone, NodeGroupSeen, NodesComing, NodesFailed, NodesKept, NodesNoted
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.node import Device, Node, NodeGroup
from phalanx.model.plan import ReleaseNodes, RequestNodes
from phalanx.model.pod import amounts
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.nodes.groups import ComingNode, FailedRequest, has_arrived
from phalanx.state.pending.request_class import Blocker, Request

FIRST_PAUSE_S, LONGEST_PAUSE_S = 300.0, 1800.0  # as in the Cluster Autoscaler's back-off


def group_seen(cluster: Cluster, event: NodeGroupSeen) -> None:
    """Store a node group that is new or has changed."""
    group = event.group
    if cluster.columns.groups.known.get(group.name) != group:
        cluster.columns.groups.known[group.name] = group
        cluster.columns.groups.failed.pop(group.name, None)
        cluster.tree.pool_stale = True


def group_gone(cluster: Cluster, event: NodeGroupGone) -> None:
    """Remove a deleted node group from the state. Nodes that were requested from the group are no longer expected."""
    if cluster.columns.groups.known.pop(event.name, None) is None:
        return
    cluster.columns.groups.failed.pop(event.name, None)
    cluster.tree.pool_stale = True
    for name, coming in list(cluster.columns.groups.coming.items()):
        if coming.group == event.name and not coming.is_seen:
            cluster.remove_node(name)


def nodes_requested(cluster: Cluster, item: RequestNodes | NodesComing) -> None:
    """Add a placeholder for each requested node that has not arrived."""
    group = cluster.columns.groups.known.get(item.group)
    if group is None:
        return
    for name in item.nodes:
        if cluster.columns.node(name) is None:
            cluster.columns.groups.coming[name] = ComingNode(
                item.group, item.requested_s, item.expected_s, item.until_s
            )
            cluster.update_node(placeholder(cluster, group, name, item))


def placeholder(cluster: Cluster, group: NodeGroup, name: str, item: RequestNodes | NodesComing) -> Node:
    """Return the placeholder for a requested node. A group with `on_demand` adds nodes for one particular job. In such
    a group, the placeholder has the total amounts that the pods of this job request."""
    node = group.node(name)
    if group.on_demand is None or isinstance(item, NodesComing):
        return node
    return replace(node, allocatable=amounts(cluster.jobs[item.job].gang.asked))


def nodes_noted(cluster: Cluster, event: NodesNoted) -> None:
    """Store the provider's text about the requested nodes for which a job waits."""
    groups = cluster.columns.groups
    groups.notes[event.job] = event.text
    groups.tried_at = -1
    (groups.granted.add if event.granted else groups.granted.discard)(event.job)


def nodes_released(cluster: Cluster, action: ReleaseNodes) -> None:
    """Record that these nodes are released: place no more pods on them, and no longer expect those that have not
    arrived yet."""
    if action.late:
        note_failure(cluster, action.group, action.nodes, "")
    for name in action.nodes:
        node = cluster.columns.node(name)
        coming = cluster.columns.groups.coming.pop(name, None)
        if coming is not None and not coming.is_seen:
            cluster.remove_node(name)
        elif node is not None:
            cluster.columns.groups.releasing[name] = node.unschedulable
            cluster.update_node(replace(node, unschedulable=True))


def nodes_kept(cluster: Cluster, event: NodesKept) -> None:
    """Record that the provider keeps nodes although Phalanx has released them. Pods may be placed on these nodes again.
    A node is only released again after it was empty for the full idle time."""
    groups = cluster.columns.groups
    for name in event.nodes:
        unschedulable, node = groups.releasing.pop(name, None), cluster.columns.node(name)
        if unschedulable is not None and node is not None:
            groups.idle_since_s.pop(name, None)
            cluster.update_node(replace(node, unschedulable=unschedulable))


def nodes_failed(cluster: Cluster, event: NodesFailed) -> None:
    """Record that the provider cannot add these nodes, and remove their placeholders."""
    names = [name for name in event.nodes if name in cluster.columns.groups.coming]
    note_failure(cluster, event.group, names, event.text)
    for name in names:
        cluster.remove_node(name)


def note_failure(cluster: Cluster, group: str, nodes: Sequence[str], text: str) -> None:
    """Record that requested nodes of the group did not arrive, and start a pause. During the pause, no nodes are
    requested from the group. Each further failure doubles the length of the pause, up to `LONGEST_PAUSE_S`."""
    coming = [cluster.columns.groups.coming[name] for name in nodes if name in cluster.columns.groups.coming]
    if coming:
        note_failed(cluster, group, coming, text)


def note_failed(cluster: Cluster, group: str, coming: Sequence[ComingNode], text: str) -> None:
    """Record that these requests for nodes have failed, and start a pause for the group. `coming`: the requested nodes.
    `text`: the provider's reason."""
    before = cluster.columns.groups.failed.get(group)
    times = 1 if before is None else before.times + (before.retry_s <= cluster.now_s)
    pause_s = min(FIRST_PAUSE_S * 2.0 ** min(times - 1, 8), LONGEST_PAUSE_S)
    more = before.nodes if before is not None and before.failed_s == cluster.now_s else 0
    cluster.columns.groups.failed[group] = FailedRequest(
        len(coming) + more,
        min(each.requested_s for each in coming),
        cluster.now_s,
        cluster.now_s + pause_s,
        times,
        text,
    )
    explain_again(cluster)


def explain_again(cluster: Cluster) -> None:
    """Make the next cycle compute the reasons of all requests without capacity again. These reasons also state which
    requests for nodes have failed."""
    pending = cluster.pending
    for found in pending.placement_classes:
        found.reason = None
    for request_class in pending.request_classes.values():
        if pending.columns.reported_blocker[request_class.number] == Blocker.CAPACITY:
            pending.columns.reported_blocker[request_class.number], request_class.reason = Blocker.NONE_REPORTED, None
    pending.changed = True


def arriving(cluster: Cluster, node: Node) -> Node:
    """Return the node as the state must store it. If the node has just joined its group, it replaces a placeholder of
    the group. It has joined the group if it is new, or if it now has the group's label."""
    groups = cluster.columns.groups
    if node.name in groups.releasing:
        node = replace(node, unschedulable=True)
    group = groups.known.get(node.group)
    if group is None:
        return node
    known = cluster.columns.node(node.name)
    if node.name not in groups.coming and (known is None or known.group != node.group):
        placeholder = next((name for name, each in groups.coming.items() if awaits(each, node)), None)
        if placeholder is not None:
            take_over(cluster, group, placeholder, node)
    if (coming := groups.coming.get(node.name)) is not None:
        groups.coming[node.name] = coming._replace(is_seen=True)
        if has_arrived(group, node):
            del groups.coming[node.name]
            cluster.update_node(node)
            welcome(cluster, group, node, coming)
    return node


def welcome(cluster: Cluster, group: NodeGroup, node: Node, coming: ComingNode) -> None:
    """Compare a node that has arrived with its group's template. If the node lacks a label of the template, or is too
    small for its nominated jobs, withdraw the nominations and start a pause for the group. Otherwise the group might
    add one useless node after another."""
    lacks = sorted(f"{key}={value}" for key, value in set(group.template.labels) - set(node.labels))
    if not lacks and cluster.columns.least_free(cluster.columns.row_of[node.name]) >= 0:
        cluster.columns.groups.failed.pop(group.name, None)
        return
    text = f"node {node.name} " + (f"lacks the label {lacks[0]}" if lacks else "has less than the group's template")
    withdraw_nominations(cluster, node.name)
    note_failed(cluster, group.name, [coming], text)


def awaits(coming: ComingNode, node: Node) -> bool:
    """Return whether the node may be this requested node: the requested node has not arrived yet, and its group is the
    node's group."""
    return coming.group == node.group and not coming.is_seen


def take_over(cluster: Cluster, group: NodeGroup, placeholder: str, node: Node) -> None:
    """Replace the placeholder by the node. Nominations to the placeholder become nominations to the node."""
    groups, order = cluster.columns.groups, list(cluster.nominated)
    coming = groups.coming[placeholder]
    names = device_names(group.template.devices, node.devices)
    moved = []
    for record in (cluster.jobs[job] for job in order):
        slots = [slot for slot, name in record.nominated.items() if name == placeholder]
        moved.append((record, [renamed(record, slot, node.name, names) for slot in slots]))
        withdraw_nomination(cluster, record, slots)
    cluster.remove_node(placeholder)
    cluster.update_node(node)
    for record, placements in moved:
        if placements:
            nominate(cluster, record, placements)
    cluster.nominated = {job: None for job in order if cluster.jobs[job].nominated}
    groups.coming[node.name] = coming
    if names is None:
        withdraw_nominations(cluster, node.name)


def device_names(promised: tuple[Device, ...], has: tuple[Device, ...]) -> dict[str, str] | None:
    """Return a mapping: name of a device in the template -> name of the device of the node at the same position. Return
    None if the devices of both differ in their resources. `promised`: the devices of the template. `has`: the devices
    of the node."""
    if [each.resource for each in promised] != [each.resource for each in has]:
        return None
    return {before.name: after.name for before, after in zip(promised, has, strict=True)}


def renamed(record: JobRecord, slot: Slot, node: str, names: dict[str, str] | None) -> Placement:
    """Return the nominated placement of the slot on the node that replaces the placeholder. `names`: the result of
    `device_names`."""
    devices = record.devices.get(slot, ()) if names is not None else ()
    return Placement(*slot, node, tuple(names[name] for name in devices) if names else ())


def withdraw_nominations(cluster: Cluster, node: str) -> None:
    """Withdraw the nominations of all jobs that are nominated to the node. The next cycle decides about the nominated
    jobs again."""
    for job in list(cluster.nominated):
        record = cluster.jobs[job]
        if node in record.nominated.values():
            slots = list(record.nominated)
            withdraw_nomination(cluster, record)
            settle_charge(cluster, record)
            queued = record.phase is Phase.QUEUED
            for request in [Request(job)] if queued else [Request(job, slot) for slot in slots]:
                cluster.pending.refresh(request)
