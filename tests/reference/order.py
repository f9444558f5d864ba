"""Requests (R2) and their order: within a queue (R6), between queues (R7), behind the head of a strict queue (R14)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from phalanx.model.job import Phase
from phalanx.model.queue import QueueOrder

from .facts import Facts, Work, times
from .quota import charges, is_within, part_used, share
from .tree import ROOT, Amounts


class Kind(IntEnum):
    """The kinds of requests, in the order in which a queue tries those of one priority (R6, R10)."""

    REPLACEMENT = 0
    JOB = 1
    GROWTH = 2
    SURPLUS = 3


class Request(NamedTuple):
    """A request of a job: all of its minimum, or one pod."""

    kind: Kind
    work: Work

    @property
    def pods(self) -> int:
        return self.work.minimum if self.kind is Kind.JOB else 1

    @property
    def name(self) -> str:
        return self.work.job.id

    @property
    def asks(self) -> Amounts:
        return times(self.work.asks, self.pods)


def replacements(facts: Facts) -> list[Request]:
    """R2, R5: return the jobs with fewer pods than their minimum, the oldest first."""
    short = [work for work in facts.started() if work.missing()]
    return [Request(Kind.REPLACEMENT, work) for work in sorted(short, key=lambda work: work.job.submitted_s)]


def requests(facts: Facts, is_eligible: Callable[[Work], bool]) -> list[Request]:
    """R1, R2: return the requests of queued jobs that take part, and of jobs that may grow. A job with fewer pods than
    its minimum may not grow. A nominated job is not decided again."""
    found = []
    for work in facts.works.values():
        if work.queue not in facts.queues:
            continue
        if work.phase is Phase.QUEUED and not work.nominated and is_eligible(work):
            found.append(Request(Kind.JOB, work))
        elif work.is_started and work.is_elastic and work.open - work.nominated.keys() and not work.missing():
            found.append(Request(Kind.GROWTH, work))
        elif work.is_started and work.is_new and work.is_elastic and work.count > len(work.kept()):
            found.append(Request(Kind.SURPLUS, work))
    return found


def rank(order: QueueOrder, request: Request, *, growth_last: bool = True) -> tuple[float, ...]:
    """R6: return the place of a request in a queue with that order, the smallest first. Equal ranks are sorted by name.
    `growth_last`: growth comes after the waiting jobs of its priority."""
    job = request.work.job
    growth = float(request.kind is Kind.GROWTH and growth_last)
    return (growth, job.submitted_s) if order is QueueOrder.FIFO else (-job.priority, growth, job.submitted_s)


def order_of(facts: Facts, queue: str) -> QueueOrder:
    return facts.queues[queue].order if queue != ROOT else QueueOrder.PRIORITY


class Contest:
    """One round of the tournament (R7, R8).

    `gets`: returns whether a request would get something.
    `tried`: the requests that were tried in this cycle and got nothing.
    `blocked`: queue whose strict head waits -> the priority of that head.
    `growth_last`: whether growth comes after the jobs of other queues as well.
    `by_share`: whether every queue chooses the child with the lowest share (R10)."""

    def __init__(
        self,
        facts: Facts,
        waiting: list[Request],
        gets: Callable[[Request], bool],
        tried: set[tuple[Kind, str]],
        blocked: dict[str, int],
        growth_last: bool = True,
        by_share: bool = False,
    ) -> None:
        self.growth_last, self.by_share = growth_last, by_share
        self.facts, self.waiting, self.gets, self.tried, self.blocked = facts, waiting, gets, tried, blocked
        self.usage = charges(facts)

    def first(self, queue: str = ROOT) -> Request | None:
        """R7: return the best request of a queue and of all queues below it."""
        if queue in self.blocked:
            return None
        found = [(child, False, self.first(child)) for child in self.facts.tree.children[queue]]
        if queue != ROOT:
            found.append((queue, True, self.own(queue)))
        entries = [(name, is_own, best) for name, is_own, best in found if best is not None]
        if not entries:
            return None
        is_leaf = len(found) == 1
        return entries[0][2] if is_leaf else min(entries, key=lambda each: self.standing(queue, *each))[2]

    def own(self, queue: str) -> Request | None:
        """R8: return the first request of the queue itself that would get something. A strict queue takes part with its
        first job, although the job may get nothing (R14)."""
        order = order_of(self.facts, queue)
        mine = (each for each in self.waiting if each.work.queue == queue)
        in_order = sorted(mine, key=lambda each: (rank(order, each), each.name))
        return next(filter(self.may_be_tried, in_order), None)

    def may_be_tried(self, request: Request) -> bool:
        """R8, R14: return whether the request would get something, or is a job of a strict queue. Return False if the
        request was already tried, or if the head of a strict queue on its path waits."""
        strict = strict_above(self.facts, request.work.queue)
        is_open = (request.kind, request.name) not in self.tried and not any(queue in self.blocked for queue in strict)
        return is_open and (self.gets(request) or (bool(strict) and request.kind is Kind.JOB))

    def standing(self, queue: str, child: str, is_own: bool, request: Request) -> tuple[object, ...]:
        """R7: return the place of a child among the children of `queue`: by the queue's order, then by R6."""
        asks, order = request.asks, order_of(self.facts, queue)
        last = (rank(order, request, growth_last=self.growth_last), request.name)
        other = 0 if is_own else -self.facts.queues[child].priority
        if self.by_share or order in (QueueOrder.FAIR, QueueOrder.TIERED):
            amount = share(self.facts, self.usage, child, asks, is_own=is_own)
            return (amount > (0, 0.0), other, amount, last) if order is QueueOrder.TIERED else (amount, other, last)
        if order is QueueOrder.FILL:
            best = request.work.job.priority if is_own else seen(self.facts, request.work, child)
            return (-best, part_used(self.facts, self.usage, child, is_own=is_own), last)
        counting = [at for at in self.facts.tree.counting[queue] if asks[at]]
        return (bool(counting) and (is_own or not is_within(self.facts, self.usage, child, asks, counting)), last)


def seen(facts: Facts, work: Work, child: str) -> int:
    """R7, `fill`: return the priority of a job as the queue above `child` sees it. Each queue on the path adds its own
    priority. For a fenced queue, the priority of the job does not count."""
    priority = work.job.priority
    for queue in map(facts.queues.__getitem__, facts.tree.path[work.queue]):
        priority = queue.priority + (0 if queue.fenced else priority)
        if queue.name == child:
            break
    return priority


def strict_above(facts: Facts, queue: str) -> list[str]:
    """Return the strict queues on the path from the queue to the root."""
    return [name for name in facts.tree.path[queue] if facts.queues[name].strict]


def comes_before_heads(facts: Facts, request: Request, blocked: dict[str, int]) -> bool:
    """R14: return whether strict heads wait on the path of the request's queue, and all have a lower priority than the
    request."""
    heads = [blocked[name] for name in facts.tree.path[request.work.queue] if name in blocked]
    return bool(heads) and all(priority < request.work.job.priority for priority in heads)
