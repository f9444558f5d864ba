"""Decide which jobs a job may preempt, by the settings of both queues and by the queue tree.

There are four rules. Reasons use these names; Kueue's names are in brackets:

- *within* (InClusterQueue): victims in the same queue, of lower priority, or of equal priority and submitted later.
- *reclaim* (InCohortReclamation): victims in other queues. The two queues have a lowest common ancestor in the tree.
  The two queues are below different children of this ancestor; the child above a queue is called the queue's *side*. If
  the job starts, the preemptor's side must stay within its guarantee. The victim's queue, and each queue above it up to
  the victim's side, must use more than its guarantee.
- *fair-share* (InCohortFairSharing): victims in other queues, if the preemptor's side would exceed its guarantee with
  the job. The dominant share that the preemptor's side would then have must be below the share of the victim's side
  before the eviction (Kueue's LessThanInitialShare). The queue's `Strategy` may instead require that the share of the
  preemptor's side is at most the share of the victim's side after the eviction (LessThanOrEqualToFinalShare). If the
  preemptor was itself preempted k times before (k > 0), the share of its side is multiplied by 2^k. From a side of
  weight 0, such a preemptor may take only what this side uses above its guarantee. So two jobs do not preempt each
  other for ever (docs/decisions/0006-fair-share.md).
- *borrowing* (InCohortReclaimWhileBorrowing): the preemptor's queue borrows, and takes capacity from queues that also
  borrow. Victims have a lower priority than the preemptor. If the queue has a priority threshold, the priority of
  victims must not exceed the threshold. This rule does not apply if one of the two queues has fair sharing, because
  fair sharing would undo the preemption (Kueue forbids this combination, too).

The last three rules compare usage and guarantees. They look only at resources that the job requests and for which at
least one of the two sides has a guarantee. If neither side has a guarantee, all resources that the job requests are
compared. Each eviction lowers the usage of the victim's queue. So the rules are checked again before each further
victim: a queue whose usage has fallen to its guarantee loses no more jobs. A gang is always preempted as a whole, so
the last gang that a queue loses may bring the usage below the guarantee.

A running job cannot be preempted if its user opted out of preemption, if its queue is not reclaimable, if it has run
for less than its queue's `min_run_s`, if it is already terminating, or if its queue's preemption budget for this hour
is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.quota import shares as share
from phalanx.core.quota.shares import DominantShare
from phalanx.model.job import Job
from phalanx.model.queue import (
    HOUR_S,
    NO_PREEMPTION,
    QueueOrder,
    QueuePreemption,
    ReclaimFloor,
    ReclaimWithinCohort,
    Strategy,
    VictimOrder,
    WithinQueue,
)
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.queues.branch import Branch, QueueRelation
from phalanx.state.queues.quota import Charge, Cost, Key
from phalanx.state.running import clamped_priority

NOBODY = -(2**62) - 1
ANYBODY = 2**62
HIGHEST_HURDLE = 64

Mask: TypeAlias = NDArray[np.bool_]


class PreemptionRule(StrEnum):
    """The rules by which a job may be preempted."""

    WITHIN = "within"
    RECLAIM = "reclaim"
    FAIR_SHARE = "fair-share"
    BORROWING = "borrowing"
    CONSOLIDATION = "consolidation"


# under these rules, the preemptor's queue may exceed its guarantee
GOES_BEYOND = (PreemptionRule.FAIR_SHARE, PreemptionRule.BORROWING)
KUEUE = {
    PreemptionRule.WITHIN: "InClusterQueue",
    PreemptionRule.RECLAIM: "InCohortReclamation",
    PreemptionRule.FAIR_SHARE: "InCohortFairSharing",
    PreemptionRule.BORROWING: "InCohortReclaimWhileBorrowing",
}


class PreemptionPolicy:
    """The preemption policy for one job (the preemptor). `cost`: the amounts that the job would be charged. The search
    removes the charges of already chosen victims from the ledger, and the policy uses this ledger. `preempts`: True if
    victims are stopped; False if they are moved to other nodes. `again`: the number of earlier preemptions of the
    preemptor that the cluster state does not count yet."""

    preempts = True
    # True if the share of the victim's side, after the eviction, must be at least the share of the preemptor's side
    final = False

    def __init__(self, context: PreemptionContext, job: Job, cost: Cost, again: int = 0) -> None:
        self.cluster, self.ledger, self.running_pods = context.cluster, context.ledger, context.running_pods
        self._scene = context
        self.job, self.cost, self.now_s = job, cost, context.now_s
        self.queue = self.cluster.queue_of(job)
        self.branch = self.cluster.tree.branch(self.queue)
        self.preemption = queue_preemption(self.cluster, self.queue)
        self.fence = next(
            (one.name for one in self.branch.path if queue_preemption(self.cluster, one.name).fence), None
        )
        # True if victims are taken from the queue with the highest share first.
        self.fairest = self.preemption.victims is VictimOrder.FAIREST
        self.spent = dict(context.spent)  # queue -> how many of its jobs this cycle and this search preempt as a whole
        others = self.preemption.reclaim is not ReclaimWithinCohort.NEVER or self.preemption.borrowing
        # True if the results of the policy depend on the usage of queues
        self.counts = others or not self.branch.unbounded
        self._amounts = dict(cost)
        self._asked = [key for key, amount in cost if amount]
        # The share of the preemptor's side is multiplied by this factor. It doubles with each time that the job was
        # preempted before, so that two jobs do not preempt each other for ever (docs/decisions/0006-fair-share.md).
        self._hurdle = 2.0 ** min(self.cluster.jobs[job.id].preempted + again, HIGHEST_HURDLE)
        # branch above the preemptor -> the share that it would have after the job's start, times `_hurdle`
        self._with_it: dict[str, DominantShare] = {}
        self._seen = -1  # the version of the ledger to which `_with_it` belongs
        # number of a queue -> its path from the root's child down to the queue
        self._ways: dict[int, Sequence[Branch]] = {}

    # Jobs that could be preempted if no other job were evicted before

    def may_be_asked(self) -> tuple[Mask, NDArray[np.int64]]:
        """Return two arrays, indexed by job number: the mask of the jobs that the preemptor could be allowed to
        preempt, and the tier of each job. Jobs of other queues have the tier 0; jobs of the preemptor's own queue have
        the tier 1."""
        own = self.running_pods.queue_number(self.queue)
        return self._may_be_asked(self._highest_of_queues(), own), (self.running_pods.of_jobs("queue") == own).astype(
            np.int64
        )

    def has_candidates(self) -> bool:
        """Return whether any running job could be preempted now."""
        residents = self.running_pods
        if self._goes_by_share_alone() and not self._anybody_is_richer():
            return False
        highest, own = self._highest_of_queues(), residents.queue_number(self.queue)
        placed = [residents.number_of[job] for job in self._scene.placed if job in residents.number_of]
        numbers = np.concatenate((residents.movable(), np.array(placed, np.int64)))
        return bool(highest) and bool(self._may_be_asked(highest, own)[numbers].any())

    def _goes_by_share_alone(self) -> bool:
        """Return whether only the fair-share rule can apply. That is the case if the settings allow no other rule, and
        if neither the preemptor's queue nor any queue above it has a guarantee."""
        wants = self.preemption
        others = wants.within is not WithinQueue.NEVER or wants.borrowing
        return not others and not any(branch.quota.guaranteed for branch in self.branch.path)

    def _anybody_is_richer(self) -> bool:
        """Return whether a sibling of the preemptor's queue, or of a queue above it, has a higher share than the
        preemptor's side would have after the job's start."""
        richest = richest_children(self._scene)
        for ours in self.branch.path:
            above = ours.parent
            if above is None or len(above.children) < 2:
                continue
            if above.order is QueueOrder.TIERED or self._with(ours) < richest[above.name]:
                return True
        return False

    def _highest_of_queues(self) -> dict[int, int]:
        """Return a mapping: number of a queue -> the highest priority of jobs that can be preempted in this queue now.
        Queues without preemptible jobs are left out."""
        found = {}
        for number, name in enumerate(self.running_pods.queues):
            if (highest := self._highest(name)) > NOBODY and self._budget(name) > 0:
                found[number] = highest
        return found

    def _may_be_asked(self, highest: Mapping[int, int], own: int) -> Mask:
        """Return the mask, indexed by job number, of the jobs that could be preempted now. `highest`: the result
        of `_highest_of_queues`. `own`: the number of the preemptor's queue."""
        residents = self.running_pods
        bound = np.full(len(residents.queues), NOBODY, np.int64)
        latest = np.full(len(residents.queues), -np.inf)
        for number, priority in highest.items():
            bound[number] = priority
            latest[number] = latest_start_s(queue_preemption(self.cluster, residents.queues[number]), self.now_s)
        queue, priorities = residents.of_jobs("queue"), residents.of_jobs("priority")
        below: Mask = priorities <= bound[queue]
        if self.preemption.within is WithinQueue.LOWER_OR_NEWER:
            newer = residents.of_jobs("submitted_s") > self.job.submitted_s
            below |= (queue == own) & (priorities == clamped_priority(self.job.priority)) & newer
        if self.branch.order is QueueOrder.FIFO:
            below &= (queue != own) | self._submitted_later()
        below &= residents.of_jobs("preemptible").astype(np.bool_)
        below &= residents.of_jobs("started_s") <= latest[queue]
        return below

    def _submitted_later(self) -> Mask:
        """Return the mask, indexed by job number, of the jobs that come after the preemptor in FIFO order (by
        submission, then by name). A job never preempts a job that comes before it in the order of their queue (rule
        R20)."""
        residents, at_s = self.running_pods, self.job.submitted_s
        submitted_s = residents.of_jobs("submitted_s")
        later: Mask = submitted_s > at_s
        for number in (submitted_s == at_s).nonzero()[0].tolist():
            later[number] = residents.ids[number] > self.job.id
        return later

    def _highest(self, queue: str) -> int:
        """Return the highest priority of jobs in `queue` that could be preempted now."""
        if queue == self.queue:
            return (
                clamped_priority(self.job.priority) - 1 if self.preemption.within is not WithinQueue.NEVER else NOBODY
            )
        rules = self._rules(queue)
        return max(self._bound(rule, queue) for rule in rules) if rules else NOBODY

    def _bound(self, rule: PreemptionRule, queue: str) -> int:
        """Return the highest priority that a victim in `queue` may have under the rule."""
        tie, wants = self._tie(queue), self.preemption
        if rule is PreemptionRule.BORROWING:
            threshold = wants.borrowing_threshold
            return min(self._lower(tie), ANYBODY if threshold is None else clamped_priority(threshold))
        if wants.reclaim is ReclaimWithinCohort.ANY:
            return ANYBODY
        return self._lower(tie, or_equal=wants.reclaim is ReclaimWithinCohort.LOWER_OR_EQUAL)

    def _lower(self, tie: QueueRelation, *, or_equal: bool = False) -> int:
        """Return the highest priority with which a job of the other queue still ranks below the preemptor. `or_equal`:
        True if a job of equal priority also ranks below it.

        In `FILL` order, a job is compared by a sum: its own priority and the priorities of the queues from its own
        queue up to its side. If one of these queues is fenced, all jobs in and below it count with the priority of the
        fenced queue instead. So the function computes this sum for the preemptor, and then subtracts the priorities of
        the queues from the other side down to the other queue."""
        seen = self.job.priority
        if tie.ours is not None and tie.ours.parent is not None and tie.ours.parent.order is QueueOrder.FILL:
            seen = share.seen_priority(self.branch, tie.ours, seen)
            for branch in reversed(tie.way):
                offset = 0 if branch.queue is None else branch.queue.priority
                if branch.queue is not None and branch.queue.fenced:
                    return ANYBODY if offset < seen + or_equal else NOBODY
                seen -= offset
        return clamped_priority(seen) - (not or_equal)

    def _budget(self, queue: str) -> int:
        """Return how many more jobs of the queue may be preempted in this hour, by its hourly budget."""
        return preemption_budget(self.cluster, queue, self.now_s, self.spent)

    def outranks(self, record: JobRecord, charge: Charge) -> bool:
        """Return whether this policy would allow the preemption of the job of `record`, supposing that this job were
        running. `charge`: the charge of that job, which the ledger already includes."""
        job, queue, priority = record.job, record.queue, clamped_priority(record.job.priority)
        if not job.preemptible:
            return False
        if queue != self.queue:
            return self._strongest(queue, priority, lambda: charge) is not None
        if self.branch.order is QueueOrder.FIFO and (job.submitted_s, job.id) < (self.job.submitted_s, self.job.id):
            return False
        newer = self.preemption.within is WithinQueue.LOWER_OR_NEWER and job.submitted_s > self.job.submitted_s
        return priority <= self._highest(queue) or (newer and priority == clamped_priority(self.job.priority))

    def is_outranked(self, victim: JobRecord, minimum: Cost, charge: Charge) -> bool:
        """Return whether the victim, after its eviction, could in turn preempt the preemptor (rule R20). Precondition:
        in the ledger, the victims are released and the preemptor is charged. `minimum`: the amounts that would be
        charged for the victim's minimum. `charge`: the charge of the preemptor."""
        strategy = queue_preemption(self.cluster, victim.queue).strategy
        waiting = (each(self._scene, victim.job, minimum, again=1) for each in in_turn(strategy))
        record = self.cluster.jobs[self.job.id]
        return any(each.outranks(record, charge) for each in waiting)

    def may_lose_to(self, queue: str) -> bool:
        """Return whether the settings of `queue` allow its jobs to preempt jobs of other queues. Then they may also be
        able to preempt jobs of the preemptor's queue. Return False if `queue` is the preemptor's queue."""
        theirs = queue_preemption(self.cluster, queue)
        return queue != self.queue and (theirs.reclaim is not ReclaimWithinCohort.NEVER or theirs.borrowing)

    # The rule that allows the eviction of a job now, after the evictions so far

    def rule_for(self, number: int, *, whole: bool, loss: Callable[[], Charge | None]) -> PreemptionRule | None:
        """Return the rule that allows the eviction now; None if no rule does. `number`: the number of the job. `whole`:
        True for the whole job, False for one pod. `loss`: a function that returns the amounts charged for the evicted
        job or pod."""
        residents = self.running_pods
        queue = residents.queues[residents.of_jobs("queue")[number]]
        if whole and self._budget(queue) <= 0:
            return None
        if queue == self.queue:
            return PreemptionRule.WITHIN
        priority = int(residents.of_jobs("priority")[number])
        return self._strongest(queue, priority, loss)

    def _strongest(self, queue: str, priority: int, loss: Callable[[], Charge | None]) -> PreemptionRule | None:
        """Return the first of the rules (in the order of `_rules`) that allows the preemption of a job of `queue` with
        this priority; None if no rule does. `loss`: a function that returns the amounts charged for the victim."""
        rule = next((rule for rule in self._rules(queue) if priority <= self._bound(rule, queue)), None)
        if rule is PreemptionRule.FAIR_SHARE and self.final and not self._stays_richer(self._tie(queue), loss):
            return None
        return rule

    def _stays_richer(self, tie: QueueRelation, loss: Callable[[], Charge | None]) -> bool:
        """Return whether the share of the victim's side would be at least the share of the preemptor's side, if the
        victim were evicted and the preemptor started."""
        if tie.ours is None or tie.theirs is None or (lost := loss()) is None:
            return True
        ours, mark = self._with(tie.ours), self.ledger.mark()
        self.ledger.charge(lost, -1)
        theirs = self.ledger.share(tie.theirs)
        self.ledger.rewind(mark)
        return not theirs < ours

    def takes_too_much(self, queue: str, lost: Mapping[str, Mapping[Key, int]]) -> bool:
        """Return whether jobs on the victim's side could later preempt the preemptor, and so take the capacity back
        (rule R20). Three conditions must be met for this. First, the victim's queue, or a queue above it on the
        victim's side, would fall below its guarantee in every resource that it loses. Second, the settings of this
        queue, or of a queue below it in the tree, allow the rule *reclaim*. Third, the preemptor's side has no
        guarantee, or would exceed its guarantee. `lost`: queue -> the charges of its victims."""
        tie = self._tie(queue)
        if tie.ours is not None and tie.ours.quota.guaranteed and self._stays_within(tie.ours, self._keys(tie)):
            return False
        for branch in tie.way:
            if branch.quota.guaranteed and branch.parent is not None and self._may_reclaim(branch):
                total, costs = (
                    self.ledger.account(branch).total,
                    (lost[each] for each in lost if self.is_under(each, branch.name)),
                )
                keys = {key for cost in costs for key, amount in cost.items() if amount} & branch.parent.quota.contested
                if keys and all(total.get(key, 0) < branch.quota.guaranteed.get(key, 0) for key in keys):
                    return True
        return False

    def _may_reclaim(self, branch: Branch) -> bool:
        """Return whether the settings of the queue, or of a queue below it, allow the rule *reclaim*."""
        wants = queue_preemption(self.cluster, branch.name)
        return wants.reclaim is not ReclaimWithinCohort.NEVER or any(map(self._may_reclaim, branch.children.values()))

    def _rules(self, queue: str) -> Sequence[PreemptionRule]:
        """Return the rules that at present allow the preemption of jobs of `queue`, the strongest first."""
        wants = self.preemption
        if wants.reclaim is ReclaimWithinCohort.NEVER and not wants.borrowing:
            return ()
        theirs = queue_preemption(self.cluster, queue)
        if not theirs.reclaimable or (self.fence is not None and not self.is_under(queue, self.fence)):
            return ()
        tie = self._tie(queue)
        keys, found = self._keys(tie) if tie.named else self._asked, []
        if tie.theirs is None or not keys:
            return ()
        if wants.reclaim is not ReclaimWithinCohort.NEVER and tie.ours is not None:
            if tie.ours.quota.guaranteed and self._stays_within(tie.ours, keys):
                found.append(PreemptionRule.RECLAIM)
            elif wants.down_to is ReclaimFloor.FAIR_SHARE and self._would_be_poorer(tie.ours, tie.theirs):
                found.append(PreemptionRule.FAIR_SHARE)
        borrows = tie.ours is None or not self._stays_within(tie.ours, keys)
        if wants.borrowing and borrows and ReclaimFloor.FAIR_SHARE not in (wants.down_to, theirs.down_to):
            found.append(PreemptionRule.BORROWING)
        if not found or not all(self._beyond(branch, keys) for branch in tie.way):
            return ()
        return found

    def _would_be_poorer(self, ours: Branch, theirs: Branch) -> bool:
        """Return whether the preemptor's side (`ours`) would have a lower share than the victim's side (`theirs`) after
        the preemptor is charged. In `TIERED` order, the side with the higher queue priority counts as the side with the
        lower share."""
        above = ours.parent
        if above is not None and above.order is QueueOrder.TIERED and ours.queue is not None:
            mine, other = ours.queue.priority, theirs.queue.priority if theirs.queue is not None else 0
            if mine != other:
                return mine > other
        return self._with(ours) < self.ledger.share(theirs)

    def _with(self, ours: Branch) -> DominantShare:
        """Return the share that the preemptor's side would have after the job's start, doubled for each time that the
        job was preempted before."""
        if self._seen != self.ledger.version:
            self._seen = self.ledger.version
            self._with_it.clear()
        known = self._with_it.get(ours.name)
        if known is None:
            known = self._with_it[ours.name] = share.scaled_share(self.ledger.share(ours, self.cost), self._hurdle)
        return known

    def _tie(self, queue: str) -> QueueRelation:
        """Return how the preemptor's queue and `queue` are related in the queue tree."""
        return self.branch.relation_to(self.cluster.tree.branches[queue])

    def _keys(self, tie: QueueRelation) -> list[Key]:
        """Return the (flavor, resource) pairs for which the usage and the guarantees of the two sides are compared."""
        return [key for key in self._asked if key in tie.named] or self._asked

    def _beyond(self, branch: Branch, keys: list[Key]) -> bool:
        """Return whether the usage of the branch is above its guarantee for at least one of the keys."""
        total, guaranteed = self.ledger.account(branch).total, branch.quota.guaranteed
        return any(total.get(key, 0) > guaranteed.get(key, 0) for key in keys)

    def _stays_within(self, branch: Branch, keys: list[Key]) -> bool:
        """Return whether the usage of the branch, including the job, stays within its guarantee for all keys."""
        total, guaranteed = self.ledger.account(branch).total, branch.quota.guaranteed
        return all(total.get(key, 0) + self._amounts[key] <= guaranteed.get(key, 0) for key in keys)

    def is_under(self, queue: str, branch: str) -> bool:
        """Return whether `queue` is the queue of `branch`, or a queue below it."""
        return any(each.name == branch for each in self.cluster.tree.branch(queue).path)

    def share_of(self, number: int) -> tuple[DominantShare, ...]:
        """Return a sort key of the queue: the queue with the largest key loses a job next. The key is a tuple of
        shares. `number`: the number of the queue in the table of running pods. It has the share of each queue on the
        path from the root's child down to this queue. If the queue has children, the share of the jobs directly in this
        queue follows. If two queues are compared, the shares of their common ancestors are equal. So the shares of
        their two sides decide, as in Kueue's tournament of cohorts."""
        way = self._ways.get(number)
        if way is None:
            branch = self.cluster.tree.branch(self.running_pods.queues[number])
            way = self._ways[number] = branch.path[-2::-1]
        shares = [self.ledger.share(each) for each in way]
        if way and way[-1].children:
            shares.append(share.own_share(way[-1], self.ledger.account(way[-1]).own, self.cluster.tree.pool))
        return tuple(shares)


