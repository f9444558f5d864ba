"""The charges of queues (R3), their shares (R7), the requests that quota allows (R9), and the jobs that take part
(R1)."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.model.queue import BorrowingPolicy, Queue, QueueState

from .facts import Facts, Work, plus, times, total
from .tree import ROOT, Amounts

Usage = dict[str, Amounts]  # queue -> the charges for its own jobs, without those of queues below it
FIRM = "not preemptible: "  # prefix of a queue in `Usage`, for the charges of its jobs that are not preemptible
Share = tuple[int, float]


def charges(facts: Facts, *, counts_given_back: bool = True) -> Usage:
    """Return the charges of each queue by R3. `counts_given_back`: False for requests that may not yet use the quota
    that was given back in this cycle (R21)."""
    usage = dict.fromkeys(facts.queues, facts.zero)
    for work in facts.works.values():
        if (pods := work.charged()) and work.queue in usage:
            usage = less(usage, work, -pods)
    if not counts_given_back:
        for queue, amounts in facts.given_back.items():
            usage[queue] = plus(usage[queue], amounts)
    return usage


def less(usage: Usage, work: Work, pods: int) -> Usage:
    """Return the charges without `pods` pods of the job. Jobs that are not preemptible are also charged under
    `FIRM`."""
    names = [work.queue] if work.job.preemptible else [work.queue, FIRM + work.queue]
    nothing = (0,) * len(work.asks)
    return {**usage, **{name: plus(usage.get(name, nothing), work.asks, -pods) for name in names}}


def used(facts: Facts, usage: Usage, queue: str, which: str = "") -> Amounts:
    """Return the usage of the queue and of all queues below it. `which`: FIRM for jobs that are not preemptible."""
    below = (used(facts, usage, child, which) for child in facts.tree.children[queue])
    return total(below, usage.get(which + queue, facts.zero))


def share(facts: Facts, usage: Usage, queue: str, more: Amounts, *, is_own: bool = False) -> Share:
    """Return the dominant share of a queue among its siblings, with `more` (R7). A queue of weight 0 with a share ranks
    behind all other queues. `is_own`: True for the jobs of an inner queue itself. They count as one more child, with
    weight 1 and without a guarantee."""
    tree, parent = facts.tree, queue if is_own else facts.queues[queue].parent
    amounts = plus(usage[queue] if is_own else used(facts, usage, queue), more)
    weight, most = 1.0 if is_own else facts.queues[queue].weight, 0.0
    for at in tree.counting[parent]:
        beyond = amounts[at] - (0 if is_own else tree.guaranteed[queue][at] or 0)
        if beyond > 0:
            most = max(most, beyond / tree.lendable[parent][at] if tree.lendable[parent][at] else float("inf"))
    return (0, most / weight) if weight else (int(most > 0), most)


def part_used(facts: Facts, usage: Usage, queue: str, *, is_own: bool = False) -> float:
    """R7, `fill`: return the largest fraction of its guarantee that the queue uses, over all resources. Without a
    guarantee, the nearest limit on the path counts, else the cluster's capacity. With a guarantee of 0, any usage is a
    fraction of 1."""
    tree, most = facts.tree, 0.0
    for at, amount in enumerate(usage[queue] if is_own else used(facts, usage, queue)):
        limits = [tree.limit[name][at] for name in tree.path[queue]]
        whole = next((limit for limit in limits if limit is not None), facts.capacity[at])
        if not is_own and tree.stated[queue][at] is not None:
            whole = tree.stated[queue][at] or amount
        if amount > 0:
            most = max(most, amount / whole if whole else float("inf"))
    return most


def is_within(facts: Facts, usage: Usage, queue: str, more: Amounts, counting: Sequence[int]) -> bool:
    """Return whether the queue stays within its guarantee of these resources, with `more`."""
    amounts, most = plus(used(facts, usage, queue), more), facts.tree.guaranteed[queue]
    return all(amounts[at] <= (most[at] or 0) for at in counting)


def claim(facts: Facts, usage: Usage, queue: str) -> Amounts:
    """Return `max(kept, own usage + claims of the children)` (R9)."""
    below = (claim(facts, usage, child) for child in facts.tree.children[queue])
    claims = total(below, usage.get(queue, facts.zero))
    kept = facts.tree.keeps.get(queue, facts.zero)
    return tuple(max(amount, own) for amount, own in zip(claims, kept, strict=True))


def allows(facts: Facts, usage: Usage, work: Work, pods: int) -> bool:
    """Return whether quota allows `pods` more pods of the job at every level (R9)."""
    after = less(usage, work, -pods)
    path = facts.tree.path[work.queue]
    if not all(_allows_at(facts, after, usage, work, name) for name in path):
        return False
    kept, claims = total(facts.tree.keeps.values(), facts.zero), claim(facts, after, ROOT)
    most = tuple(has if keeps else new for has, keeps, new in zip(facts.capacity, kept, claims, strict=True))
    return _is_below(work, claims, most, claim(facts, usage, ROOT))


def _is_below(work: Work, claims: Amounts, most: Amounts, before: Amounts) -> bool:
    """Return whether, for the resources that the job requests, the claims are within `most` or do not rise."""
    rows = zip(work.asks, claims, most, before, strict=True)
    return all(not asks or new <= has or new <= old for asks, new, has, old in rows)


def _allows_at(facts: Facts, after: Usage, before: Usage, work: Work, queue: str) -> bool:
    """R9: check limits for usage and for claims. `borrow` may keep a queue within its guarantee."""
    tree, amounts = facts.tree, used(facts, after, queue)
    if any(tree.limit[queue]):
        if not _is_within(work, amounts, tree.limit[queue]):
            return False
        claims, old = claim(facts, after, queue), claim(facts, before, queue)
        most = tuple(new if limit is None else limit for limit, new in zip(tree.limit[queue], claims, strict=True))
        if not _is_below(work, claims, most, old):
            return False
    if borrows(facts.queues[queue], work):
        return True
    if facts.queues[queue].borrow is BorrowingPolicy.PREEMPTIBLE:
        amounts = used(facts, after, queue, FIRM)
    return _is_within(work, amounts, tree.guaranteed[queue])


def _is_within(work: Work, amounts: Amounts, bounds: Sequence[int | None]) -> bool:
    """Return whether the amounts that the job requests are within the bounds."""
    rows = zip(work.asks, amounts, bounds, strict=True)
    return all(not asks or most is None or amount <= most for asks, amount, most in rows)


def borrows(queue: Queue, work: Work) -> bool:
    """Return whether the job may use more than the queue's guarantee (R9)."""
    if queue.borrow is BorrowingPolicy.PREEMPTIBLE:
        return work.job.preemptible
    return queue.borrow is BorrowingPolicy.ALL


def is_eligible(facts: Facts, work: Work) -> bool:
    """R1: return whether a queued job takes part: its queue is open, no condition holds the job back, and its minimum
    is within every limit of an empty cluster."""
    job = work.job
    if job.blocked or work.not_before_s > facts.now_s or (job.begin_s or 0.0) > facts.now_s:
        return False
    if any(facts.queues[name].state is not QueueState.OPEN for name in facts.tree.path[work.queue]):
        return False
    pairs = (zip(node, work.asks, strict=True) for node in facts.nodes.values())
    places = sum(min(has // asks for has, asks in node if asks) for node in pairs)
    nothing = dict.fromkeys(facts.queues, facts.zero)
    return places >= work.minimum and allows(facts, nothing, work, work.minimum)


def all_of(work: Work) -> Amounts:
    """Return the amounts that the queue is charged for the job."""
    return times(work.asks, work.charged())
