"""Find candidates whose eviction frees capacity for a number of pods of one demand, by operations on columns (arrays
with one entry for each candidate or node). A *demand* has the requests and the node constraints that equal pods share.

A *candidate* is the unit of an eviction: a whole gang, or one pod above a gang's minimum. The columns list the pods of
all candidates, with one entry for each candidate and node. For a demand without enough capacity there are two kinds of
*packages*. First, a single candidate is a package if its eviction alone frees capacity for one more pod on some node.
Second, each node has a package of several candidates: the shortest run of candidates on the node, in victim order, that
frees capacity for one more pod.
Sums over the columns find both kinds of packages for all nodes at once (prefix sums per node, as in
`docs/decisions/0007-preemption.md`). The cheapest package is taken first. Packages are compared in this order:

1. the lowest tier, then the lowest priority, of the package's most important candidate, which is the last of the
   package in victim order (kube-scheduler's PickOneNodeForPreemption has the same criterion). The tiers are: pods above
   minimums, gangs of other queues, gangs of the preemptor's own queue,
2. the smallest number of candidates per pod that fits after the eviction (pods beyond the needed number do not count),
3. the least work that is lost (run time times the amount of the scarce resource),
4. the smallest amount that is freed but not used.

If the policy compares fairness before cost, and one tier has candidates of several queues, the next package is always
taken from the queue with the highest share after the evictions so far. Within one node, too, candidates of the queue
with the highest share are evicted first. If an earlier package was on the same node, the gain of a package is computed
again from the amounts that are free after the earlier evictions. The resulting set of victims is neither minimal nor
always the best. So the caller restores candidates that are not needed, and then compares the result with other small
sets (`core.preemption.victim_sets`)."""

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
FIRST = 16  # the positions of this many cheapest packages are stored in `next_best`

Ints: TypeAlias = NDArray[np.int64]


class CandidatePods(NamedTuple):
    """Pods of one demand on the node at one position of the draft. `pods`: the number of pods. `devices`: the named
    devices that the pod holds; only set for a single pod."""

    position: int
    demand: Demand
    pods: int
    devices: tuple[str, ...] = ()


