"""Handle node groups *on demand*. Another program chooses the nodes for the pods of one job when it gets a
ProvisioningRequest.

Such a group has no template. The pods of a job are nominated to one placeholder node that has capacity for all of them,
so the job holds its quota while it waits. When the job fits on present nodes, the nomination is withdrawn, and the core
starts the job. When it is certain that the nodes will arrive, the nodes that have already arrived are reserved for the
job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from phalanx.core.cycle.state import CycleState
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Placement, Role
from phalanx.model.node import NodeGroup, parts_of
from phalanx.model.plan import Nominate
from phalanx.model.policy import Policy
from phalanx.model.queue import QueueOrder, WithinQueue
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, minimum_gang
from phalanx.state.pending.request_class import Candidate, Kind

TRIED = 64  # the maximum number of jobs that are tried on present nodes in one cycle


def group_for(cluster: Cluster, queue: str, offer: FlavorAssignment) -> NodeGroup | None:
    """Return the group whose nodes a job of the queue can get with these flavors; None if there is none."""
    flavors = {part for flavor in offer.flavors for part in parts_of(flavor)}
    asked = {resource for demand in offer.gang.demands for resource, _ in demand.asks}
    for group in cluster.columns.groups.known.values():
        wants = group.on_demand
        if wants is None or wants.queue != queue:
            continue
        if (not wants.flavors or flavors & {*wants.flavors}) and (not wants.resources or asked & {*wants.resources}):
            return group
    return None


def placements_on(gang: Gang, placeholder: str) -> list[Placement]:
    """Return placements that put the gang's minimum number of pods on the node `placeholder`."""
    return [
        Placement(role, ordinal, placeholder)
        for role, each in enumerate(gang.roles)
        for ordinal in range(each.count if each.minimum else 0)
    ]


def renominated(cluster: Cluster, policy: Policy) -> Iterator[Nominate]:
    """Yield new nominations for jobs that wait for nodes on demand. If a job fits on present nodes, its nomination is
    withdrawn, and the core then starts the job. If it is certain that a job's nodes will arrive, as many of its pods as
    fit are nominated to present nodes, so that no other job takes the nodes that arrive first. Jobs are tried again
    only after a change of the nodes."""
    groups, columns = cluster.columns.groups, cluster.columns
    waiting = [cluster.jobs[job] for job in cluster.nominated if waits_on_demand(cluster, cluster.jobs[job])]
    changes = sum(columns.stamps[row] for row in columns.attributes.ready.nonzero()[0].tolist())
    if not waiting or changes == groups.tried_at:
        return
    groups.tried_at = changes
    draft = Draft(columns, policy.topologies + cluster.declared_topologies, policy.score)
    for record in islice(waiting, TRIED):
        flavored = cluster.with_flavors(record.gang, record.flavors) if record.flavors else record.gang
        gang = minimum_gang(cluster, flavored)
        open_slots = [slot for slot, node in record.nominated.items() if node in groups.coming]
        if len(open_slots) == len(record.nominated) and not isinstance(place(draft, gang), PlacementShortfall):
            yield Nominate(record.job.id, ())
        elif record.job.id in groups.granted and len(gang.roles) == 1 and gang.tree is None:
            if len(held := held_nodes(cluster, draft, gang, len(open_slots))) == len(open_slots):
                yield Nominate(record.job.id, ())
            elif held:
                nodes = {**record.nominated, **dict(zip(open_slots, held, strict=False))}
                placements = tuple(Placement(*slot, node) for slot, node in nodes.items())
                yield Nominate(record.job.id, placements, record.flavors, record.nominated_until_s)


def held_nodes(cluster: Cluster, draft: Draft, gang: Gang, pods: int) -> list[str]:
    """Place as many pods of the gang's only role as fit on present nodes of the draft, at most `pods`. Return the node
    of each pod."""
    (role,) = gang.roles
    low, high = 0, pods
    while low < high:
        middle, mark = (low + high + 1) // 2, draft.mark()
        fits = not isinstance(place(draft, of_size(cluster, gang, role, middle)), PlacementShortfall)
        draft.rewind(mark)
        low, high = (middle, high) if fits else (low, middle - 1)
    found = place(draft, of_size(cluster, gang, role, low)) if low else []
    return [] if isinstance(found, PlacementShortfall) else [placement.node for placement in found]


def of_size(cluster: Cluster, gang: Gang, role: Role, pods: int) -> Gang:
    """Return a copy of the gang, which has one role, with `pods` pods."""
    return cluster.interned.gang((replace(role, count=pods, minimum=pods),), gang.groups, gang.closeness, gang.size)


def outranked(cluster: Cluster, state: CycleState) -> list[JobRecord]:
    """Return the jobs that wait for nodes on demand and must give their quota to a job of higher priority. The queue's
    policy must let the other job preempt them, and their quota must be enough for the other job. `state`: the state of
    this cycle; the function changes the quota ledger of this state accordingly."""
    waiting = [cluster.jobs[job] for job in cluster.nominated if waits_on_demand(cluster, cluster.jobs[job])]
    for request_class in cluster.pending.request_classes.values() if waiting else ():
        key, queue = request_class.key, cluster.queues.get(request_class.key.queue)
        if key.kind != Kind.JOB or queue is None or queue.order is QueueOrder.FIFO:
            continue
        lower = [record for record in waiting if record.job.priority < key.priority and record.queue == key.queue]
        if not lower or queue.preemption.within is WithinQueue.NEVER:
            continue
        candidate, mark, found = Candidate(request_class, request_class.first), state.ledger.mark(), list[JobRecord]()
        if any(offer.short is None for offer in state.offers(candidate)):
            continue
        for record in sorted(lower, key=lambda record: (record.job.priority, -record.job.submitted_s)):
            found.append(record)
            if record.charge is not None:
                state.ledger.charge(record.charge, -1)
            offers = (offer for offer in state.offers(candidate) if offer.short is None)
            if any(group_for(cluster, key.queue, offer) is not None for offer in offers):
                return found
        state.ledger.rewind(mark)
    return []


def waits_on_demand(cluster: Cluster, record: JobRecord) -> bool:
    """Return whether the job is nominated to the placeholder of a group on demand."""
    groups = cluster.columns.groups
    coming = (groups.coming[node].group for node in {*record.nominated.values()} if node in groups.coming)
    known = (groups.known.get(name) for name in coming)
    return any(group is not None and group.on_demand is not None for group in known)