class FinalShare(PreemptionPolicy):
    """The policy for Kueue's LessThanOrEqualToFinalShare. After a preemption by the rule *fair-share*, the share of the
    victim's side must not be below the share of the preemptor's side."""

    final = True


def in_turn(strategy: Strategy) -> Sequence[type[PreemptionPolicy]]:
    """Return the policies that the strategy tries, in the order in which they are tried."""
    match strategy:
        case Strategy.INITIAL_SHARE:
            return (PreemptionPolicy,)
        case Strategy.FINAL_SHARE:
            return (FinalShare,)
        case Strategy.FINAL_THEN_INITIAL:
            return (FinalShare, PreemptionPolicy)


class GuaranteeOnlyPolicy(PreemptionPolicy):
    """The policy for a job that grows. The job may preempt jobs of other queues, as long as its own queue stays within
    its guarantee."""

    def __init__(self, context: PreemptionContext, job: Job, cost: Cost) -> None:
        super().__init__(context, job, cost)
        self.preemption = replace(
            self.preemption, within=WithinQueue.NEVER, down_to=ReclaimFloor.GUARANTEE, borrowing=False
        )

    def due(self) -> bool:
        """Return whether at least one queue has a guarantee and stays within it if the new pod is added (rule R22). The
        job's queue and the queues above it, without the root, are checked."""
        for branch in self.branch.path[:-1]:
            keys = [key for key in self._asked if key in branch.quota.guaranteed]
            if keys and self._stays_within(branch, keys):
                return True
        return False


