"""Yield the request classes that may be tried in a cycle, in order. A *request class* has equal requests of one queue.
An *arena* is a part of the queue tree whose request classes are ordered together.

A mask (an array with one Boolean for each request class) selects the classes that may be tried. The
tournament (`core.order.next_job`) takes the classes of each arena in order, one at a time, and skips classes that may
no longer be tried. For at most `FEW` request classes, a loop over the classes replaces the mask.

The order is exactly that of `Tournament.rank`: first the main sort key of the queue's order, then the arrival of the
request, then its kind (`Kind`), and finally its name (`QueuedRequest.tie`). The columns of request
classes (`state.pending.request_class`) store only the main key and the arrival. If two requests are equal in both,
their kinds and names are read from the request objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.cycle.known import find_flavor_classes, forget_mended_failures
from phalanx.core.cycle.reserve import Reserving
from phalanx.core.cycle.state import CycleState
from phalanx.core.order.account_usage import AccountUsage
from phalanx.core.order.multifactor import MultifactorPriority
from phalanx.core.order.next_job import Arena, Draws, Ranked, Tournament
from phalanx.core.placement import capacity
from phalanx.lazy import lazy
from phalanx.model.queue import QueueOrder
from phalanx.state.pending.request_class import Blocker, Candidate, Kind, QueuedRequest, RequestClass

FEW = 64  # for at most this many request classes, a loop is faster than operations on arrays

Numbers = NDArray[np.intp]
Floats = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
# A pair: (arena, its request classes in order). In the pair for slots that replace lost pods, the arena is None.
ArenaDraws: TypeAlias = tuple[Arena | None, Draws]


class Candidates:
    """The candidates of one cycle."""

    def __init__(self, state: CycleState, reserving: Reserving) -> None:
        self.state, self.pending, self.reserving = state, state.pending, reserving
        self.columns, self.branches = state.pending.columns, state.cluster.tree.branches
        # True if there are several arenas. If so, a failed attempt to start a class may change decisions about other
        # queues.
        self.several_arenas = state.cluster.tree.root.split

    def refresh(self) -> None:
        """Begin the cycle: bring the caches of the state up to date. Only this method and `core.cycle.intake` change
        caches in the cluster state. All other results for later cycles are stored in the cycle's `Memory`."""
        cluster, pending = self.state.cluster, self.pending
        tree, peers = cluster.tree, cluster.columns.pod_index
        if peers.changed:
            pending.look_at_pods(peers.changed)
            peers.changed.clear()
        for placement_class in list(pending.placement_classes.composite):
            find_flavor_classes(cluster, placement_class)
        pending.changed = True  # folding the plan of this cycle sets it to False
        capacity.bring_up_to_date(cluster)
        if pending.placement_classes.failed:
            forget_mended_failures(pending.placement_classes)
        if pending.headroom.keys:
            pending.headroom.renew(tree.charged, tree.subjects)
            pending.placement_classes.costs(pending.headroom.keys)  # this call also updates `PlacementClass.cost`
        tree.charged.clear()
        tree.subjects.clear()
        self.state.search_classes = frozenset(self.columns.preempts.nonzero()[0].tolist())
        self.state.left_at_first = tuple(pending.headroom.left)
        self.state.known.begin()
        self.reserving.may_reserve = self.reserving.could_reserve()

    def fill(self, tournament: Tournament) -> None:
        """Fill the tournament with all request classes that may be tried from now on, in order."""
        tournament.by_estimate = self.reserving.by_estimate
        if len(self.pending.request_classes) <= FEW or self.reserving.by_estimate:
            tournament.begin(self.singly(self.pending.request_classes.values(), tournament).items())
        else:
            tournament.begin(self.by_columns(self.tryable_classes(), tournament))

    # Which classes may be tried

    def may_be_tried(self, request_class: RequestClass) -> bool:
        """Return whether the request class may be tried. `tryable_mask` computes the same result for many classes at
        once."""
        state, number = self.state, request_class.number
        if state.known.is_done[number]:
            return False
        if request_class.strict or number in state.search_classes:
            return True
        if not self.several_arenas and self.columns.reported_blocker[number] == Blocker.NONE_REPORTED:
            return True  # with only one arena, a failed attempt changes no other decision
        placement_class, reserving = request_class.placement_class.number, self.reserving
        if not state.known.open[placement_class] and (
            not reserving.may_reserve or placement_class in reserving.unforeseen
        ):
            return False
        return not self.pending.headroom.keys or state.is_within_limits(request_class)

    def any_from(self, priority: int) -> bool:
        """Return whether at least one request class with this priority or a higher one may be tried."""
        numbers = (self.columns.priority[: len(self.columns.request_classes)] >= priority).nonzero()[0]
        within = self.state.within_limits(self.columns.placement_class[numbers], self.columns.row[numbers])
        return bool(self.tryable_mask(numbers, within).any())

    def tryable_mask(self, numbers: Numbers, within: Mask | None = None) -> Mask:
        """Return the mask of the request classes that may be tried. `numbers`: the numbers of the classes to check.
        `within`: the mask of the classes that are within their limits; None if all classes are within their limits."""
        state, placement_class = self.state, self.columns.placement_class[numbers]
        found = np.ones(len(numbers), np.bool_) if within is None else within
        if not self.reserving.may_reserve:
            found = found & state.known.open_mask[placement_class]
        elif self.reserving.unforeseen:
            unforeseen = np.isin(placement_class, list(self.reserving.unforeseen))
            found = found & (state.known.open_mask[placement_class] | ~unforeseen)
        if state.cluster.tree.stricts:
            found |= self.columns.strict[numbers]
        if not self.several_arenas:
            found |= self.columns.reported_blocker[numbers] == Blocker.NONE_REPORTED
        if state.search_classes:
            found |= np.isin(numbers, list(state.search_classes))
        return found & (placement_class >= 0) & ~np.frombuffer(state.known.is_done, np.bool_)[numbers]

    def tryable_classes(self) -> Numbers:
        """Return the numbers of the request classes that may be tried."""
        count = len(self.columns.request_classes)
        within = self.state.within_limits(self.columns.placement_class[:count], self.columns.row[:count])
        return self.tryable_mask(np.arange(count), within).nonzero()[0]

    # The order of request classes

    def singly(self, request_classes: Iterable[RequestClass], tournament: Tournament) -> dict[Arena | None, Draws]:
        """Return a mapping: arena -> its request classes, in order. The rank of each class is computed separately, in a
        loop."""
        found: dict[Arena | None, list[Ranked]] = {}
        for each in request_classes:
            if (first := self.state.first_waiting(each)) is not None:
                key, branch = each.key, self.branches[each.key.queue]
                arena = None if key.kind == Kind.REPLACEMENT else Arena(branch.arena.name, key.terms.account)
                found.setdefault(arena, []).append((tournament.rank(branch, key, first), Candidate(each, first)))
        return {arena: iter(sorted(each)) for arena, each in found.items()}

    def by_columns(self, numbers: Numbers, tournament: Tournament) -> Iterator[ArenaDraws]:
        """Yield (arena, its request classes in order). The classes are ranked by operations on arrays. The arrays only
        describe the first request of each class. If this cycle has already granted the first request of a class, the
        next request counts, so `singly` ranks the class."""
        remaining = self.state.remaining
        begun = self.singly(filter(self.may_be_tried, remaining), tournament)
        for arena, draws in self.of_columns(numbers):
            if (again := begun.get(arena)) is not None:
                others = (each for each in draws if each[1].request_class not in remaining)
                draws = merge(others, again, key=itemgetter(0))
            yield arena, draws

    def of_columns(self, numbers: Numbers) -> Iterator[ArenaDraws]:
        """Yield (arena, its request classes in order). Read only the arrays to compute the order."""
        urgent = self.columns.replaces[numbers]
        if urgent.any():
            some = numbers[urgent]
            yield None, self.in_order(some, -self.columns.priority[some])
            numbers = numbers[~urgent]
        arenas = self.arena_of_row[self.columns.row[numbers]]
        scores = self.scores(numbers, arenas)
        order = np.argsort(arenas, kind="stable")
        numbers, scores, arenas = numbers[order], scores[order], arenas[order]
        cuts = [0, *(np.flatnonzero(np.diff(arenas)) + 1).tolist(), len(numbers)] if len(numbers) else []
        for begin, end in pairwise(cuts):
            yield self.arenas[int(arenas[begin])][0], self.in_order(numbers[begin:end], scores[begin:end])

    @lazy
    def priorities(self) -> MultifactorPriority:
        return MultifactorPriority(self.state.cluster, self.state.policy, self.state.now_s)

    @lazy
    def usage(self) -> AccountUsage:
        return AccountUsage(self.state.cluster, self.state.now_s, self.state.started)

    def priority_of(self, entry: QueuedRequest) -> float:
        """Return the multifactor priority of the request, for queues in MULTIFACTOR order."""
        return self.priorities.of(self.state.cluster.jobs[entry.request.job])

    @lazy
    def arenas(self) -> list[tuple[Arena, QueueOrder]]:
        """Return a list of (arena, order of the jobs in the arena). An arena's number is its index in this list."""
        found = ((self.branches[row.queue].arena, row.account) for row in self.pending.headroom.rows)
        return list(dict.fromkeys((Arena(arena.name, account), arena.order) for arena, account in found))

    @lazy
    def arena_of_row(self) -> Numbers:
        """Return an array: index of a row of the headroom (`state.pending.headroom`) -> number of the arena that has
        the row's queue."""
        numbers = {arena: number for number, (arena, _) in enumerate(self.arenas)}
        whose = (Arena(self.branches[row.queue].arena.name, row.account) for row in self.pending.headroom.rows)
        return np.array([numbers[arena] for arena in whose], np.intp)

    def scores(self, numbers: Numbers, arenas: Numbers) -> Floats:
        """Return the main sort key of each request class. The key depends on the order of the class's arena. The class
        with the lowest key comes first."""
        found = -self.columns.priority[numbers]
        fifo = np.array([order is QueueOrder.FIFO for _, order in self.arenas], np.bool_)
        factors = np.array([order is QueueOrder.MULTIFACTOR for _, order in self.arenas], np.bool_)
        found[fifo[arenas]] = 0.0
        if (by_factors := factors[arenas]).any():
            found[by_factors] = -self.priorities.of_request_classes(numbers[by_factors])
        return found

    def in_order(self, numbers: Numbers, scores: Floats) -> Draws:
        """Yield (rank, candidate) in order. `numbers`: the numbers of the request classes. `scores`: the main sort key
        of each class. If two candidates have equal keys and arrivals, the kind and the name of their first requests
        decide."""
        arrivals = self.columns.arrival_s[numbers]
        order = np.lexsort((arrivals, scores))
        found = zip(scores[order].tolist(), arrivals[order].tolist(), numbers[order].tolist(), strict=True)
        for _, equal in groupby(found, itemgetter(0, 1)):
            yield from sorted([each for ranked in equal if (each := self.ranked(*ranked)) is not None])

    def ranked(self, score: float, arrival_s: float, number: int) -> Ranked | None:
        """Return the rank of the class, and the class with its first waiting request; None if no request of the class
        waits."""
        request_class = self.columns.request_classes[number]
        assert request_class is not None  # only request classes with requests are in the masks
        rank = score, arrival_s, request_class.key.kind, request_class.first.tie
        first = self.state.first_waiting(request_class)
        return None if first is None else (rank, Candidate(request_class, first))
