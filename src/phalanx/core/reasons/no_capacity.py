"""Compute the reason of a job for which the nodes have too little free capacity. The reason states the missing
resource, the amounts, the jobs that hold the missing resource, and the time at which enough is expected to be released.

Reasons for missing capacity are computed more often than other reasons, but users read few of them. So a cycle only
stores the facts, as they are at that moment (`NoRoom`). The text is made from these facts when a user reads the reason
(`model.reason.LazyReason`).

This module also computes the time at which running jobs are expected to have released a missing amount.

To find this time, the amounts of running jobs are added up in the order of their expected ends, until the sum reaches
the missing amount. The released amounts may be spread over several nodes, so it is not certain that the waiting job
fits at that time. (`report.forecast` computes when a job is expected to start.) A job without a time limit has no
expected end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import numpy as np

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.core.placement.packing import PlacementShortfall
from phalanx.model.job import Placement, Role
from phalanx.model.pod import PODS, Amount, Amounts, format_amount, json_number
from phalanx.model.reason import DAY_S, LazyReason, Reason, ReasonCode, format_time_of_day
from phalanx.state.classes import Gang, NodeConstraints
from phalanx.state.cluster import Cluster, time_limit_s
from phalanx.state.running import LEAVING_S, LargestConsumers

# the expected ends of at most this many jobs are examined; if they release too little, the time of release is unknown
LOOKED_AT = 256
LARGEST = 3  # a reason names at most this many jobs that hold the missing resource
SEARCHED = 64  # if some nodes are not usable, at most this many jobs are examined: the largest ones on all nodes
NOTHING: Amount = 0
# If some nodes are not usable, the search for the largest jobs on usable nodes ends after about this many pods. Jobs
# that were not examined count as holding nothing.
PODS_EXAMINED = 4096


@dataclass(eq=False)
class CycleGrants(LargestConsumers):
    """The grants of a cycle so far: jobs and their placements. `given`: job -> (gang, placements) of each of its
    grants. `found_on`: a cache: (resource, node constraints) -> job -> the amount that the job holds on the matching
    nodes. Each new grant empties the cache."""

    given: dict[str, list[tuple[Gang, Sequence[Placement]]]] = field(default_factory=dict)
    found_on: dict[tuple[str, NodeConstraints], dict[str, Amount]] = field(default_factory=dict)

    def note(self, gang: Gang, job: str, placements: Sequence[Placement]) -> None:
        """Record a grant of this cycle: the job and its placements."""
        self.found_on.clear()
        self.given.setdefault(job, []).append((gang, placements))
        for role, demand in enumerate(gang.demands):
            pods = sum([placement.role == role for placement in placements])
            if pods:
                self.change(job, demand.costs, pods)


class ResourceConsumers:
    """How much of one resource each job holds on the *usable* nodes: the nodes that a waiting pod may use. The grants
    of this cycle are included.

    The cluster state stores how much each job holds on all nodes together (`state.running.LargestConsumers`). If a node
    selector, taints, a flavor or cordons exclude some nodes, the amounts on the usable nodes must be computed job by
    job. The jobs are examined in the order of their amounts on all nodes, the largest first, until the largest jobs on
    the usable nodes are known."""

    def __init__(self, cluster: Cluster, granted: CycleGrants, resource: str, where: NodeConstraints) -> None:
        self.cluster, self.granted, self.resource = cluster, granted, resource
        self.matching = matching.matching(cluster.columns.attributes, where)
        is_everywhere = np.count_nonzero(self.matching) == len(cluster.columns.row_of)
        self.usable = None if is_everywhere else self.matching.data
        self.held: Mapping[str, Amount] = cluster.consumers.held.get(resource, {})
        self.given: Mapping[str, Amount] = granted.held.get(resource, {})
        self._known = granted.found_on.setdefault((resource, where), {})
        self._pods = 0  # the number of pods that the search has examined so far

    def by(self, job: str) -> Amount:
        """Return how much of the resource the job holds on the usable nodes."""
        if self.usable is None:
            return self.held.get(job, 0) + self.given.get(job, 0)
        if job not in self._known:
            self._known[job] = self._looked_up(job) if self._pods < PODS_EXAMINED else 0
        return self._known[job]

    def _looked_up(self, job: str) -> Amount:
        record, total = self.cluster.jobs[job], NOTHING
        pods = [(slot.role, node, record.gang) for slot, node in record.placements.items()]
        for gang, placements in self.granted.given.get(job, ()):
            pods += [(each.role, each.node, gang) for each in placements]
        self._pods += len(pods)
        for role, node, gang in pods:
            if self.is_usable(node):
                total += dict(gang.demands[role].costs).get(self.resource, 0)
        return total

    def is_usable(self, node: str) -> bool:
        """Return whether the pod may use the node."""
        return self.usable is None or bool(self.usable[self.cluster.columns.row_of[node]])

    def largest(self) -> tuple[tuple[str, Amount, str], ...]:
        """Return the largest consumers of the resource on the usable nodes: (job, amount, queue of the job)."""
        cluster, held, given = self.cluster, self.held, self.given
        most = LARGEST if self.usable is None else SEARCHED
        in_all = cluster.consumers.largest(self.resource, most)
        if given:
            jobs = dict.fromkeys([job for job, _ in (*in_all, *self.granted.largest(self.resource, most))])
            both = sorted([(-held.get(job, 0) - given.get(job, 0), job) for job in jobs])
            in_all = [(job, -amount) for amount, job in both]
        found: list[tuple[Amount, str]] = []
        for job, amount in in_all:
            if len(found) == LARGEST and -found[-1][0] >= amount:
                break
            if there := self.by(job):
                found = sorted([*found, (-there, job)])[:LARGEST]
        return tuple(
            [(job, -amount, cluster.jobs[job].job.queue or cluster.policy.default_queue) for amount, job in found]
        )

    def by_others(self) -> int:
        """Return how much of the resource pods of other schedulers hold on the usable nodes."""
        if self.usable is None:
            return self.cluster.foreign_usage.get(self.resource, 0)
        held = ((node, amounts.get(self.resource, 0)) for node, amounts in self.cluster.foreign_usage_on.items())
        return sum(amount for node, amount in held if amount and self.is_usable(node))

    def nominated(self) -> int:
        """Return how much of the resource nominated jobs will use on the usable nodes. Nominated jobs that start in
        this cycle are not counted, because their grants are already included."""
        has, total = self.granted.held.get(self.resource, {}), 0
        for record in (self.cluster.jobs[job] for job in self.cluster.nominated if job not in has):
            for slot, node in record.nominated.items():
                if self.is_usable(node):
                    total += record.gang.demands[slot.role].amounts.get(self.resource, 0)
        return total


def consumers_text(held: Sequence[tuple[str, Amount, str]], resource: str) -> str:
    """Return a text that lists the consumers by queue, such as `queue a by x (6), y (2) and in queue b by z (4)`. The
    queue with the largest consumer comes first."""
    by_queue: dict[str, list[str]] = {}
    for job, amount, queue in held:
        by_queue.setdefault(queue, []).append(f"{job} ({format_amount(resource, amount)})")
    return " and in ".join(f"queue {queue} by {', '.join(jobs)}" for queue, jobs in by_queue.items())


def expected_release_s(
    cluster: Cluster,
    missing: Amount,
    gives: Callable[[str], Amount],
    granted: Iterable[str] = (),
    looked_at: int = LOOKED_AT,
) -> float | None:
    """Return the time (seconds since the epoch) by which running jobs are expected to have released the missing amount.
    Return None if the time is unknown, or if nothing is missing.

    `gives`: job -> the amount that is released when the job ends.
    `granted`: the jobs that this cycle starts."""
    if missing <= 0:
        return None
    starting = [(cluster.now_s + limit_s, job) for job in granted if (limit_s := limit_of(cluster, job)) is not None]
    ends = merge(cluster.ends.order, sorted(starting)) if starting else cluster.ends.order
    for end_s, job in islice(ends, looked_at):
        missing -= gives(job)
        if missing <= 0:
            return end_s if end_s < inf else None
    return None


def limit_of(cluster: Cluster, job: str) -> float | None:
    """Return the time limit of the job, in seconds; None if it has no limit."""
    return time_limit_s(cluster, cluster.jobs[job].job)


def days(cluster: Cluster, end_s: float) -> int:
    """Return the number of full days from now until `end_s`; -1 if `end_s` is not in the future."""
    return -1 if end_s <= cluster.now_s else int((end_s - cluster.now_s) // DAY_S)


def release_text(end_s: float, days: int) -> str:
    """Return the part of a reason's text that states when enough is expected to be released."""
    if end_s == LEAVING_S:
        return "enough is on its way back"
    if days < 0:
        return "enough is overdue to come back"
    if days:
        return f"enough is expected back in about {days} {'day' if days == 1 else 'days'}"
    return f"enough is expected back by {format_time_of_day(end_s)}"