def richest_children(context: PreemptionContext) -> Mapping[str, DominantShare]:
    """Return a mapping: branch -> the highest share among its children. A child is ignored if neither the child itself
    nor any queue below it has running pods."""
    version, richest = context.ledger.version, context.richest.get(context.ledger.version)
    if richest is None:
        tree, richest = context.cluster.tree, dict.fromkeys(context.cluster.tree.branches, share.NOTHING)
        sides = dict.fromkeys(side for queue in context.running_pods.queues for side in tree.branch(queue).path)
        for side in sides:
            if side.parent is not None:
                richest[side.parent.name] = max(richest[side.parent.name], context.ledger.share(side))
        context.richest[version] = richest
    return richest


def latest_start_s(theirs: QueuePreemption, now_s: float) -> float:
    """Return the latest start time (seconds since the epoch) at which a job has already run for its queue's minimum run
    time. `theirs`: the preemption settings of the queue."""
    return now_s - theirs.min_run_s if theirs.min_run_s > 0 else inf


def next_chance_s(context: PreemptionContext) -> float | None:
    """Return the next time (seconds since the epoch) at which a job may become preemptible although nothing else
    happens; None if there is no such time. Either the minimum run time of a job ends, or a past preemption becomes an
    hour old and no longer counts for the hourly budget."""
    cluster, residents, now_s = context.cluster, context.running_pods, context.now_s
    theirs = [queue_preemption(cluster, name) for name in residents.queues]
    live = np.fromiter(residents.number_of.values(), np.int64, len(residents.number_of))
    timed = np.array([bool(each.min_run_s) or each.hourly_budget is not None for each in theirs], np.bool_)
    least_s = np.array([each.min_run_s for each in theirs], np.float64)
    queue = residents.of_jobs("queue")[live]
    ends = residents.of_jobs("started_s")[live] + least_s[queue]
    times: list[float] = ends[timed[queue] & (ends > now_s)].tolist()
    for name, each in zip(residents.queues, theirs, strict=True):
        if each.hourly_budget is not None and preemption_budget(cluster, name, now_s, context.spent) <= 0:
            recent = cluster.preempted_at.get(name, ())
            times += [at_s + HOUR_S for at_s in recent if at_s > now_s - HOUR_S][:1]
    return min(times, default=None)


def preemption_budget(cluster: Cluster, queue: str, now_s: float, spent: Mapping[str, int]) -> int:
    """Return how many more jobs of the queue may be preempted in this hour, according to its hourly budget. `spent`:
    queue -> the number of its jobs that this cycle has preempted."""
    allowed = queue_preemption(cluster, queue).hourly_budget
    if allowed is None:
        return ANYBODY
    recent = cluster.preempted_at.get(queue, ())
    return allowed - spent.get(queue, 0) - sum(at_s > now_s - HOUR_S for at_s in recent)


def queue_preemption(cluster: Cluster, queue: str) -> QueuePreemption:
    """Return the preemption settings of the queue."""
    known = cluster.queues.get(queue)
    return NO_PREEMPTION if known is None else known.preemption