class Evictions(Protocol):
    """The two operations of a search on its candidates: evict a job or a pod, and undo the eviction."""

    def evict(self, candidate: int) -> bool:
        """Evict the candidate if the policy allows the eviction; its capacity is then free on the draft. Return whether
        the candidate was evicted."""

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
    `weight`: how much the candidate counts when the candidates of a package are counted: 1 for a gang, less for a pod
    above a minimum. `gone`: True if the candidate is evicted, or if its eviction is not permitted.

    Columns by entry: `entry` (the number of the entry in the table of running pods), `candidate`, `position`, `demand`
    (the number of the demand), `pods` (the number of pods). Entries on nodes outside the draft are left out.
    `position_of`: row of a node in the table -> its position in the draft; -1 for a node outside the draft."""

    def __init__(
        self, draft: Draft, residents: RunningPods, now_s: float, *, entry: Ints, candidate: Ints, pods: Ints, job: Ints
    ) -> None:
        """Make the table of the candidates. `entry`, `candidate`, `pods`: for each entry, its number in the table of
        running pods (`residents`), its candidate, and how many pods it has. `job`: for each candidate, the number of
        its job."""
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
        self.scarce = ""  # the resource that was missing on most nodes when packages were first computed
        self.next_best: list[int] = []  # the positions of the first packages, best first
        self.weight = np.ones(len(job), np.float64)
        self.gone = np.zeros(len(job), np.bool_)
        # Entry of the table of running pods -> how many of its pods were evicted as single candidates.
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
        """Return the candidates that have pods on the node."""
        return list(dict.fromkeys(self.candidate[self.position == position].tolist()))

    def holdings(self, candidate: int) -> list[CandidatePods]:
        """Return the candidate's pods with their positions, as one item for each entry, or for each pod if the pods
        have named devices. Pods that are already evicted are left out."""
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
        """Return for each entry the amount of the resource that its pods hold. In the entries of a gang, pods that were
        already evicted as single candidates are not counted."""
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
        """Return for each entry the amount of the resource that its queue is charged for the pods of the entry."""
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
        """Take the capacity of the candidate from the draft again, because the candidate is restored."""
        for position, demand, pods, devices in self.holdings(candidate):
            if devices:
                self.draft.occupy(position, demand, devices)
            else:
                self.draft.put(position, demand, pods)

    def could_stay(self, candidates: Sequence[int]) -> list[int]:
        """Return the evicted candidates that could possibly be restored, in the given order. A candidate is left out if
        its pods on some node no longer fit on this node, even if no other pods are restored."""
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
    """Return for each candidate the time since its start or its last checkpoint, in seconds. `ran_s`: for each
    candidate, the time since its start. `checkpoint_s`: for each job, the interval of its checkpoints; 0 if it has
    none."""
    if not checkpoint_s.any():
        return ran_s
    every_s, since_s = checkpoint_s[job], ran_s.copy()
    since_s[every_s > 0] %= every_s[every_s > 0]
    return since_s


class VictimPackages:
    """The packages for one demand, in columns. They are computed from the amounts that are free when the object is
    created.

    Run i consists of the candidates `candidates[start[i]:stop[i]]`, whose eviction frees capacity for `gain[i]` pods at
    one position. `alone`: the single candidates whose eviction frees capacity for a pod. `order`: the packages,
    cheapest first. Numbers below `len(alone)` are single candidates; the other numbers are runs."""

    def __init__(self, field: CandidateTable, demand: Demand, need: int, rank: Ints | None) -> None:
        """Find and rank the packages. For each position, compute the number of pods that already fit (`_base`), and the
        amounts that are missing for one more pod (`_lacks`). `rank`: the rank of each group in the order of eviction;
        None if all groups are equal."""
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
        """Find the candidates whose eviction alone frees capacity for a pod. `at`: the entries to examine."""
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
        """Return for each position the number of further pods that fit after the amounts `freed` are released."""
        holds = np.full(len(position), np.iinfo(np.int64).max, np.int64)
        for resource, ask in self.demand.asks:
            np.minimum(holds, (self._free[resource][position] + freed[resource]) // ask, out=holds)
        holds -= self._base[position]
        return holds

    def _waste(self, freed: NDArray[Any], gain: Ints) -> NDArray[np.float64]:
        """Return for each package the amount that is freed but not needed, as a multiple of the request of one pod."""
        waste: NDArray[np.float64] = freed / self.demand.amounts[self.scarce] - np.minimum(gain, self.need)
        return waste

    def _in_order(self, at: Ints) -> Ints:
        """Return the entries of `at` that hold some of a resource that is missing for one more pod on their node. The
        entries are sorted by node, and then in victim order: by tier, rank of the queue, priority, freed part of the
        missing amount (largest first), and lost run time (shortest first)."""
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
        # Combine position and order in one number, because sorting single numbers is faster than a stable sort.
        in_turn = np.sort(field.position[at] * len(at) + np.arange(len(at)))
        ordered: Ints = at[in_turn % max(1, len(at))]
        return ordered

    def _runs(self, at: Ints) -> None:
        """Find on each node the shortest run of at least two candidates whose eviction frees capacity for one more pod.
        `at`: the entries in victim order."""
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
        """Return for each package the sum of the values of its candidates."""
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
    number of pods that still do not fit. `share`: a function that returns the share of a group (the candidates of one
    queue). The group with the highest share loses candidates first. If `share` is None, all groups are equal."""
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
                # the number of needed pods is smaller than when the packages were ranked, so rank the packages again
                break
            members = packages.members(package)
            positions = {each.position for candidate in members for each in field.holdings(candidate)}
            if touched.isdisjoint(positions) or package < len(packages.alone):
                need -= gained(field, demand, members, positions, claims, chosen)
                touched |= positions
            if need <= 0:
                return chosen, 0
        if np.count_nonzero(field.gone) == gone:
            break  # no candidate was evicted or excluded, so another pass would find the same packages
    return chosen, need


def in_turns(field: CandidateTable, share: Callable[[int], Any] | None) -> Ints | None:
    """Return for each group its rank in the order of eviction; the group with the highest share has the lowest rank.
    Return None if all groups are equal."""
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
    """Evict the candidates `members`, if the policy allows to evict all of them and if this frees capacity. Return by
    how many pods the number of pods that fit at `positions` grows."""
    if any(field.gone[candidate] for candidate in members):
        return 0
    before = room_on(field, demand, positions)
    for at, candidate in enumerate(members):
        if not claims.evict(candidate):
            for earlier in reversed(members[:at]):
                claims.restore(earlier)
            field.gone[candidate] = True  # the policy does not allow the eviction, so the candidate is not tried again
            return 0
    gain = room_on(field, demand, positions) - before
    if gain > 0:
        chosen += members
        return gain
    for candidate in reversed(members):
        claims.restore(candidate)
        # from now on the capacity of an evicted single pod is not counted as a candidate of its own
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
    with the highest share after the evictions so far."""
    if share is None or not len(order):
        yield from order.tolist()
        return
    for tier in sorted(dict.fromkeys(tiers[order].tolist())):
        mine = order[tiers[order] == tier]
        lines = {group: iter(mine[groups[mine] == group].tolist()) for group in dict.fromkeys(groups[mine].tolist())}
        yield from by_queue_share(lines, share)


def by_queue_share(lines: dict[int, Iterator[int]], share: Callable[[int], Any]) -> Iterator[int]:
    """Yield the items of all groups. Each item belongs to the group that has the highest share when the caller takes
    the item. If groups have equal shares, the group that is listed first in `lines` comes first. `lines`: group -> its
    items."""
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
    """A value that is sorted in reverse order: the largest value comes first."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)
