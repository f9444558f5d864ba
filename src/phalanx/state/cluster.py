"""The state of the cluster. The scheduler's main loop owns the state and changes it only through `core.fold.fold`.

The state has the nodes as columns (arrays with one element for each node), one record for each live job, the
queues, and the pods of other schedulers. In addition to these facts it has `pending` (the waiting requests as
columns) and `running_pods` (the columns of running pods, see `state.running`). To simulate decisions on a
hypothetical state ("what if"), a caller changes a `copy()` of the state.

`pending.grown` lists the nodes whose free amounts have grown since the last cycle. If a request found too little
capacity in that cycle, only these nodes can have more capacity for it now.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import ge
from typing import Any, Final, NoReturn

from phalanx.model.job import GangSize, Job, Phase, Placement, Role, Slot, pods_by_role
from phalanx.model.node import Flavor, Node, Reservation, Topology, joined_flavor
from phalanx.model.pod import MAX_AMOUNT, Amounts, HostPort, bounded_amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import ENTRY_S, Queue, QueueOrder
from phalanx.model.reason import Reason
from phalanx.state.classes import AffinityClass, Gang, InternTable
from phalanx.state.dependencies import JobDependencies
from phalanx.state.nodes.table import NodeTable
from phalanx.state.pending.pending import Pending
from phalanx.state.pending.request_class import Request
from phalanx.state.queues.quota import Charge, Key
from phalanx.state.queues.tree import QueueTree
from phalanx.state.running import ExpectedEnds, LargestConsumers, RunningPods
from phalanx.state.usage import DecayedUsage

REMEMBERED = 4096  # at most this many gangs with flavors are stored (`with_flavors`)


def _refuse(*_: object) -> NoReturn:
    raise TypeError("this collection is shared and stays empty")


REFUSED: Any = _refuse


class EmptyDict(dict[Any, Any]):
    """An empty dictionary that all job records share until they store an entry. It cannot be changed."""

    __setitem__ = __ior__ = update = setdefault = REFUSED


class EmptySet(set[Any]):
    """An empty set that all job records share until they store a member. It cannot be changed."""

    __ior__ = __ixor__ = add = update = symmetric_difference_update = REFUSED


EMPTY_DICT: Final = EmptyDict()
EMPTY_SET: Final = EmptySet()


class JobRecord:
    """A live job and the decisions about it.

    `queue`: the name of the job's queue, which may not exist.
    `placements`: slot -> the node of its pod, which is charged for the slot.
    `open`: slot that waits for a node -> (the time of its opening, in seconds since the epoch; a number that grows from
    each opening of a slot to the next).
    `nominated`: slot -> the node to which the slot is nominated. This node is already charged for the slot.
    `nominated_until_s`: the time at which the nomination is withdrawn (seconds since the epoch).
    `leaving`: placed slots whose pods are terminating.
    `devices`: slot -> the names of its devices, for placed and nominated slots.
    `attempt`: the number of starts. `preempted`: how often the whole job was preempted.
    `reason`: the last reported reason why the job waits.
    `refusal`: the reason why its last start failed. After a failed start the job waits until `not_before_s` (seconds
    since the epoch).
    `started_s`: the time of its last start (seconds since the epoch).
    `short_since_s`: the time since which it waits for capacity or quota (seconds since the epoch).
    `flavors`: for each role, the names of its flavors, joined by `+`; empty if its queue names no flavors.
    `size`: the number of pods of each role, if the size is fixed at the start.
    `placed`: for each role, the number of pods with a node.
    `charge`: the job's charge to its queue."""

    __slots__ = (
        *("attempt", "charge", "devices", "flavors", "gang", "job", "leaving", "not_before_s", "open", "phase"),
        *("placed", "placements", "preempted", "nominated", "nominated_until_s", "queue", "reason", "refusal"),
        *("short_since_s", "size", "started_s"),
    )

    def __init__(self, job: Job, gang: Gang, queue: str) -> None:
        self.job, self.gang, self.queue = job, gang, queue
        self.phase = Phase.QUEUED
        self.attempt = 0
        self.reason: Reason | None = None
        self.refusal: Reason | None = None
        self.not_before_s = 0.0
        self.started_s = 0.0
        self.flavors: tuple[str, ...] = ()
        self.nominated_until_s = 0.0
        self.short_since_s: float | None = None
        self.preempted = 0
        self.placed: Sequence[int] = gang.none
        self.charge: Charge | None = None
        self.size: tuple[int, ...] = ()
        self.placements: dict[Slot, str] = EMPTY_DICT
        self.open: dict[Slot, tuple[float, int]] = EMPTY_DICT
        self.nominated: dict[Slot, str] = EMPTY_DICT
        self.devices: dict[Slot, tuple[str, ...]] = EMPTY_DICT
        self.leaving: set[Slot] = EMPTY_SET

    @property
    def minimums(self) -> tuple[int, ...]:
        """Return for each role the number of pods that the job needs to run. If the job's size is `fixed-at-start`,
        these are the pods with which the job was started (rule R2)."""
        return self.size or self.gang.minimums

    def kept(self) -> Sequence[int]:
        """Return for each role the number of pods that have a node and are not terminating."""
        if not self.leaving:
            return self.placed
        leaving = pods_by_role(self.leaving, len(self.placed))
        return [has - less for has, less in zip(self.placed, leaving, strict=True)]

    def make_ready(self) -> None:
        """Give the record its own collections. Call this method before the first entry is added to one of them. The
        records of waiting jobs share empty collections, because separate collections would take most of a record's
        memory."""
        if self.placements is EMPTY_DICT:
            self.placements, self.open, self.nominated, self.devices, self.leaving = {}, {}, {}, {}, set()

    def copy(self) -> JobRecord:
        other = JobRecord(self.job, self.gang, self.queue)
        other.phase, other.attempt, other.reason = self.phase, self.attempt, self.reason
        other.refusal = self.refusal
        other.not_before_s = self.not_before_s
        other.started_s, other.flavors = self.started_s, self.flavors
        other.nominated_until_s = self.nominated_until_s
        other.short_since_s = self.short_since_s
        other.size = self.size
        other.preempted = self.preempted
        other.placed, other.charge = self.placed, self.charge
        if self.placements is not EMPTY_DICT:
            other.placements, other.open, other.leaving = dict(self.placements), dict(self.open), set(self.leaving)
            other.nominated, other.devices = dict(self.nominated), dict(self.devices)
        return other