class NoRoom(NamedTuple):
    """The facts from which the text of a reason for missing capacity is made.

    `wanted`: the number of pods that had to be placed. `placed`: how many pods the failed attempt has placed. `left`:
    the largest amounts that were free on one node after `placed` pods were placed. `role`: the role of the next pod,
    for which no node was found.
    `free`: the total amounts that were free on all nodes before the attempt. `left` and `free` are in the order of the
    pod's requests.
    `resource`: the scarcest resource. `held`: (job, amount, queue) of its largest consumers on the nodes that the pod
    may use. `enough`: when the missing amount is expected to be released: (seconds since the epoch, full days from
    now). `foreign_usage`: the amount of `resource` that pods of other schedulers hold. `overfull`: the number of
    overcommitted nodes; no new pods are placed on them."""

    gang: Gang
    role: int
    placed: int
    wanted: int
    left: tuple[tuple[str, int], ...]
    free: tuple[int, ...]
    resource: str
    held: tuple[tuple[str, Amount, str], ...]
    enough: tuple[float, int] | None
    foreign_usage: int
    overfull: int

    def text(self) -> str:
        resource, role = self.resource, self.gang.roles[self.role]
        asks, left, asked = self.gang.demands[self.role].amounts, dict(self.left), self.gang.asked[resource]
        placed = f"placed {self.placed} of {self.wanted} pods; " if self.wanted > 1 else ""
        whose = f" for {a_pod(role)}" if len(self.gang.roles) > 1 else ""
        free = dict(zip(asks, self.free, strict=True))[resource]
        amounts = [f"{format_amount(resource, asked)} {resource} asked in all, {format_amount(resource, free)} free"]
        if self.held:
            amounts.append(f"most is held in {consumers_text(self.held, resource)}")
        if self.enough is not None:
            amounts.append(release_text(*self.enough))
        if self.foreign_usage:
            amounts.append(f"pods of others hold {format_amount(resource, self.foreign_usage)}")
        if self.overfull:
            amounts.append(f"{nodes(self.overfull)} overfull, taking nothing new")
        return f"{placed}{met(asks, left, resource, self.placed)}{whose} ({'; '.join(amounts)})"

    def numbers(self) -> Mapping[str, Any]:
        asks = self.gang.demands[self.role].amounts
        return {
            "placed": self.placed,
            "pods": self.wanted,
            "role": self.gang.roles[self.role].name,
            "resource": self.resource,
            "asked_per_pod": asks,
            "left_on_one_node": dict(self.left),
            "asked": self.gang.asked,
            "free": dict(zip(asks, self.free, strict=True)),
            "holders": {job: json_number(amount) for job, amount, _ in self.held},
            "queues": {job: queue for job, _, queue in self.held},
            "enough_s": None if self.enough is None else self.enough[0],
            "held_by_others": self.foreign_usage,
            "overfull_nodes": self.overfull,
        }

    def names(self, job: str) -> bool:
        return any(job == each for each, _, _ in self.held)


