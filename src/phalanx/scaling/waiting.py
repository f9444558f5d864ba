"""Find the requests that wait only for capacity: their quota would admit them now. Nodes are requested only for these
requests.

Within one queue, the order of requests is the order in the core: first replacements of lost pods, then priority, then
age. Between queues, a request within its queue's guarantee comes before a request that borrows. No nodes are requested
for pods above a gang's minimum.

`admitted_together` returns the waiting jobs that their quotas admit at the same time. An autoscaler may add nodes only
for these jobs.

A quota may be large enough for each of two jobs, but too small for both together. If the pods of both were reported as
unschedulable, an autoscaler would add nodes that one of the jobs cannot use. `kube.write.events` asks this module
before it reports pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from phalanx.core.cycle.state import CycleState
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.policy import Policy
from phalanx.model.queue import QueueOrder
from phalanx.model.reason import NEVER, ReasonCode
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, minimum_gang
from phalanx.state.pending.request_class import Blocker, Candidate, Kind, Request, RequestClass

CLASSES = 64  # the maximum number of request classes for which nodes are planned in one cycle
JOBS = 256  # the maximum number of requests of one request class for which nodes are planned in one cycle
MOST_PODS = 2048  # the maximum number of pods for which nodes are requested in one cycle

# Nodes for new requests are planned QUIET_S seconds after the last new request, and at the latest LONGEST_S seconds
# after the first new request (Karpenter's BATCH_IDLE_DURATION and BATCH_MAX_DURATION).
QUIET_S, LONGEST_S = 1.0, 10.0

# Jobs that are pending for one of these reasons might start if the cluster had more nodes.
CAPACITY = {
    ReasonCode.NO_ROOM,
    ReasonCode.NEVER_FITS,
    ReasonCode.NO_NODE_MATCHES,
    ReasonCode.NO_DOMAIN,
    ReasonCode.PLACEMENT_RULES,
    ReasonCode.ROOM_KEPT,
    ReasonCode.RESERVED,
}
# Reasons of missing quota. A job may keep such a reason after quota has become free, if the flavors of this quota have
# no capacity.
QUOTA = {ReasonCode.QUEUE_LIMIT, ReasonCode.QUEUE_QUOTA}


class Admitted(NamedTuple):
    """A request that its quota admits. `offers`: the assignments of flavors with which the quota admits the request,
    the best first."""

    request: Request
    offers: list[FlavorAssignment]


class PendingRequests:
    """The waiting requests of one cycle. `state`: the state of the cycle, which contains the quota that earlier
    requests of the cycle have taken. `later_s`: when nodes may be requested for jobs that have not waited long enough
    (seconds since the epoch). `among`: the request classes to consider, which may include classes for pods above a
    minimum. If it is None, all request classes are considered except those for pods above a minimum."""

    def __init__(
        self, cluster: Cluster, policy: Policy, now_s: float, among: Iterable[RequestClass] | None = None
    ) -> None:
        self.cluster, self.now_s = cluster, now_s
        self.later_s: list[float] = []
        self.state = CycleState(cluster, policy, now_s)
        self.state.search_classes = frozenset()
        self.request_classes = [
            request_class
            for request_class in (cluster.pending.request_classes.values() if among is None else among)
            if self.needs_capacity(request_class, growth=among is not None)
        ]

    def needs_capacity(self, request_class: RequestClass, *, growth: bool) -> bool:
        """Return whether the class waits for capacity, according to its last reason. `growth`: whether request classes
        for pods above a minimum count as well."""
        reported = self.cluster.pending.columns.reported_blocker[request_class.number]
        if (
            (request_class.key.kind == Kind.GROWTH and not growth)
            or reported in (Blocker.QUOTA, Blocker.HEAD)
            or not request_class.placement_class.key.whole
        ):
            return False
        reason = self.cluster.pending.reason_of(request_class)
        if reason is None or reason.code not in QUOTA:
            return reason is not None and reason.code in CAPACITY
        return any(offer.short is None for offer in self.state.offers(Candidate(request_class, request_class.first)))

    def due_s(self) -> float:
        """Return the time (seconds since the epoch) at which nodes are planned for the requests. A time in the past
        means now. Jobs that are submitted at about the same time are planned together, because that may be cheaper."""
        planned_s = self.cluster.columns.groups.planned_s
        new = [at_s for request_class in self.request_classes if (at_s := request_class.first.arrival_s) > planned_s]
        return min(max(new) + QUIET_S, min(new) + LONGEST_S) if new else planned_s

    def pods(self) -> int:
        """Return the number of waiting pods for which nodes may be requested in one cycle, at most `MOST_PODS`."""
        gangs = (
            (request_class, sum(role.minimum for role in request_class.key.gang.roles))
            for request_class in self.request_classes
        )
        return min(MOST_PODS, sum(pods * min(len(request_class), JOBS) for request_class, pods in gangs))

    def classes(self) -> list[RequestClass]:
        """Return the first request classes, at most `CLASSES`, in the order of planning."""
        return nsmallest(CLASSES, self.request_classes, key=self.rank)

    def rank(self, request_class: RequestClass) -> tuple[object, ...]:
        """Return the sort key of a request class for the order of planning."""
        first = request_class.first
        offers = self.state.offers(Candidate(request_class, first))
        urgent = request_class.key.kind == Kind.REPLACEMENT
        queue = request_class.key.queue
        fifo = bool(queue) and self.cluster.tree.branches[queue].order is QueueOrder.FIFO
        priority = 0 if fifo else -request_class.key.priority
        borrows = all(offer.borrows for offer in offers)
        return not urgent, borrows, priority, first.arrival_s, request_class.key.kind, first.tie

    def requests(self, request_class: RequestClass) -> Iterator[Admitted]:
        """Yield the requests of the class in order, as long as their quota admits them. In a strict queue, only the
        first request of a class is tried."""
        for entry in islice(request_class, 1 if request_class.strict else JOBS):
            after_s = entry.arrival_s + self.cluster.jobs[entry.request.job].job.nodes_after_s
            if self.now_s < after_s:
                self.later_s.append(after_s)
                continue
            offers = self.state.offers(Candidate(request_class, entry))
            admitted = [offer for offer in offers if offer.short is None]
            if not admitted:
                return
            yield Admitted(entry.request, admitted)

    def minimum(self, request_class: RequestClass, offer: FlavorAssignment) -> Gang:
        """Return the gang for this offer, without pods above its minimum."""
        return minimum_gang(self.cluster, offer.gang) if request_class.key.kind == Kind.JOB else offer.gang

    def may_start_later(self) -> list[RequestClass]:
        """Return the request classes whose requests would fit on the present nodes if fewer pods ran on these nodes."""
        reasons = ((each, self.cluster.pending.reason_of(each)) for each in self.request_classes)
        return [request_class for request_class, reason in reasons if reason is not None and reason.code not in NEVER]


def admitted_together(cluster: Cluster, policy: Policy, now_s: float, jobs: Collection[str]) -> frozenset[str]:
    """Return those of the waiting `jobs` that their quotas admit together, in the order in which nodes would be
    requested for these jobs. Of each request class of a strict queue, only the first job is considered. A job that
    delays its request (`Job.nodes_after_s`) is left out until that time has passed. `now_s`: seconds since the
    epoch."""
    waiting, found = PendingRequests(cluster, policy, now_s, classes_of(cluster, jobs)), set[str]()
    for request_class in sorted(waiting.request_classes, key=waiting.rank):
        asking = (entry for entry in request_class if entry.request.job in jobs)
        for entry in islice(asking, 1 if request_class.strict else JOBS):
            delay_s = cluster.jobs[entry.request.job].job.nodes_after_s
            if delay_s and now_s < entry.arrival_s + delay_s:
                continue
            offers = waiting.state.offers(Candidate(request_class, entry))
            offer = next((offer for offer in offers if offer.short is None), None)
            if offer is None:
                break
            waiting.state.ledger.grant(offer.charge)
            found.add(entry.request.job)
    return frozenset(found)


def classes_of(cluster: Cluster, jobs: Collection[str]) -> list[RequestClass]:
    """Return the request classes that have requests of these jobs: requests of queued jobs, and requests of started
    jobs for pods that have no node yet."""
    requests = (
        request
        for name in jobs
        if (record := cluster.jobs.get(name)) is not None
        for request in (Request(name), *(Request(name, slot) for slot in record.open))
    )
    found = (cluster.pending.request_class_of.get(request) for request in requests)
    return list(dict.fromkeys(each for each in found if each is not None))