class Cluster:
    """The state of the cluster.

    `policy`, `declared_topologies`: the policy, and the topologies that objects of the cluster declare, as last
    reported by the world. The topologies of the policy come before the declared ones.
    `foreign`: uid of a pod of another scheduler -> (its node, its requests).
    `foreign_identity`: uid -> (its affinity class, its host ports); `foreign_devices`: uid -> names of its devices.
    `residents`: the foreign pods that are resident (`event.Occupied`): a node with no other pods counts as empty.
    `foreign_usage`: resource -> amount that foreign pods hold. `foreign_usage_on`: node -> resource -> amount.
    `jobs_of`: queue -> its live jobs.
    `leaving`: job with terminating pods -> the time at which the grace period of these pods ends (seconds since the
    epoch).
    `nominated`: jobs that are nominated to nodes.
    `preempted_at`: queue -> times at which its jobs were preempted (seconds since the epoch).
    `exceeding`: queue above its limit -> the time since which it exceeds the limit (seconds since the epoch;
    see `core.fold.memory.Memory`).
    `now_s`: the latest of all reported times. `told_s`: the time that was reported last, which is earlier than `now_s`
    if the clock was set back (both in seconds since the epoch). `opened`: the number of times that a slot has been
    opened so far. `latest_s`: the latest submission time of all jobs so far; a slot that is opened gets this time as
    its arrival time. `breaches`: messages about decisions that broke a rule. They are added when such a decision is
    applied to the state."""

    def __init__(self) -> None:
        self.columns = NodeTable()
        self.jobs: dict[str, JobRecord] = {}
        self.queues: dict[str, Queue] = {}
        self.flavors: dict[str, Flavor] = {}
        self.policy = Policy()
        self.declared_topologies: tuple[Topology, ...] = ()
        self.tree = QueueTree()
        self.reservations: dict[str, Reservation] = {}
        self.now_s = 0.0
        self.told_s = 0.0
        self.jobs_of: dict[str, dict[str, None]] = {}
        self.foreign: dict[str, tuple[str, Amounts]] = {}
        self.foreign_identity: dict[str, tuple[AffinityClass | None, tuple[HostPort, ...]]] = {}
        self.foreign_devices: dict[str, tuple[str, ...]] = {}
        self.residents: set[str] = set()
        self.foreign_usage: dict[str, int] = {}
        self.foreign_usage_on: dict[str, dict[str, int]] = {}
        self.interned = InternTable()
        self.flavored_gangs: dict[tuple[Gang, tuple[str, ...]], Gang] = {}
        self.pending = Pending()
        self.consumers = LargestConsumers()
        self.running_pods: RunningPods | None = None  # created when it is first needed
        self.leaving: dict[str, float] = {}
        self.nominated: dict[str, None] = {}
        self.preempted_at: dict[str, deque[float]] = {}
        self.exceeding: dict[str, float] = {}
        self.ends = ExpectedEnds()
        self.usage = DecayedUsage()
        self.usage.price(self.policy.billing, self.policy.half_life_s, 0.0)
        self.dependencies = JobDependencies()
        self.breaches: list[str] = []
        self.opened = 0
        self.latest_s = 0.0

    def update_node(self, node: Node) -> None:
        if any(not 0 <= amount <= MAX_AMOUNT for _, amount in node.allocatable):
            # Amounts above the maximum, which no real node reaches, are reduced to the maximum.
            node = replace(node, allocatable=bounded_amounts(node.allocatable))
        known = self.columns.node(node.name) is not None
        self.pending.note_growth(self.columns.update(node))
        self.tree.pool_stale = True
        if known:
            self.pending.look_at_nodes()  # some amounts of the node may also have become smaller

    def remove_node(self, name: str) -> None:
        self.columns.groups.forget(name)
        if self.columns.node(name) is not None:
            self.columns.remove(name)
            self.tree.pool_stale = True
            self.pending.look_at_nodes()

    def discharge(self, node: str, asks: Amounts) -> None:
        """Free the amounts `asks` that one pod holds on the node."""
        self.note_growth(self.columns.row_of[node])
        self.columns.discharge(node, asks)

    def release_slot(self, record: JobRecord, slot: Slot, node: str) -> None:
        """Free the amounts and devices that the pod in this slot holds on the node."""
        row, demand = self.columns.row_of[node], record.gang.demands[slot.role]
        self.note_growth(row)
        if demand.tracked or record.devices:
            self.columns.release(node, demand, record.devices.pop(slot, ()))
        else:
            self.columns.discharge(node, demand.asks)

    def note_growth(self, row: int) -> None:
        """Record that the free amounts of the node in this row grow. For a row without a node, do nothing."""
        if self.columns.nodes[row] is not None:
            self.pending.note_growth(row)

    def add_foreign_pod(
        self,
        pod: str,
        node: str,
        asks: Amounts,
        kind: AffinityClass | None = None,
        ports: tuple[HostPort, ...] = (),
        devices: tuple[str, ...] = (),
    ) -> None:
        """Charge a pod of another scheduler to its node. If the pod was charged before, replace that charge. `kind`:
        its affinity class."""
        self.remove_foreign_pod(pod)
        self.foreign[pod] = (node, asks)
        row = self.columns.charge(node, asks)
        self.pending.changed = True  # a reservation on the node may have become impossible
        if kind is not None or ports:
            self.foreign_identity[pod] = (kind, ports)
            self.columns.add_pod(row, kind, ports)
        if devices:
            self.foreign_devices[pod] = devices
            self.columns.devices.hold_whole(row, devices, asks)
        here = self.foreign_usage_on.setdefault(node, {})
        for resource, amount in asks:
            self.foreign_usage[resource] = self.foreign_usage.get(resource, 0) + amount
            here[resource] = here.get(resource, 0) + amount

    def remove_foreign_pod(self, pod: str) -> None:
        """Remove the foreign pod, if it is known."""
        self.residents.discard(pod)
        if known := self.foreign.pop(pod, None):
            if pod in self.foreign_identity:
                self.columns.remove_pod(self.columns.row_of[known[0]], *self.foreign_identity.pop(pod))
            if devices := self.foreign_devices.pop(pod, ()):
                self.columns.devices.hold_whole(self.columns.row_of[known[0]], devices, known[1], -1)
            self.discharge(*known)
            here = self.foreign_usage_on.pop(known[0], {})
            for resource, amount in known[1]:
                self.foreign_usage[resource] -= amount
                here[resource] = here.get(resource, 0) - amount
            if any(here.values()):
                self.foreign_usage_on[known[0]] = here

    def queue_of(self, job: Job) -> str:
        """Return the name of the job's queue, which may not exist."""
        return job.queue or self.policy.default_queue

    def entry_s(self, job: Job) -> float:
        """Return the run time (seconds) that is added to the job's usage as soon as the job starts
        (`UsageTerms.entry_s`); 0 if neither its queue nor a queue above it is ordered by usage."""
        for branch in self.tree.branch(self.queue_of(job)).path:
            if branch.order is QueueOrder.USAGE and branch.queue is not None:
                return ENTRY_S if branch.queue.usage is None else branch.queue.usage.entry_s
        return 0.0

    def with_flavors(self, gang: Gang, flavors: tuple[str, ...]) -> Gang:
        """Return a copy of the gang for these flavors. In the copy, the pods of each role fit only on nodes of the
        role's flavors, and have the tolerations that these flavors add. `flavors`: for each role, the names of its
        flavors, joined by `+`."""
        known = self.flavored_gangs.get((gang, flavors))
        if known is None:
            named = [joined_flavor(flavor, self.flavors) for flavor in flavors]
            roles = tuple(
                replace(role, shape=each.applied_to(role.shape)) if each else role
                for role, each in zip(gang.roles, named, strict=True)
            )
            known = self.interned.gang(roles, gang.groups, gang.closeness, gang.size)
            if len(self.flavored_gangs) >= REMEMBERED:
                self.flavored_gangs.clear()
            self.flavored_gangs[gang, flavors] = known
        return known

    def pool(self) -> dict[Key, int]:
        """Return the capacity of all nodes, ready or not, by flavor and resource. Nodes that may still be requested
        from node groups are included."""
        facts, columns = self.columns.attributes, self.columns
        found: dict[Key, int] = {}
        for name, column in columns.allocatable.items():
            found["", name] = int(column.sum())
            for flavor in self.flavors.values():
                rows = facts.labelled(flavor.labels)
                found[flavor.name, name] = int(column[rows].sum())
        sizes = columns.group_sizes() if columns.groups.known else {}
        for group in columns.groups.known.values():
            more, labels = max(0, group.max_nodes - sizes.get(group.name, 0)), set(group.template.labels)
            flavors = ("", *(flavor.name for flavor in self.flavors.values() if labels.issuperset(flavor.labels)))
            if group.on_demand is not None:
                more, flavors = 1, ("", *(group.on_demand.flavors or self.flavors))
            for name, amount in group.template.allocatable:
                for flavor_name in flavors:
                    key = flavor_name, name
                    found[key] = found.get(key, 0) + more * amount
        return found

    def reason(self, job: str) -> Reason | None:
        """Return the last reported reason why the job waits; None if no reason was reported. All requests of a request
        class have the same reason."""
        request_class = self.pending.request_class_of.get(Request(job))
        known = None if request_class is None else self.pending.reason_of(request_class)
        return self.jobs[job].reason if known is None else known

    def copy(self) -> Cluster:
        other = Cluster()
        other.columns = self.columns.copy()
        other.jobs = {job: record.copy() for job, record in self.jobs.items()}
        other.queues, other.flavors = dict(self.queues), dict(self.flavors)
        other.declared_topologies = self.declared_topologies
        other.reservations, other.now_s, other.told_s = dict(self.reservations), self.now_s, self.told_s
        other.jobs_of = {queue: dict(jobs) for queue, jobs in self.jobs_of.items()}
        other.foreign, other.foreign_usage = dict(self.foreign), dict(self.foreign_usage)
        other.residents = set(self.residents)
        other.foreign_usage_on = {node: dict(held) for node, held in self.foreign_usage_on.items()}
        other.policy, other.tree = self.policy, self.tree.copy()
        other.foreign_identity, other.foreign_devices = dict(self.foreign_identity), dict(self.foreign_devices)
        other.interned, other.flavored_gangs = self.interned, dict(self.flavored_gangs)
        other.pending = self.pending.copy(other.tree)
        other.consumers = self.consumers.copy()
        other.leaving, other.nominated = dict(self.leaving), dict(self.nominated)
        other.exceeding = dict(self.exceeding)
        other.preempted_at = {queue: times.copy() for queue, times in self.preempted_at.items()}
        other.usage = self.usage.copy()
        other.ends, other.dependencies = self.ends.copy(), self.dependencies.copy()
        other.breaches, other.opened, other.latest_s = list(self.breaches), self.opened, self.latest_s
        return other


