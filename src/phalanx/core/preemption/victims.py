"""Find victims so that a given number of further pods of one demand fit. (A *demand* has the requests and the node
constraints of equal pods.) The computation uses columns: arrays with one entry for each candidate or node.

A *candidate* is what can be evicted at once: a whole gang, or one pod above a gang's minimum. The columns list the pods
of all candidates, with one entry for each candidate and node. A *package* is a set of candidates whose eviction frees
capacity for at least one more pod on a node. There are two kinds. First, each single candidate that frees enough alone
is a package. Second, each node has a package of several candidates. To find it, the candidates on the node are sorted
in victim order; the package is the shortest run from the beginning of this order that frees enough. Both kinds of
packages are found for all nodes at once, with sums over the columns (prefix sums per node, as
in `docs/decisions/0007-preemption.md`). The cheapest package is taken first. Packages are compared in this order:

1. the lowest tier, then the lowest priority, of the package's most important candidate, which is the last of the
   package in victim order (kube-scheduler's PickOneNodeForPreemption has the same criterion). The tiers are: pods above
   minimums, gangs of other queues, gangs of the preemptor's own queue,
2. the smallest number of candidates per pod that fits after the eviction (pods beyond the needed number do not count),
3. the least work that is lost (run time times the amount of the scarce resource),
4. the smallest amount that is freed but not used.

If the policy compares fairness before cost, and a tier has candidates of several queues, the next package is always
taken from the queue that has the highest share at that moment. Candidates of this queue also come first in the victim
order of a node. The number of pods that a package frees capacity for is checked again before each eviction, because an
earlier package may have been on the same node. The set of victims that is found in this way may have victims that are
not needed, and is not always the best. So the caller restores candidates that are not needed, and then compares the set
with other small sets (`core.preemption.victim_sets`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.state.classes import Demand
from phalanx.state.running import RunningPods

PASSES = 64
FIRST = 16  # the positions of the cheapest packages, up to this many, are stored in `next_best`

Ints: TypeAlias = NDArray[np.int64]


class CandidatePods(NamedTuple):
    """Pods of a candidate that have the same demand and are on the same node (at `position` in the draft). `pods`: the
    number of pods. `devices`: the named devices that the pod holds; only set for a single pod."""

    position: int
    demand: Demand
    pods: int
    devices: tuple[str, ...] = ()


class Evictions(Protocol):
    """The two operations that a search has for its candidates: evict a job or a pod, and undo the eviction."""

    def evict(self, candidate: int) -> bool:
        """Evict the candidate if the policy allows it, and free its capacity on the draft. Return whether it was
        evicted."""

    def restore(self, candidate: int) -> None:
        """Undo the eviction of the candidate."""


class CandidateTable:
    """All candidates of a search, with the amounts that each holds on each node of the draft.

    Columns by candidate:

    `job`, `tier`, `priority`: the number of the candidate's job, its tier (lower tiers are evicted first) and its
    priority.
    `ran_s`, `work_s`: the seconds since the start of the candidate's job, and since the job's last checkpoint.
    `group`: the number of the queue of the candidate's job. If the policy compares fairness first, the shares of the
    queues decide which queue loses a job.
    `weight`: 1 for a gang, less for a pod above a minimum; the number of candidates in a package is the sum of their
    weights. `gone`: True if the candidate is already evicted, or if it must not be tried again.

    Columns by entry: `entry` (the number of the entry in the table of running pods), `candidate`, `position`, `demand`
    (the number of the demand), `pods` (the number of pods). Entries on nodes outside the draft are left out.
    `position_of`: row of a node in the table -> its position in the draft; -1 for a node outside the draft."""

    def __init__(
        self, draft: Draft, residents: RunningPods, now_s: float, *, entry: Ints, candidate: Ints, pods: Ints, job: Ints
    ) -> None:
        """Make the table of the candidates. The parameters are columns. `entry`: the number of each entry in the table
        of running pods (`residents`). `candidate`: the candidate of each entry. `pods`: the number of pods of each
        entry. `job`: the job number of each candidate."""
        self.draft, self.running_pods = draft, residents
        self.position_of = np.full(draft.columns.capacity, -1, np.int64)
        self.position_of[draft.rows] = np.arange(len(draft))
        position = self.position_of[residents.entry("row")[entry]]
        laid_out = position >= 0
        self.entry, self.candidate, self.pods = entry[laid_out], candidate[laid_out], pods[laid_out]
        self.position, self.job = position[laid_out], job
        self.demand = residents.entry("demand")[self.entry]
        self.priority = residents.of_jobs("priority")[job]
        self.ran_s = residents.of_jobs("started_s")[job]
        np.subtract(now_s, self.ran_s, out=self.ran_s)
        self.group = residents.of_jobs("queue")[job]
        self.work_s = lost_s(self.ran_s, residents.of_jobs("checkpoint_s"), job)
        self.tier = np.zeros(len(job), np.int64)
        self.scarce = ""  # the resource that was missing on most nodes at the first computation
        self.next_best: list[int] = []  # the positions of the cheapest packages at the first computation
        self.weight = np.ones(len(job), np.float64)
        self.gone = np.zeros(len(job), np.bool_)
        # entry of the table of running pods -> the number of its pods that were evicted as single candidates
        self.given: dict[int, int] = {}
        self.named: dict[int, Callable[[], list[CandidatePods]]] = {}  # candidate with named devices -> its holdings
        self._holdings: dict[int, list[CandidatePods]] = {}
        self._held: dict[str, Ints] = {}
        self._by_unit = np.argsort(self.candidate, kind="stable").data
        self._starts = np.concatenate(([0], np.bincount(self.candidate, minlength=len(job)).cumsum())).data
        # memoryviews of the columns, because reading one value from a memoryview returns a plain Python number
        self._views = self.position.data, self.demand.data, self.pods.data

    def entries_of(self, candidate: int) -> memoryview[int]:
        """Return the entries of the candidate."""
        return self._by_unit[self._starts[candidate] : self._starts[candidate + 1]]

    def units_on(self, position: int) -> list[int]:
        """Return the candidates that have pods on the node at the position."""
        return list(dict.fromkeys(self.candidate[self.position == position].tolist()))

    def holdings(self, candidate: int) -> list[CandidatePods]:
        """Return the pods that the candidate still has, with their positions. The list has one item for each entry; if
        the pods must be listed one by one (see `named`), it has one item for each pod."""
        if (named := self.named.get(candidate)) is not None:
            return named()
        known = self._holdings.get(candidate)
        if known is None:
            demands, (position, demand, pods) = self.running_pods.demands, self._views
            known = [CandidatePods(position[at], demands[demand[at]], pods[at]) for at in self.entries_of(candidate)]
            self._holdings[candidate] = known
        if self.given and self.weight[candidate] == 1:
            less = [self.given.get(entry, 0) for entry in self.entry[self.entries_of(candidate)].tolist()]
            return [each._replace(pods=each.pods - given) for each, given in zip(known, less, strict=True)]
        return known

    def amounts(self, resource: str) -> Ints:
        """Return for each entry how much of the resource its pods hold. Pods of a gang that were already evicted as
        single candidates are not counted for the gang."""
        held = self._held.get(resource)
        if held is None:
            held = self._held[resource] = self.running_pods.amounts(resource)[self.demand] * self.pods
        if not self.given:
            return held
        given = np.zeros(len(self.running_pods.entry("pods")), np.int64)
        given[list(self.given)] = list(self.given.values())
        less = np.where(self.weight[self.candidate] == 1, given[self.entry], 0)
        left: Ints = held - self.running_pods.amounts(resource)[self.demand] * less
        return left

    def costs(self, resource: str) -> NDArray[np.float64]:
        """Return for each entry how much of the resource its queue is charged for the pods of the entry."""
        cost: NDArray[np.float64] = self.running_pods.costs(resource)[self.demand] * self.pods
        return cost

    def leave(self, candidate: int) -> None:
        """Free the capacity of the candidate on the draft."""
        for position, demand, pods, devices in self.holdings(candidate):
            if devices:
                self.draft.vacate(position, demand, devices)
            else:
                self.draft.put(position, demand, -pods)

    def come_back(self, candidate: int) -> None:
        """Add the pods of the candidate to the draft again, because the candidate is restored."""
        for position, demand, pods, devices in self.holdings(candidate):
            if devices:
                self.draft.occupy(position, demand, devices)
            else:
                self.draft.put(position, demand, pods)

    def could_stay(self, candidates: Sequence[int]) -> list[int]:
        """Return those of the evicted `candidates` that could possibly be restored, in the given order. A candidate is
        left out if one of its nodes no longer has enough free capacity for its pods there."""
        if self.given or self.named:
            return list(candidates)
        looked_at = np.zeros(len(self.job), np.bool_)
        looked_at[candidates] = True
        at = looked_at[self.candidate].nonzero()[0]
        fits, position = np.ones(len(at), np.bool_), self.position[at]
        for resource, free in self.draft.free.items():
            held = self.amounts(resource)[at]
            fits &= (held == 0) | (free[position] >= held)
        looked_at[self.candidate[at[~fits]]] = False
        return [candidate for candidate in candidates if looked_at[candidate]]

    def can_stay(self, candidate: int) -> bool:
        """Return whether the draft still has the capacity for all pods of the candidate."""
        views = self.draft.views
        held: dict[tuple[int, str], int] = {}
        for position, demand, pods, _ in self.holdings(candidate):
            for resource, amount in demand.asks:
                held[position, resource] = held.get((position, resource), 0) + amount * pods
        return all(views[resource][position] >= amount for (position, resource), amount in held.items())


def lost_s(ran_s: NDArray[np.float64], checkpoint_s: NDArray[np.float64], job: Ints) -> NDArray[np.float64]:
    """Return for each candidate the seconds of work that it would lose: the time since its last checkpoint or, without
    checkpoints, since its start. `ran_s`: the time since the start of each candidate. `checkpoint_s`: the interval
    between the checkpoints of each job; 0 if it has none."""
    if not checkpoint_s.any():
        return ran_s
    every_s, since_s = checkpoint_s[job], ran_s.copy()
    since_s[every_s > 0] %= every_s[every_s > 0]
    return since_s


class VictimPackages:
    """The packages for one demand, stored in columns. They are computed from the free amounts at the time when the
    object is created.

    `alone`: the candidates that free enough alone; each is a package. Packages of several candidates are called runs:
    run i has the candidates `candidates[start[i]:stop[i]]`, whose eviction frees capacity for `gain[i]` pods on one
    node. `order`: the numbers of the packages, the cheapest first. Numbers below `len(alone)` are single candidates,
    and the other numbers are runs."""

    def __init__(self, field: CandidateTable, demand: Demand, need: int, rank: Ints | None) -> None:
        """Find and rank the packages. For each position, first compute the number of pods that fit without evictions
        (`_base`), and the amounts that are missing for one more pod (`_lacks`). `rank`: the rank of each group (queue)
        in the order of eviction; None if shares do not matter."""
        self.field, self.demand, self.need, self._rank_of = field, demand, need, rank
        free = self._free = field.draft.free
        self._base = matching.pods_held(free, demand.asks, np.arange(len(field.draft)))
        lacks = {resource: ask - (free[resource] - self._base * ask) for resource, ask in demand.asks}
        nodes = {resource: int(np.count_nonzero(each > 0)) for resource, each in lacks.items()}
        self._lacks = {resource: each for resource, each in lacks.items() if nodes[resource]}
        self.scarce = max(nodes, key=lambda resource: nodes[resource])  # the resource that is missing on most nodes
        allowed = field.draft.allowed(demand.where)
        live = ~field.gone[field.candidate]
        if allowed is not None:
            live &= allowed[field.position]
        at = live.nonzero()[0]
        self._alone(at)
        self._runs(self._in_order(at))
        self._rank()

    def _alone(self, at: Ints) -> None:
        """Find the packages that have one candidate. `at`: the entries to examine."""
        field = self.field
        for resource, lacks in self._lacks.items():
            at = at[field.amounts(resource)[at] >= lacks[field.position[at]]]
        amounts = {resource: field.amounts(resource)[at] for resource in self.demand.amounts}
        count = len(field.job)
        gain = np.bincount(field.candidate[at], self._gain(field.position[at], amounts), count).astype(np.int64)
        self.alone: Ints = gain.nonzero()[0]
        self.alone_gain = gain[self.alone]
        held = np.bincount(field.candidate, field.amounts(self.scarce), count)
        self._lost = held * field.work_s * field.weight
        self.alone_waste = self._waste(held[self.alone], self.alone_gain)

    def _gain(self, position: Ints, freed: Mapping[str, Ints]) -> Ints:
        """Return for each of the positions how many further pods fit after the amounts `freed` are released there."""
        holds = np.full(len(position), np.iinfo(np.int64).max, np.int64)
        for resource, ask in self.demand.asks:
            np.minimum(holds, (self._free[resource][position] + freed[resource]) // ask, out=holds)
        holds -= self._base[position]
        return holds

    def _waste(self, freed: NDArray[Any], gain: Ints) -> NDArray[np.float64]:
        """Return for each package the amount of the scarce resource that is freed but not needed, divided by the
        request of one pod."""
        waste: NDArray[np.float64] = freed / self.demand.amounts[self.scarce] - np.minimum(gain, self.need)
        return waste

    def _in_order(self, at: Ints) -> Ints:
        """Return the entries of `at` whose eviction helps: they hold a resource of which their node has too little for
        one more pod. The entries are sorted by node, and then in victim order: by tier, rank of the queue, priority,
        the fraction of the missing amount that they free (largest first), and the work that is lost (least first)."""
        field, position = self.field, self.field.position[at]
        part = np.zeros(len(at), np.float64)
        for resource, lacks in self._lacks.items():
            gap, held = lacks[position], field.amounts(resource)[at]
            useful = np.where(gap > 0, np.minimum(1.0, held / np.maximum(gap, 1)), 0.0)
            np.maximum(part, useful, out=part)
        helps = part > 0
        at, part = at[helps], part[helps]
        candidate = field.candidate[at]
        turn = field.tier[candidate]
        if self._rank_of is not None:
            turn = turn * len(self._rank_of) + self._rank_of[field.group[candidate]]
        at = at[np.lexsort((field.work_s[candidate], -part, field.priority[candidate], turn))]
        # Sort by position, and keep the order within each position. Both are combined in one number, because sorting
        # such numbers is faster than a stable sort.
        in_turn = np.sort(field.position[at] * len(at) + np.arange(len(at)))
        ordered: Ints = at[in_turn % max(1, len(at))]
        return ordered

    def _runs(self, at: Ints) -> None:
        """Find the package of several candidates on each node: the shortest run, of at least two candidates, that frees
        capacity for one more pod. `at`: the entries in victim order."""
        field, position = self.field, self.field.position[at]
        self.candidates = field.candidate[at]
        first = np.ones(len(at), np.bool_)
        first[1:] = position[1:] != position[:-1]
        start = first.nonzero()[0][np.cumsum(first) - 1]
        freed: dict[str, Ints] = {}
        for resource in self.demand.amounts:
            held = field.amounts(resource)[at]
            run = np.cumsum(held)
            freed[resource] = run - (run - held)[start]
        enough = np.ones(len(at), np.bool_)
        for resource, lacks in self._lacks.items():
            enough &= freed[resource] >= lacks[position]
        before = np.zeros(len(at), np.bool_)
        before[1:] = enough[:-1] & ~first[1:]
        stop = (enough & ~before).nonzero()[0]
        stop = stop[stop > start[stop]]
        self.start, self.stop = start[stop], stop + 1
        self.where = position[stop]
        freed = {resource: amounts[stop] for resource, amounts in freed.items()}
        self.gain = self._gain(position[stop], freed)
        self.waste = self._waste(freed[self.scarce], self.gain)

    def _rank(self) -> None:
        field = self.field
        last = self.candidates[self.stop - 1]
        lasts = np.concatenate((self.alone, last))
        gain = np.concatenate((self.alone_gain, self.gain))
        used = np.minimum(gain, self.need)
        cost, lost = self._together(field.weight) / used, self._together(self._lost) / used
        waste = np.concatenate((self.alone_waste, self.waste))
        self.gains, self.lasts = gain, lasts
        self.order = np.lexsort((waste, lost, cost, field.priority[lasts], field.tier[lasts]))

    def _together(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each package, add up the values of its candidates, and return the sums."""
        total = np.cumsum(values[self.candidates])
        runs = total[self.stop - 1] - total[self.start] + values[self.candidates[self.start]]
        return np.concatenate((values[self.alone], runs))

    def first_positions(self) -> list[int]:
        """Return the positions of the cheapest packages. Packages with pods on several nodes are left out."""
        runs = [package - len(self.alone) for package in self.order[:FIRST].tolist()]
        found = [
            self.field.position[self.field.entries_of(int(self.alone[run]))].tolist()
            if run < 0
            else [int(self.where[run])]
            for run in runs
        ]
        return list(dict.fromkeys(each[0] for each in found if len(each) == 1))

    def members(self, package: int) -> list[int]:
        """Return the candidates of the package, each once, in victim order."""
        if package < len(self.alone):
            return [int(self.alone[package])]
        run = package - len(self.alone)
        return list(dict.fromkeys(self.candidates[self.start[run] : self.stop[run]].tolist()))


