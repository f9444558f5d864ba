"""The jobs that a job may preempt (R15), the protected jobs (R16), and preemptions that would not come to an end
(R20)."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.model.queue import QueueOrder, ReclaimFloor, ReclaimWithinCohort, Strategy, WithinQueue

from .facts import HOUR_S, Facts, Work, times
from .order import Kind, Request, order_of, seen
from .quota import Share, Usage, charges, is_within, share, used
from .tree import Amounts

Victims = dict[str, frozenset[int]]  # job -> the ordinals of its pods that terminate


def may_search(facts: Facts, request: Request) -> bool:
    """R16, R22: return whether the request may preempt at all. Only then may it be nominated to nodes with terminating
    pods. Growth may preempt if its queue reclaims and stays within its guarantee, or if this is true for a queue
    above."""
    work, settings = request.work, facts.queues[request.work.queue].preemption
    if not work.job.preempts or request.kind in (Kind.REPLACEMENT, Kind.SURPLUS):
        return False
    since_s = facts.now_s if work.short_since_s is None else work.short_since_s
    if settings.delay_s > facts.now_s - since_s:
        return False
    if request.kind is Kind.JOB:
        return settings.searches()
    own = {name: stated(facts, [name], work.asks) for name in facts.tree.path[work.queue]}
    by_right = any(some and is_within(facts, charges(facts), name, request.asks, some) for name, some in own.items())
    return settings.reclaim is not ReclaimWithinCohort.NEVER and by_right


def is_protected(facts: Facts, victim: Work, preempted: int = 0) -> bool:
    """R16: return whether the job is protected from preemption. `preempted`: jobs of its queue that are preempted
    before it."""
    settings = facts.queues[victim.queue].preemption
    if not victim.is_started or victim.is_new or not victim.job.preemptible:
        return True
    if facts.now_s - victim.started_s < settings.min_run_s:
        return True
    recent = [at_s for at_s in facts.preempted_at.get(victim.queue, ()) if at_s > facts.now_s - HOUR_S]
    return settings.hourly_budget is not None and len(recent) + preempted >= settings.hourly_budget


def branches(facts: Facts, queue: str, other: str) -> tuple[str, str]:
    """Return the ancestor of each queue just below the point where the two paths part."""
    mine, theirs = facts.tree.path[queue][::-1], facts.tree.path[other][::-1]
    at = next(at for at in range(min(len(mine), len(theirs)) + 1) if mine[at : at + 1] != theirs[at : at + 1])
    return mine[min(at, len(mine) - 1)], theirs[min(at, len(theirs) - 1)]


def stated(facts: Facts, queues: Sequence[str], asks: Amounts) -> list[int]:
    """Return the requested resources for which one of the queues states a guarantee. The guarantee may be 0."""
    bounds = [facts.tree.guaranteed[name] for name in queues]
    return [at for at, asked in enumerate(asks) if asked and any(each[at] is not None for each in bounds)]


def parted(facts: Facts, request: Request, other: str) -> tuple[str, list[str], list[int]]:
    """R15: return the branch of the request's queue, the path of the other queue up to its branch, and the resources
    that count between the two branches."""
    mine, theirs = branches(facts, request.work.queue, other)
    way = [name for name in facts.tree.path[other] if theirs in facts.tree.path[name]]
    return mine, way, stated(facts, [mine, *way], request.asks) or [at for at, asks in enumerate(request.asks) if asks]


def comes_before(facts: Facts, left: Work, right: Work) -> bool:
    """Return whether `left` comes before `right` in the order of their queue (R6)."""
    fifo = facts.queues[left.queue].order is QueueOrder.FIFO
    keys = [(0 if fifo else -work.job.priority, work.job.submitted_s, work.job.id) for work in (left, right)]
    return keys[0] < keys[1]


def has_right(facts: Facts, usage: Usage, request: Request, victim: Work, loss: Amounts) -> bool:
    """R15: return whether the request may preempt the victim, which loses `loss`, if the queues have the charges
    `usage`."""
    work, queue = request.work, facts.queues[request.work.queue]
    rule = queue.preemption
    if victim.queue == work.queue:
        lower = victim.job.priority < work.job.priority
        later = victim.job.priority == work.job.priority and victim.job.submitted_s > work.job.submitted_s
        newer = rule.within is WithinQueue.LOWER_OR_NEWER and later
        is_allowed = request.kind is Kind.JOB and rule.within is not WithinQueue.NEVER and (lower or newer)
        return is_allowed and comes_before(facts, work, victim)
    mine, way, counting = parted(facts, request, victim.queue)
    if any(is_within(facts, usage, name, facts.zero, counting) for name in way):
        return False
    is_due = is_within(facts, usage, mine, request.asks, counting)
    priorities = victim.job.priority, work.job.priority
    if order_of(facts, facts.queues[mine].parent) is QueueOrder.FILL:
        priorities = seen(facts, victim, way[-1]), seen(facts, work, mine)
    lower, equal = priorities[0] < priorities[1], priorities[0] == priorities[1]
    if (
        rule.reclaim is ReclaimWithinCohort.ANY
        or (rule.reclaim is not ReclaimWithinCohort.NEVER and lower)
        or (rule.reclaim is ReclaimWithinCohort.LOWER_OR_EQUAL and equal)
    ):
        if is_due:
            return True
        if rule.down_to is ReclaimFloor.FAIR_SHARE and request.kind is Kind.JOB:
            return is_poorer(facts, usage, request, mine, way[-1], loss)
    by_shares = {rule.down_to, facts.queues[victim.queue].preemption.down_to}
    if not rule.borrowing or request.kind is not Kind.JOB or is_due or ReclaimFloor.FAIR_SHARE in by_shares:
        return False
    return lower and (rule.borrowing_threshold is None or victim.job.priority <= rule.borrowing_threshold)


def is_poorer(facts: Facts, usage: Usage, request: Request, mine: str, theirs: str, loss: Amounts) -> bool:
    """R15, fair-share: return whether the preemptor's share with the job, doubled for each time that the job was
    preempted, is below the victim's before the loss, and (`final-share`) at most the victim's after it."""
    rank, amount = share(facts, usage, mine, request.asks)
    poor: Share = (rank, amount * 2**request.work.preempted)
    is_final = facts.queues[request.work.queue].preemption.strategy is Strategy.FINAL_SHARE
    is_below, ours, other = poor < share(facts, usage, theirs, facts.zero), facts.queues[mine], facts.queues[theirs]
    if order_of(facts, ours.parent) is QueueOrder.TIERED and ours.priority != other.priority:
        is_below = ours.priority > other.priority
    return is_below and (not is_final or poor <= share(facts, usage, theirs, times(loss, -1)))


def returns(facts: Facts, after: Usage, request: Request, victims: Sequence[Work]) -> list[Work]:
    """R20 (a): return the victims that could preempt the preemptor afterwards. `after`: the charges after the
    preemption."""
    if not request.work.job.preemptible:
        return []
    return [
        victim
        for victim in victims
        if victim.job.preempts and has_right(facts, after, Request(Kind.JOB, victim), request.work, request.asks)
    ]


def falls_below(
    facts: Facts, had: Usage, before: Usage, after: Usage, request: Request, victims: Sequence[Work]
) -> bool:
    """R20 (b): return whether a preemptor beyond its queue's guarantee takes another queue below its guarantee of all
    resources that this queue loses, and a queue in its subtree may reclaim. `had`, `before`, `after`: the charges with
    the victims, without the victims, and with the preemptor in their place."""
    for victim in victims:
        if victim.queue == request.work.queue:
            continue
        mine, way, counting = parted(facts, request, victim.queue)
        for name in () if is_within(facts, before, mine, request.asks, counting) else way:
            by_right, has, most = facts.tree.guaranteed[name], used(facts, after, name), used(facts, had, name)
            lost = [at for at in facts.tree.counting[facts.queues[name].parent] if has[at] < most[at]]
            is_short = bool(lost) and all(has[at] < (by_right[at] or 0) for at in lost)
            below = [facts.queues[each].preemption for each in facts.queues if name in facts.tree.path[each]]
            if is_short and any(each.reclaim is not ReclaimWithinCohort.NEVER for each in below):
                return True
    return False


def richer(facts: Facts, usage: Usage, left: str, right: str) -> bool:
    """R19: return whether the queue `left` is richer than `right`, by shares where their paths part."""
    if left == right:
        return False
    one, other = branches(facts, left, right)
    return share(facts, usage, one, facts.zero) > share(facts, usage, other, facts.zero)
