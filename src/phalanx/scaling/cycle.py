"""Decide about the requests and releases of nodes in one cycle.

1. Before the core decides, the scheduler gives up requested nodes that are late. The group of a late node gets no new
   request for a while.
2. For a group with fewer nodes than its minimum, the scheduler requests the missing nodes.
3. For each waiting request, in order, the scheduler requests the cheapest nodes and nominates the job to these nodes. A
   nomination charges the nodes and the quota at once. So no other job can take these nodes, and the requested nodes
   never exceed a quota. If other nodes are cheaper for all requests together, the scheduler requests those nodes
   instead.
4. A node is released when it has been empty for the time that its group sets.

No nodes are requested for a job that the core has started or has nominated to nodes by preemption, because the core
decides first.

The module also records since when each node of a node group is empty, and decides which empty nodes are released.

An empty node is not released while a gang waits that could run on it as soon as other nodes are free as well. Otherwise
the node would be released, and soon be requested again for this gang.

A provider that removes empty nodes itself (an autoscaler) removes the empty nodes that have arrived. In every group,
this module cancels requested nodes for which no job waits any more, for instance because the job was deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from phalanx.core.fold.fold import fold_plan
from phalanx.core.placement import replacement
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.reasons import preempted
from phalanx.core.reasons.explain import holds
from phalanx.model.job import Placement
from phalanx.model.node import NodeGroup
from phalanx.model.plan import Action, Nominate, Plan, ReleaseNodes, RequestNodes, Wait
from phalanx.model.policy import Policy
from phalanx.scaling import growth, on_demand
from phalanx.scaling.growth import GrowingCluster
from phalanx.scaling.waiting import PendingRequests
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, nominated_placements
from phalanx.state.pending.request_class import Kind, Request, RequestClass

# Requested nodes of a provider that removes empty nodes itself are cancelled when no job has waited for them for
# UNWANTED_S seconds. UNWANTED_S is longer than the time for which new requests of jobs are collected. So after a
# restart of the scheduler, jobs can still use the nodes that were requested for them.
UNWANTED_S = 30.0


def note_idle(cluster: Cluster, now_s: float) -> None:
    """Record since when each node of a group is empty. A node that has only pods of DaemonSets and static pods counts
    as empty. A requested node is empty if no job is nominated to it. These times are used only for the release of
    nodes."""
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
    """Yield the nodes to release, by group. These nodes have been empty for long enough, and the group keeps its
    minimum number of nodes.

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
    """Return the subset of `names` that belongs to present or requested nodes of the group."""
    nodes = (cluster.columns.node(name) for name in names)
    return [node.name for node in nodes if node is not None and node.group == group.name]


HOPELESS = 32  # after this number of gangs for which no nodes suffice, the cycle tries no further gangs


def with_nodes(cluster: Cluster, policy: Policy, now_s: float, plan: Plan) -> Plan:
    """Decide about nodes after the core's cycle. Return the core's plan, extended by the requests and releases of
    nodes. When the function returns, the state already contains all decisions (they are *folded* into it). `now_s`:
    seconds since the epoch."""
    if not cluster.columns.groups.known:
        return plan
    scaled = Scaling(cluster, policy, now_s).plan()
    wake_s = min((at_s for at_s in (plan.wake_s, scaled.wake_s) if at_s is not None), default=None)
    return plan._replace(actions=(*plan.actions, *scaled.actions), wake_s=wake_s)


def before(cluster: Cluster, policy: Policy, now_s: float) -> tuple[Action, ...]:
    """Give up requested nodes that are late, and renew the nominations of jobs that wait for nodes on demand. The loop
    calls this function before the core's cycle. Fold the actions and return them."""
    late = give_up(cluster, now_s)
    found = tuple(on_demand.renominated(cluster, policy)) if cluster.columns.groups.known else ()
    if found:
        fold_plan(cluster, Plan(found))
    return *late, *found


def give_up(cluster: Cluster, now_s: float) -> tuple[Action, ...]:
    """Give up requested nodes that are late. Fold these actions into the state and return them."""
    late: dict[str, list[str]] = {}
    for name, coming in cluster.columns.groups.coming.items():
        if coming.until_s <= now_s:
            late.setdefault(coming.group, []).append(name)
    actions = tuple(ReleaseNodes("", group, tuple(names), late=True) for group, names in late.items())
    if actions:
        fold_plan(cluster, Plan(actions))
    return actions


class Served(NamedTuple):
    """A request that fits on requested nodes. `gang`: the gang for this offer, without pods above its minimum.
    `placements`: the placements of the gang; some of them are on requested nodes. `group`: the node group on demand
    (`NodeGroup.on_demand`) that adds all nodes of the gang, if any."""

    request: Request
    offer: FlavorAssignment
    gang: Gang
    placements: Sequence[Placement]
    group: NodeGroup | None = None