def time_limit_s(cluster: Cluster, job: Job) -> float | None:
    """Return the time limit of the job (seconds): its own limit if it has one, otherwise the smallest limit of its
    queue and the queues above it; None if there is no limit."""
    return (
        job.limit_s if job.limit_s is not None else cluster.tree.branches[cluster.queue_of(job)].rules.limits.longest_s
    )


# if the columns refer to more demands than this, they are built again, without the demands that no running pod has
MOST_DEMANDS = 1 << 16


def residents(cluster: Cluster) -> RunningPods:
    """Return the columns of running pods, up to date. The first call reads all records; each later call reads only the
    records that have changed since."""
    known = cluster.running_pods
    if known is None or len(known.demands) > MOST_DEMANDS:
        known = cluster.running_pods = RunningPods()
        known.touched = dict.fromkeys(job for job, record in cluster.jobs.items() if record.placements or record.open)
    touched, known.touched = known.touched, {}
    for job in touched:
        read(cluster, known, job)
    known.settle()
    return known


def read(cluster: Cluster, known: RunningPods, job: str) -> None:
    record = cluster.jobs.get(job)
    # a job that has only open slots is included, too, because the cycle may place pods in these slots
    if record is None or not (record.placements or record.open):
        known.forget(job)
        return
    rows = cluster.columns.row_of
    known.write(
        record.job,
        record.queue,
        record.gang.demands,
        {slot: rows[node] for slot, node in record.placements.items()},
        record.leaving,
        record.started_s,
        spare_pods(record),
    )


