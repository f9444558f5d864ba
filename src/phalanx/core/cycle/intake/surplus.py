"""The second pass of a cycle: place the *surplus* (rule R10). The surplus of a job is its pods above its minimum. Only
jobs that start in this cycle get surplus pods here.

`core.cycle.steps` calls `place` for a priority as soon as no request with this priority or a higher one is left to try.
Each pod is given to the queue with the smallest share, and in this queue to the first job in the queue's order.

Two kinds of jobs get all of their pods in the first pass, and none in the second pass. The first kind are gangs with
groups or a topology request, because the surplus and the minimum must be in one domain. The second kind are jobs whose
size is fixed when they start."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from phalanx.core.cycle.reserve import Reserving
from phalanx.core.cycle.state import CycleState
from phalanx.core.order.next_job import Tournament
from phalanx.core.quota import flavor_assignment, shares
from phalanx.core.quota import ledger as quota
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import GangSize, Placement
from phalanx.model.plan import Action, Start
from phalanx.model.queue import QueueOrder
from phalanx.state.classes import Gang
from phalanx.state.cluster import JobRecord, minimum_gang
from phalanx.state.pending.request_class import Candidate, Request
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Charge, gang_cost

Actions: TypeAlias = list[Start] | list[Action]


@dataclass(slots=True)
class Growing:
    """A job that starts in this cycle and may get pods above its minimum. `actions`, `at`: a list of the cycle's
    actions, and the index of the action that starts the job."""

    record: JobRecord
    branch: Branch
    actions: Actions
    at: int

    @property
    def start(self) -> Start:
        start = self.actions[self.at]
        # The index `at` stays valid, because the cycle only removes later actions.
        assert isinstance(start, Start)
        return start

    @property
    def priority(self) -> int:
        return self.record.job.priority

    @property
    def is_in_turn(self) -> bool:
        return self.record.job.size is GangSize.IN_TURN


def first_pass_gang(state: CycleState, request: Request, offer: FlavorAssignment) -> Gang:
    """Return the part of the offer's gang that is placed in the first pass. Precondition: the gang can start with fewer
    pods than it requests."""
    if takes_all_at_once(state.cluster.jobs[request.job]):
        return flavor_assignment.capped_gang(state.cluster, state.ledger, offer)
    return minimum_gang(state.cluster, offer.gang)


def takes_all_at_once(record: JobRecord) -> bool:
    """Return whether the job's pods above the minimum are placed together with the minimum. Also return True for a job
    without a minimum, because it would otherwise start without pods."""
    if record.gang.tree is not None or record.job.size is GangSize.FIXED_AT_START:
        return True
    return not any(role.minimum for role in record.job.roles)


class Surplus:
    """The pods above the minimums of jobs that start in one cycle. `closed`: strict queue -> its first request, if the
    first request cannot start. `growing`: the jobs that may still get pods."""

    def __init__(self, state: CycleState, closed: Mapping[str, Candidate], growing: dict[str, Growing]) -> None:
        self.state, self.closed, self.growing = state, closed, growing

    def note(self, actions: Actions, at: int) -> None:
        """Add the job that `actions[at]` starts to `growing`, if the job may get more pods. Ignore other actions."""
        if not isinstance(start := actions[at], Start) or not start.placements:
            return
        if self.state.cluster.jobs[start.job].job.size is GangSize.IN_STEPS:
            return
        record = self.state.cluster.jobs[start.job]
        if not record.gang.rigid and not takes_all_at_once(record):
            branch = self.state.cluster.tree.branches[record.queue]
            self.growing[start.job] = Growing(record, branch, actions, at % len(actions))

    def priorities(self, *, in_turn: bool) -> list[int]:
        """Return the distinct priorities of the jobs that may still get pods, the highest first. `in_turn`: whether to
        include jobs with `GangSize.IN_TURN`."""
        return sorted({each.priority for each in self.growing.values() if in_turn or not each.is_in_turn}, reverse=True)

    def place(self, priorities: Collection[int], reserving: Reserving) -> None:
        """Place surplus pods for the jobs that have one of these priorities, as far as quota and nodes allow."""
        left = {job: each for job, each in self.growing.items() if each.priority in priorities}
        for job in left:
            del self.growing[job]
        left = {job: each for job, each in left.items() if not self.is_behind_head(each)}
        while left:
            job = self.poorest(self.state.cluster.tree.root, list(left.values())).record.job.id
            if not self.grow(left[job], reserving, alone=len({each.branch.name for each in left.values()}) == 1):
                del left[job]

    def grow_in_turn(self, contest: Tournament, head: Candidate, reserving: Reserving) -> bool:
        """Place the next pod of a job with `GangSize.IN_TURN`, if the pod comes before the head of the tournament.
        Return False if no such pod comes before the head."""
        due = [each for each in self.growing.values() if each.is_in_turn and self.comes_before(each, contest, head)]
        if not due:
            return False
        best = self.poorest(self.state.cluster.tree.root, due)
        if self.is_behind_head(best) or not self.grow(best, reserving, alone=False):
            # the pod could not be placed; the job may get more pods in later cycles
            del self.growing[best.record.job.id]
        return True

    def comes_before(self, growing: Growing, contest: Tournament, head: Candidate) -> bool:
        """Return whether the job's next pod comes before the request `head`, by the order of the lowest queue in the
        tree that contains both."""
        theirs = contest.at.branch
        above = next(each for each in growing.branch.path if each in theirs.path)
        mine = rank(growing, above.order)[:2]
        other = (
            0.0 if above.order is QueueOrder.FIFO else -float(head.request_class.key.priority),
            head.entry.arrival_s,
        )
        side = theirs.path.index(above) - 1
        cursor = contest.cursor_by_queue.get(theirs.path[side].name) if side >= 0 else None
        if above.order not in (QueueOrder.FILL, QueueOrder.FAIR) or cursor is None or growing.branch is above:
            return mine <= other
        child = growing.branch.path[growing.branch.path.index(above) - 1]
        first = int(above.order is QueueOrder.FAIR)  # FAIR order ignores the first element, `borrows`
        return self.standing(above, child, growing)[first:2] <= contest.standing(cursor)[: 2 - first]

    def is_behind_head(self, growing: Growing) -> bool:
        """Return whether the job must not grow because the first request of a strict queue waits (rule R14)."""
        for branch in growing.branch.path if self.closed else ():
            if branch.name in self.closed:
                request_class, _ = self.closed[branch.name]
                if branch.order is not QueueOrder.PRIORITY or request_class.key.priority >= growing.record.job.priority:
                    return True
        return False

    def poorest(self, branch: Branch, growing: list[Growing]) -> Growing:
        """Return the job that gets the next pod. Walk down the queue tree, and choose the queue with the lowest share
        at each level."""
        below: dict[str, list[Growing]] = {}
        for each in growing:
            path = [other.name for other in each.branch.path]
            at = path.index(branch.name)
            below.setdefault(path[at - 1] if at else "", []).append(each)
        own = below.pop("", [])
        best = [(branch.children[name], self.poorest(branch.children[name], each)) for name, each in below.items()]
        if own:
            best.append((branch, min(own, key=lambda each: rank(each, branch.order))))
        return best[0][1] if len(best) == 1 else min(best, key=lambda each: self.standing(branch, *each))[1]

    def standing(self, parent: Branch, child: Branch, growing: Growing) -> tuple[object, ...]:
        """Return the sort key of a child queue among the children of `parent`. The child with the lowest key gets the
        next pod. For the parent's own jobs, `child` is the parent itself."""
        ledger, cost = self.state.ledger, self.charge(growing, self.next_role(growing), 1).cost
        if parent.order is QueueOrder.FILL:
            own = child is parent
            priority = growing.record.job.priority
            seen = priority if own else shares.seen_priority(growing.branch, child, priority)
            used = ledger.account(parent).own if own else ledger.account(child).total
            return -seen, shares.fill(child, used, ledger.tree.pool, own=own), rank(growing, parent.order)
        if child is parent:
            share = shares.own_share(parent, ledger.account(parent).own, ledger.tree.pool, cost)
            borrows = any(key in parent.quota.contested for key, _ in cost)
        else:
            share = ledger.share(child, cost)
            borrows = bool(parent.quota.contested) and not quota.within_guarantee(
                ledger, child, parent.quota.contested, cost
            )
        if parent.order is QueueOrder.TIERED:
            priority = 0 if child is parent or child.queue is None else child.queue.priority
            return share > shares.NOTHING, -priority, share, rank(growing, parent.order)
        return borrows, share, rank(growing, parent.order)

    def next_role(self, growing: Growing) -> int:
        """Return the first role with fewer placed pods than its count; the last role if all roles are complete."""
        placed = self.placed(growing)
        roles = growing.record.job.roles
        return next((at for at, role in enumerate(roles) if placed[at] < role.count), len(roles) - 1)

    def placed(self, growing: Growing) -> list[int]:
        """Return the number of placed pods of each role."""
        placed = [0] * len(growing.record.job.roles)
        for placement in growing.start.placements:
            placed[placement.role] += 1
        return placed

    def charge(self, growing: Growing, role: int, pods: int) -> Charge:
        """Return the charge to the job's queue for `pods` more pods of the role."""
        job, gang = growing.record.job, growing.record.gang
        counts = [pods if at == role else 0 for at in range(len(gang.roles))]
        cost = gang_cost(gang, counts, growing.start.flavors, growing.branch.rules.flavors)
        return Charge(growing.branch.name, job.user, job.group, cost, 0, job.id, job.preemptible)

    def grow(self, growing: Growing, reserving: Reserving, *, alone: bool) -> bool:
        """Place the next pod of the job, and return whether a pod was placed. `alone`: whether no other queue competes
        for the capacity; if so, place as many pods as fit at once."""
        placed = self.placed(growing)
        for at, role in enumerate(growing.record.job.roles):
            missing = role.count - placed[at]
            for most in {missing if alone else min(1, missing): None, min(1, missing): None}:
                pods = self.affordable(growing, at, most)
                if pods and self.add(growing, at, pods, placed[at], reserving):
                    return True
        return False

    def affordable(self, growing: Growing, role: int, most: int) -> int:
        """Return the number of pods of the role, at most `most`, that quota allows."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            charge = self.charge(growing, role, middle)
            if quota.shortfall(self.state.ledger, growing.branch, charge):
                high = middle - 1
            else:
                low = middle
        return low

    def add(self, growing: Growing, role: int, pods: int, first: int, reserving: Reserving) -> bool:
        """Place up to `pods` pods of the role, with ordinals from `first` on. Return whether a pod was placed."""
        cluster, start, job = self.state.cluster, growing.start, growing.record.job
        asked = replace(job.roles[role], count=pods, minimum=1, group="", closeness=None)
        gang = cluster.interned.gang((asked,))
        if start.flavors:
            gang = cluster.with_flavors(gang, (start.flavors[role],))
        outcome = reserving.place(Request(job.id), gang)
        if not isinstance(outcome, list) or not outcome:
            return False
        self.state.draft.settle()
        reserving.granted(Request(job.id), gang, tuple(outcome))
        more = [Placement(role, first + at, each.node, each.devices) for at, each in enumerate(outcome)]
        growing.actions[growing.at] = start._replace(placements=(*start.placements, *more))
        charge = self.charge(growing, role, len(more))
        self.state.charge(charge, job)
        self.state.placed.append((growing.record.gang, job.id, more))
        return True


def rank(growing: Growing, order: QueueOrder) -> tuple[float, float, str]:
    """Return the job's sort key in its queue (rule R6): priority, except in a FIFO queue; then submission time, then
    name."""
    job = growing.record.job
    first = 0.0 if order is QueueOrder.FIFO else -job.priority
    return first, job.submitted_s, job.id