class Scaling:
    """The requests and releases of nodes in one cycle. Each decision is folded into the state at once."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.groups = cluster.columns.groups
        self.actions: list[Action] = []

    def plan(self) -> Plan:
        """Return all decisions about nodes. Each decision is already folded into the cluster state."""
        self.do(*self.reach_minimum())
        waiting = PendingRequests(self.cluster, self.policy, self.now_s)
        if outranked := on_demand.outranked(self.cluster, waiting.state):
            self.do(*(Nominate(record.job.id, ()) for record in outranked))
            return Plan(tuple(self.actions), self.now_s)
        is_due = bool(waiting.request_classes) and waiting.due_s() <= self.now_s
        granted = is_due and self.request_nodes(waiting)
        note_idle(self.cluster, self.now_s)
        for group, names in releasable(self.cluster, self.now_s, waiting.may_start_later()):
            self.do(ReleaseNodes("", group, tuple(names)))
        if granted:  # now other nodes may be requested, and a strict queue may have another first job
            return Plan(tuple(self.actions), self.now_s)
        return Plan(tuple(self.actions), min(self.wake_times_s(waiting), default=None))

    def do(self, *actions: Action) -> None:
        """Add the actions to the plan and fold them."""
        self.actions += actions
        fold_plan(self.cluster, Plan(actions))

    def reach_minimum(self) -> Iterator[RequestNodes]:
        """Yield the requests of missing nodes for groups that have fewer nodes than their minimum."""
        sizes = self.cluster.columns.group_sizes()
        for group in self.groups.known.values():
            if sizes[group.name] < group.min_nodes and growth.may_request(self.cluster, group, self.now_s):
                names = list(growth.new_names(self.cluster, group, group.min_nodes - sizes[group.name]))
                yield growth.request_of(group, names, "", self.now_s)

    def request_nodes(self, waiting: PendingRequests) -> bool:
        """Request nodes for waiting requests, and nominate their jobs to them; return whether any job was nominated."""
        self.groups.planned_s = self.now_s
        growing = GrowingCluster(
            self.cluster, self.policy, self.now_s, sizes=self.cluster.columns.group_sizes(), most=waiting.pods()
        )
        if not (growing.coming or growing.new or any(group.on_demand for group in self.groups.known.values())):
            return False
        begin = growing.draft.mark()
        every = list(self.served(growing, waiting))
        for each in (one for one in every if one.group is not None):
            self.request_on_demand(each)
        served = [each for each in every if each.group is None]
        together = growing.cheaper_together([each.gang for each in served], begin)
        if together is not None:
            served = [each._replace(placements=found) for each, found in zip(served, together, strict=True)]
        done: set[str] = set()
        for each in served:
            self.do(*growing.requests(each.request.job, each.placements, done))
            self.nominate(each, growing.until_s(each.placements))
        return bool(every)

    def request_on_demand(self, each: Served) -> None:
        """Request the nodes of the job from `each.group`, whose nodes another program adds (`NodeGroup.on_demand`), and
        nominate the job to a placeholder node of this group."""
        assert each.group is not None
        request = growth.request_of(each.group, [each.placements[0].node], each.request.job, self.now_s)
        self.do(request)
        self.nominate(each, request.until_s)

    def served(self, growing: GrowingCluster, waiting: PendingRequests) -> Iterator[Served]:
        """Yield, in order, the waiting requests that fit on nodes that are requested or may be requested."""
        failed: set[Gang] = set()
        for request_class in waiting.classes():
            for request, offers in waiting.requests(request_class):
                found = self.grown(growing, waiting, request_class, request, offers, failed)
                if found is None:
                    break
                waiting.state.ledger.grant(found.offer.charge)
                yield found
            if len(failed) >= HOPELESS:
                break

    def grown(
        self,
        growing: GrowingCluster,
        waiting: PendingRequests,
        request_class: RequestClass,
        request: Request,
        offers: Sequence[FlavorAssignment],
        failed: set[Gang],
    ) -> Served | None:
        """Return the request with the first of its offers that fits on nodes that are requested already or can be
        requested; None if no offer fits. `failed`: the gangs that fit on no nodes."""
        for offer in offers:
            gang = waiting.minimum(request_class, offer)
            if gang in failed:
                continue
            placements = growing.grow(gang)
            if placements is not None:
                return Served(request, offer, gang, placements)
            key = request_class.key
            group = on_demand.group_for(self.cluster, key.queue, offer) if key.kind == Kind.JOB else None
            if group is not None:
                placed = on_demand.placements_on(gang, f"{group.name}/{request.job}")
                return Served(request, offer, gang, placed, group)
            failed.add(gang)
        return None

    def nominate(self, served: Served, until_s: float) -> None:
        """Nominate the job to all nodes of its placements."""
        request, record = served.request, self.cluster.jobs[served.request.job]
        placements, flavors = tuple(served.placements), served.offer.flavors
        if request.slot is not None:
            slots = replacement.placements_of_slots(self.cluster, record, request.slot, placements)
            placements, flavors = (*nominated_placements(record), *slots), record.flavors
            until_s = max(until_s, record.nominated_until_s if record.nominated else 0.0)
        self.do(Nominate(request.job, placements, flavors, until_s))
        if (reason := preempted.waiting_for_nodes(self.cluster, record, self.now_s)) is not None:
            self.do(Wait(request.job, reason))

    def wake_times_s(self, waiting: PendingRequests) -> Iterator[float]:
        """Yield the times (seconds since the epoch) at which the next decision about nodes is due, even if no event
        occurs before."""
        yield from (coming.until_s for coming in self.groups.coming.values())
        yield from next_release_s(self.cluster, self.now_s)
        yield from waiting.later_s
        if waiting.request_classes and waiting.due_s() > self.now_s:
            yield waiting.due_s()
        if waiting.request_classes or any(group.min_nodes for group in self.groups.known.values()):
            yield from (failed.retry_s for failed in self.groups.failed.values() if failed.retry_s > self.now_s)