def spare_pods(record: JobRecord) -> list[int]:
    """Return for each role the number of pods that can be evicted one by one without breaking the gang. These are the
    pods above the minimum, and all pods of optional members of a group. All numbers are 0 if the job's size is not
    elastic, or if the job is being stopped."""
    roles = record.job.roles
    if record.job.size not in (GangSize.ELASTIC, GangSize.IN_TURN) or record.phase is Phase.STOPPING:
        return [0] * len(roles)
    left = record.kept()
    spare = [max(0, has - role.minimum) for has, role in zip(left, roles, strict=True)]
    if record.gang.optional and record.gang.tree is not None:
        for role in record.gang.tree.spare(left):
            spare[role] = left[role]
    return spare


def with_their_members(record: JobRecord, slots: Collection[Slot]) -> tuple[Slot, ...]:
    """Return the slots, in order. If their release would leave an optional member of a group incomplete, also return
    the remaining slots of this member, because an incomplete member cannot run."""
    if not record.gang.optional or record.gang.tree is None:
        return tuple(sorted(slots))
    kept = [slot for slot in record.placements if slot not in slots and slot not in record.leaving]
    broken = record.gang.tree.incomplete_members(pods_by_role(kept, len(record.job.roles)))
    touched = {slot.role for slot in slots}
    useless = {role for roles in broken if not touched.isdisjoint(roles) for role in roles}
    return tuple(sorted([*slots, *(slot for slot in kept if slot.role in useless)]))