def collect_victims(
    field: CandidateTable, demand: Demand, need: int, claims: Evictions, share: Callable[[int], Any] | None
) -> tuple[list[int], int]:
    """Evict candidates so that `need` more pods of the demand fit on the draft. Return the evicted candidates, and the
    number of pods that still do not fit. `share`: a function that returns the share of a queue. Candidates of the queue
    with the highest share are evicted first. None if shares do not matter."""
    chosen: list[int] = []
    if not len(field.candidate) or field.draft.asked(demand) is None:
        return chosen, need
    for _ in range(PASSES):
        packages = VictimPackages(field, demand, need, in_turns(field, share))
        if not field.scarce:
            field.scarce, field.next_best = packages.scarce, packages.first_positions()
        tried, gone = len(chosen), np.count_nonzero(field.gone)
        touched: set[int] = set()
        for package in in_victim_order(packages.order, field.tier[packages.lasts], field.group[packages.lasts], share):
            if len(chosen) > tried and need < packages.gains[package] and need < packages.need:
                # fewer pods are needed now than when the packages were ranked, so rank the packages again
                break
            members = packages.members(package)
            positions = {each.position for candidate in members for each in field.holdings(candidate)}
            if touched.isdisjoint(positions) or package < len(packages.alone):
                need -= gained(field, demand, members, positions, claims, chosen)
                touched |= positions
            if need <= 0:
                return chosen, 0
        if np.count_nonzero(field.gone) == gone:
            break  # nothing has changed, so another pass would find the same packages
    return chosen, need