def no_room(cluster: Cluster, draft: Draft, gang: Gang, shortfall: PlacementShortfall, granted: CycleGrants) -> Reason:
    """Return the reason of a gang that only waits for free capacity. `granted`: the grants of this cycle so far."""
    demand, left = gang.demands[shortfall.role], shortfall.left
    free = draft.free_in_all(demand)
    # The reason is about the scarcest resource. For each resource, divide the largest amount that is left on one node
    # by the request; the scarcest resource has the smallest quotient. If quotients are equal, the resource whose name
    # comes first in the alphabet is chosen.
    _, resource, at = min((left[at][1] / amount, name, at) for at, (name, amount) in enumerate(demand.asks))
    asked, holds = demand.asks[at][1], ResourceConsumers(cluster, granted, resource, demand.where)
    missing = max(gang.asked[resource] - free[at], asked - left[at][1])
    if missing > 0 and cluster.nominated:
        missing += holds.nominated()
    until_s = expected_release_s(cluster, missing, holds.by, holds.given)
    facts = NoRoom(
        gang,
        shortfall.role,
        shortfall.placed,
        shortfall.wanted,
        left,
        tuple(free),
        resource,
        holds.largest(),
        None if until_s is None else (until_s, days(cluster, until_s)),
        holds.by_others() if cluster.foreign_usage else 0,
        draft.overfull(holds.matching),
    )
    return LazyReason(ReasonCode.NO_ROOM, facts, more_nodes_help=True)


def met(asks: Mapping[str, int], left: Mapping[str, int], resource: str, placed: int) -> str:
    """Return the part of a reason's text that states which amounts were left when a pod found no node."""
    if left[resource] >= asks[resource]:
        return f"no {'other ' if placed else ''}node has {written(tuple(asks.items()))} free at once"
    has, asked = format_amount(resource, left[resource]), format_amount(resource, asks[resource])
    return f"{'then ' if placed else ''}the largest free node has {has} of the {asked} {resource} asked"


def nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def a_pod(role: Role) -> str:
    return f"a pod of role {role.name}" if role.name else "a pod"


def written(asks: Amounts) -> str:
    """Return the requests as text, such as `4 cpu, 8Gi memory`. The resource `pods`, of which every pod requests one,
    is left out."""
    parts = [f"{format_amount(name, amount)} {name}" for name, amount in asks if (name, amount) != (PODS, 1)]
    return ", ".join(parts) or "one of pods"
