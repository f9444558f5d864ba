"""Check the placement of pods by independent, plain rules of Kubernetes and of the job, for every pair of pods. This
module does not call the core; it only reads the placements from the cluster state.

`judge` checks the placements of the last plan. `room_for` counts, node by node, how many pods of a role fit. For a gang
of one role the count is exact, so a reason about missing capacity can be verified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from phalanx.model.job import Group, Job, Phase, Role, Slot
from phalanx.model.node import Node, TopologyRequest
from phalanx.model.plan import Nominate, Place, Plan, Shrink, Start
from phalanx.model.pod import PodAffinityTerm, Shape, with_pod_count
from phalanx.state.cluster import Cluster, JobRecord
from tests.core.brute import matches

from .wants import LEVELS


class Pod(NamedTuple):
    """`leaving`: True if the pod terminates. It still repels other pods, and no longer satisfies affinities."""

    job: str
    role: int
    ordinal: int
    node: Node
    shape: Shape
    devices: tuple[str, ...]
    leaving: bool


def judge(cluster: Cluster, plan: Plan) -> Iterator[str]:
    """Yield the errors in the placements and evictions of the plan, after it is folded."""
    for each in plan.actions:
        if isinstance(each, Place | Shrink):
            yield from member_in_part(cluster, each)
        if isinstance(each, Start | Nominate):
            yield from out_of_turn(cluster, cluster.jobs[each.job].job)
    placed = [action for action in plan.actions if isinstance(action, Start | Place) and action.placements]
    if not placed:
        return
    pods = list(everybody(cluster))
    new = {(action.job, each.role, each.ordinal) for action in placed for each in action.placements}
    for action in placed:
        record = cluster.jobs[action.job]
        yield from too_far_apart(cluster, record)
        if isinstance(action, Start):
            yield from on_reserved(cluster, record, action)
        for each in action.placements:
            own = (action.job, each.role, each.ordinal)
            yield from beside_others(pods, new, next(pod for pod in pods if pod[:3] == own))
    if len(placed) == 1:
        yield from not_level(cluster, pods, placed[0])


def member_in_part(cluster: Cluster, action: Place | Shrink) -> Iterator[str]:
    """Check that an optional member of a group is placed and evicted as a whole. In each of its roles, as many pods run
    as the minimum requires, or all that exist if fewer exist."""
    record = cluster.jobs[action.job]
    queue, job = cluster.queues.get(cluster.queue_of(record.job)), record.job
    for member in members_to_spare(job) if queue is not None and queue.gang else ():
        there = Counter(slot.role for slot in record.placements if slot.role in member and slot not in record.leaving)
        wanted = Counter(slot.role for slot in record.open if slot.role in member)
        if isinstance(action, Shrink):
            touched = any(slot.role in member for slot in action.slots)
            whole = not there or all(there[role] >= job.roles[role].minimum for role in member)
        else:
            came = Counter(each.role for each in action.placements if each.role in member)
            touched = came.total() == there.total() > 0
            whole = all(there[role] >= min(job.roles[role].minimum, there[role] + wanted[role]) for role in member)
        if touched and not whole:
            yield f"of roles {sorted(member)} of {action.job} only {dict(there)} are there, after {action}"


def out_of_turn(cluster: Cluster, job: Job) -> Iterator[str]:
    """Check that with this job no more jobs of its array, or of its singleton name, run or are nominated than may."""
    there = [each.job for each in cluster.jobs.values() if each.phase is not Phase.QUEUED or each.nominated]
    beside = [each.id for each in there if each.user == job.user and each.array == job.array]
    if job.array_cap is not None and len(beside) > job.array_cap:
        yield f"{job.id} is given room, and of the array {job.array} there are {beside}"
    alike = [each.id for each in there if each.user == job.user and each.singleton == job.singleton]
    if job.singleton and len(alike) > 1:
        yield f"{job.id} is given room, and of those named {job.singleton} there are {alike}"


def members_to_spare(job: Job) -> Iterator[set[int]]:
    """Yield the roles of each optional member. A member is a role or an inner group in which every role is required. It
    is optional if its group has a minimum number of members."""
    for group in job.groups:
        if group.minimum is None:
            continue
        yield from ({at} for at, role in enumerate(job.roles) if role.group == group.name)
        for inner in job.groups:
            if inner.parent == group.name and inner.minimum is None:
                yield {at for at, role in enumerate(job.roles) if role.group == inner.name}


def everybody(cluster: Cluster) -> Iterator[Pod]:
    """Yield the pods of all jobs that have a node. Foreign pods are left out."""
    for record in cluster.jobs.values():
        for slot, name in record.placements.items():
            node = cluster.columns.node(name)
            if node is not None:
                shape = record.job.roles[slot.role].shape
                devices, leaving = record.devices.get(slot, ()), slot in record.leaving
                yield Pod(record.job.id, *slot, node, shape, devices, leaving)


def beside_others(pods: list[Pod], new: Collection[tuple[str, int, int]], pod: Pod) -> Iterator[str]:
    """Check a placed pod against all other pods: host ports, affinities and devices. `new`: the pods that the same plan
    has placed."""
    for other in pods:
        if other is pod:
            continue
        if other.node.name == pod.node.name and set(other.shape.ports) & set(pod.shape.ports):
            yield f"{pod.job} and {other.job} want the same port of {pod.node.name}"
        if apart(pod, other) or apart(other, pod):
            yield f"{pod.job} is placed beside {other.job}, and one of them wants to be away from the other"
    for device in pod.devices:
        users = [other for other in pods if other.node.name == pod.node.name and device in other.devices]
        if sum(part(user.shape) for user in users) > 1000:
            yield f"{device} of {pod.node.name} is given to {[user.job for user in users]}"
    if pod.shape.share and len(pod.devices) != pod.shape.share.count:
        yield f"{pod.job} has the devices {pod.devices}"
    for term in pod.shape.near:
        others = [each for each in pods if each is not pod and picks(term, pod.shape, each.shape)]
        if not any(same(term.topology, each.node, pod.node) for each in others):
            there = [each for each in others if each[:3] not in new and not each.leaving]
            there = [each for each in there if term.topology in dict(each.node.labels)]
            if there or not picks(term, pod.shape, pod.shape):  # else the pod may have been the first of its kind
                yield f"{pod.job} is placed on {pod.node.name}, away from those that it wants to be with"


def apart(pod: Pod, other: Pod) -> bool:
    required = (term for term in pod.shape.away if not term.weight)
    return any(picks(term, pod.shape, other.shape) and same(term.topology, pod.node, other.node) for term in required)


def picks(term: PodAffinityTerm, own: Shape, other: Shape) -> bool:
    """Return whether the term of a pod with the shape `own` selects a pod with the shape `other`: both are in one
    namespace, and the labels match."""
    labels = dict(other.labels)
    return own.namespace == other.namespace and all(labels.get(each.key) in each.values for each in term.selector)


def same(level: str, one: Node, other: Node) -> bool:
    value = dict(one.labels).get(level)
    return value is not None and value == dict(other.labels).get(level)


def part(shape: Shape) -> int:
    return shape.share.milli if shape.share else 1000


def not_level(cluster: Cluster, pods: list[Pod], action: Start | Place) -> Iterator[str]:
    """Check the spread of pods that were placed last: no domain exceeds the emptiest domain by more than the skew.
    (Jobs of several roles are left out, because pods of one role may count for another role that has no spread.)"""
    record = cluster.jobs[action.job]
    if len(record.job.roles) > 1:
        return
    for each in action.placements:
        shape = record.job.roles[each.role].shape
        if record.flavors:  # the flavor's labels are required too
            shape = cluster.flavors[record.flavors[each.role]].applied_to(shape)
        for spread in shape.spread:
            counts = dict.fromkeys((home for home in homes(cluster, spread.topology, shape)), 0)
            for pod in pods:
                home = dict(pod.node.labels).get(spread.topology)
                if home in counts and picks(PodAffinityTerm(spread.topology, spread.selector), shape, pod.shape):
                    counts[home] += 1
            home = dict(node_of(cluster, each.node).labels).get(spread.topology)
            counted = picks(PodAffinityTerm(spread.topology, spread.selector), shape, shape)
            if home is None or (counted and counts[home] - min(counts.values()) > spread.max_skew):
                yield f"{action.job} is placed in {spread.topology} {home}, and there are {counts}"


def homes(cluster: Cluster, level: str, shape: Shape) -> Iterator[str]:
    """Yield the domains that count for a spread: the domains of nodes that match the pod's node selector and
    affinity."""
    anywhere = Shape(requests=(), selector=shape.selector, affinity=shape.affinity)
    for node in cluster.columns:
        bare = Node(name=node.name, allocatable=(), labels=node.labels)
        if level in dict(node.labels) and matches(bare, anywhere):
            yield dict(node.labels)[level]


def node_of(cluster: Cluster, name: str) -> Node:
    node = cluster.columns.node(name)
    assert node is not None
    return node


def too_far_apart(cluster: Cluster, record: JobRecord) -> Iterator[str]:
    """Check required domains: all pods of the job, group or role are in one domain. Check that all pods of a slice are
    in one domain of the slice's level."""
    job = record.job
    asked: list[tuple[str, TopologyRequest | None, set[int]]] = [("the job", job.closeness, set(range(len(job.roles))))]
    asked += [
        (f"group {group.name}", group.closeness, set(below(job.groups, job.roles, group.name))) for group in job.groups
    ]
    asked += [(f"role {role.name}", role.closeness, {at}) for at, role in enumerate(job.roles)]
    for what, near, roles in asked:
        found = {slot: cluster.columns.node(name) for slot, name in record.placements.items() if slot.role in roles}
        there = (
            {slot: domain(near.level, node) for slot, node in found.items() if node} if near and near.required else {}
        )
        # A single pod is always in one domain. It may be placed again in any domain.
        if len(there) > 1 and (len(set(there.values())) > 1 or None in there.values()):
            yield f"{what} of {job.id} wants one {near.level}, and is in {there}"
    for at, pods, level in layers(job):
        slices: dict[int, dict[Slot, tuple[str, ...] | None]] = {}
        for slot, name in record.placements.items():
            if slot.role == at and (node := cluster.columns.node(name)):
                slices.setdefault(slot.ordinal // pods, {})[slot] = domain(level, node)
        for found in slices.values():
            if len(found) > 1 and (len(set(found.values())) > 1 or None in found.values()):
                yield f"{pods} pods of role {at} of {job.id} want one {level}, and are in {found}"


def layers(job: Job) -> Iterator[tuple[int, int, str]]:
    """Yield (role, pods, level) for each layer of slices. The innermost request with a level or slices decides: first
    that of the role, then those of its groups, then that of the job."""
    groups = {group.name: group for group in job.groups}
    for at, role in enumerate(job.roles):
        around, name = [role.closeness], role.group
        while name:
            around.append(groups[name].closeness)
            name = groups[name].parent
        said = next((near for near in (*around, job.closeness) if near and (near.level or near.slices)), None)
        yield from ((at, *layer) for layer in (said.slices if said else ()))


def below(groups: Iterable[Group], roles: Iterable[Role], name: str) -> Iterator[int]:
    """Yield the roles in that group and in the groups inside it."""
    groups, roles = tuple(groups), tuple(roles)
    yield from (at for at, role in enumerate(roles) if role.group == name)
    for group in groups:
        if group.parent == name:
            yield from below(groups, roles, group.name)


def domain(level: str, node: Node) -> tuple[str, ...] | None:
    """Return the labels of the level and of all coarser levels; None: a label is missing, so the node is in no
    domain."""
    labels, keys = dict(node.labels), LEVELS[: LEVELS.index(level) + 1]
    return tuple(labels[key] for key in keys) if all(key in labels for key in keys) else None


def on_reserved(cluster: Cluster, record: JobRecord, start: Start) -> Iterator[str]:
    """Check that the job starts on a reserved node only if the reservation admits the job."""
    job, branch = record.job, cluster.tree.branch(cluster.queue_of(record.job))
    end_s = float("inf") if start.limit_s is None else start.at_s + start.limit_s
    for each in cluster.reservations.values():
        invited = job.user in each.users or job.group in each.groups or any(b.name in each.queues for b in branch.path)
        if invited and (each.magnetic or job.reservation == each.name):
            continue
        hit = [placement.node for placement in start.placements if placement.node in each.nodes]
        if hit and start.at_s < each.end_s and each.start_s < end_s:
            yield f"{job.id} starts on {hit}, which {each.name} reserves from {each.start_s} to {each.end_s}"


def room_for(cluster: Cluster, role: Role, near: TopologyRequest | None) -> int:
    """Return the number of pods of the role that fit now on the nodes of one domain (None: on all nodes). The role must
    have no constraints other than amounts and the nodes that match."""
    asks, found = dict(with_pod_count(role.shape.requests)), dict[object, int]()
    for node in cluster.columns:
        free = cluster.columns.free_of(cluster.columns.row_of[node.name])
        if not matches(node, role.shape) or min(free.values(), default=0) < 0:
            continue
        fits = min((free.get(name, 0) // amount for name, amount in asks.items()), default=0)
        home = domain(near.level, node) if near is not None and near.required else ()
        if home is not None:
            found[home] = found.get(home, 0) + fits
    return max(found.values(), default=0)


def enough(job: Job, slots: Iterable[Slot]) -> bool:
    """Return whether a gang may run with these slots: every role has its minimum of pods, and every group its minimum
    of members."""
    pods = Counter(slot.role for slot in slots)

    def placed(name: str, least: int | None) -> bool:
        members = [pods[at] >= role.minimum for at, role in enumerate(job.roles) if role.group == name]
        members += [placed(group.name, group.minimum) for group in job.groups if group.parent == name]
        return sum(members) >= (len(members) if least is None else least)

    return placed("", None)