def in_turns(field: CandidateTable, share: Callable[[int], Any] | None) -> Ints | None:
    """Return the rank of each group (queue) in the order of eviction; the group with the highest share has the lowest
    rank. Return None if shares do not matter, or if there is only one group."""
    groups = [] if share is None else np.bincount(field.group).nonzero()[0].tolist()
    if share is None or len(groups) < 2:
        return None
    shares = {group: Descending(share(group)) for group in groups}
    rank = np.zeros(max(groups) + 1, np.int64)
    for nth, group in enumerate(sorted(groups, key=lambda group: shares[group])):
        rank[group] = nth
    return rank


def gained(
    field: CandidateTable,
    demand: Demand,
    members: Sequence[int],
    positions: set[int],
    claims: Evictions,
    chosen: list[int],
) -> int:
    """Evict the candidates `members` if the policy allows the eviction of all of them, and if the eviction frees
    capacity for further pods at `positions`. Return the number of these further pods; 0 if no candidate was evicted."""
    if any(field.gone[candidate] for candidate in members):
        return 0
    before = room_on(field, demand, positions)
    for at, candidate in enumerate(members):
        if not claims.evict(candidate):
            for earlier in reversed(members[:at]):
                claims.restore(earlier)
            field.gone[candidate] = True  # the policy does not allow this eviction: do not try it again
            return 0
    gain = room_on(field, demand, positions) - before
    if gain > 0:
        chosen += members
        return gain
    for candidate in reversed(members):
        claims.restore(candidate)
        # do not try a single pod again
        field.gone[candidate] |= field.weight[candidate] < 1
    return 0