def nominated_in(cluster: Cluster, row: int, jobs: Iterable[str]) -> Mapping[str, int]:
    """Return for each resource the amount that the node in this row is charged for nominations of these jobs. Pods with
    shares of devices are left out."""
    found: Counter[str] = Counter()
    for record in (cluster.jobs[job] for job in jobs):
        for slot, node in record.nominated.items():
            demand = record.gang.demands[slot.role]
            if cluster.columns.row_of[node] == row and demand.shape.share is None:
                found.update(dict(demand.asks))
    return found


def is_overcommitted(cluster: Cluster, row: int, back: Mapping[str, int]) -> bool:
    """Return whether the pods on the node in this row hold more than the node has, even if the amounts `back` (resource
    -> amount) were released."""
    return any(amount + back.get(resource, 0) < 0 for resource, amount in cluster.columns.free_of(row).items())


def nominated_placements(record: JobRecord) -> tuple[Placement, ...]:
    """Return the nominated slots of the job as placements, in the order of the slots."""
    return tuple(
        Placement(*slot, node, record.devices.get(slot, ())) for slot, node in sorted(record.nominated.items())
    )


def minimum_gang(cluster: Cluster, gang: Gang) -> Gang:
    """Return a copy of the gang in which each role has only its minimum number of pods, rounded up to whole slices.
    Pods above the minimum are placed later (rule R10)."""
    if all(role.count == role.minimum for role in gang.roles):
        return gang
    roles = tuple(
        role if role.count == role.minimum else replace(role, count=whole_slices(gang, at, role))
        for at, role in enumerate(gang.roles)
    )
    return cluster.interned.gang(roles, gang.groups, gang.closeness, gang.size)