def room_on(field: CandidateTable, demand: Demand, positions: set[int]) -> int:
    """Return the number of pods of the demand that fit at `positions` with the present free amounts."""
    allowed, views = field.draft.allowed(demand.where), field.draft.views
    asks = [(views[resource], ask) for resource, ask in demand.asks]
    total = 0
    for position in positions:
        if allowed is None or allowed[position]:
            total += max(0, min([view[position] // ask for view, ask in asks]))
    return total


def in_victim_order(order: Ints, tiers: Ints, groups: Ints, share: Callable[[int], Any] | None) -> Iterator[int]:
    """Yield the package numbers of `order`, tier by tier. Within a tier, the next package always belongs to the group
    (queue) that has the highest share at that moment."""
    if share is None or not len(order):
        yield from order.tolist()
        return
    for tier in sorted(dict.fromkeys(tiers[order].tolist())):
        mine = order[tiers[order] == tier]
        lines = {group: iter(mine[groups[mine] == group].tolist()) for group in dict.fromkeys(groups[mine].tolist())}
        yield from by_queue_share(lines, share)


def by_queue_share(lines: dict[int, Iterator[int]], share: Callable[[int], Any]) -> Iterator[int]:
    """Yield the items of all groups. The next item always comes from the group that has the highest share at that
    moment; of groups with equal shares, from the one that is first in `lines`. `lines`: group -> its items."""
    heap = [(Descending(share(group)), at, group) for at, group in enumerate(lines)]
    heapify(heap)
    while heap:
        old, at, group = heap[0]
        now = Descending(share(group))
        if now != old:
            heapreplace(heap, (now, at, group))
        elif (package := next(lines[group], None)) is None:
            heappop(heap)
        else:
            yield package


class Descending:
    """Wraps a value so that it sorts in reverse order: the largest value comes first."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)