def whole_slices(gang: Gang, at: int, role: Role) -> int:
    """Return the role's minimum number of pods, rounded up to whole slices."""
    slice_pods = 1 if gang.tree is None else max(1, gang.tree.slice_pods(at))
    return min(role.count, -(-role.minimum // slice_pods) * slice_pods)


def is_growth(record: JobRecord, slot: Slot) -> bool:
    """Return whether a pod in this slot would be growth, because the job has its minimum even without this pod. This is
    the case if the role has its minimum, or if the gang can run without the role. Nominated pods count towards the
    minimum (rule R2). If n pods are missing for the minimum of a role, the n slots of the role that were opened last
    belong to the minimum. The other open slots of the role are growth."""
    least, placed = record.minimums[slot.role], record.kept()[slot.role]
    wanted = record.open
    if record.nominated and slot not in record.nominated:
        placed += sum(each.role == slot.role for each in record.nominated)
        wanted = {each: opened for each, opened in record.open.items() if each not in record.nominated}
    if placed >= least or record.gang.does_without(slot.role, record.placed):
        return True
    if len(wanted) <= least - placed:
        return False
    number = wanted[slot][1]
    return placed + sum(each.role == slot.role and later > number for each, (_, later) in wanted.items()) >= least


def is_incomplete(record: JobRecord, more: Sequence[Placement] = ()) -> bool:
    """Return whether a started job would still wait for pods of its minimum if the placements `more` were made. A job
    that waits for such pods may not grow (rule R2). If a role is below its minimum but has no open slot, its missing
    pods have ended, and the job does not wait for them."""
    new = pods_by_role(more, len(record.placed))
    pods = [has + added for has, added in zip(record.kept(), new, strict=True)]
    wanted = [slots - added for slots, added in zip(pods_by_role(record.open, len(new)), new, strict=True)]
    lacking = (role for role, least in enumerate(record.minimums) if pods[role] < least and wanted[role] > 0)
    return not all(record.gang.does_without(role, pods) for role in lacking)


def grows_partly(record: JobRecord) -> bool:
    """Return True if some open slots of a role belong to its minimum, and its other open slots are growth. Whenever
    another slot of such a role is opened, slots that belonged to the minimum may become growth."""
    placed, minimums = record.kept(), record.minimums
    if record.gang.rigid or all(map(ge, placed, minimums)):
        return False
    wanted = pods_by_role(record.open, len(placed))
    return any(has < least < has + more for has, more, least in zip(placed, wanted, minimums, strict=True))
