"""Yield the request classes that may be tried in a cycle, by arena and in order.

One mask over all request classes shows which of them may start. The tournament then draws the classes of each arena in
order, one at a time, and skips those that may no longer be tried. The classes are sorted in pieces, the best few
hundred first, because most are never tried. With few waiting requests there is one piece and no mask.

The order is exactly that of `core.order.rank`: first the main key of the queue's order, then arrival, then the kind and
tie of the request. Kind and tie are read from the objects if the columns are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.cycle.blocked import find_flavor_classes
from phalanx.core.cycle.reserve import Reserving
from phalanx.core.cycle.state import CycleState
from phalanx.core.order.multifactor import MultifactorPriority
from phalanx.core.order.next_job import Arena, Draws, SortKey, Tournament
from phalanx.core.placement import capacity
from phalanx.lazy import lazy
from phalanx.model.queue import QueueOrder
from phalanx.state.pending.pending import MOVING
from phalanx.state.pending.request_class import Blocker, Kind, QueuedRequest, RequestClass

Numbers = NDArray[np.intp]
Floats = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
ArenaDraws: TypeAlias = tuple[Arena | None, Draws]  # None: replacements

PIECE = 512  # request classes put in order at once
SKIPPED = 8  # after so many skipped request classes in a row, one mask examines all that are left


FIFO, FACTORS = 1, 2
WEIGHED = {QueueOrder.FIFO: FIFO, QueueOrder.MULTIFACTOR: FACTORS}  # orders whose main key is not the priority alone


class Candidates:
    """The candidates of one cycle."""

    def __init__(self, state: CycleState, reserving: Reserving) -> None:
        self.state, self.pending, self.reserving = state, state.pending, reserving
        self.columns, self.branches = state.pending.columns, state.cluster.tree.branches
        self.first_waiting = state.first_waiting

    def refresh(self, search_classes: Iterable[int]) -> None:
        """Update the counts of pods that fit and the headroom of the queues. `search_classes`: the request classes that
        may search for victims."""
        cluster, pending = self.state.cluster, self.pending
        tree, peers = cluster.tree, cluster.columns.pod_index
        if peers.changed:
            pending.look_at_pods(peers.changed)
            peers.changed.clear()
        for number in list(pending.composite):
            find_flavor_classes(cluster, number)
        self.state.has_several_arenas = pending.has_several_arenas(tree)
        pending.changed = True  # until the plan of this cycle is folded
        capacity.bring_up_to_date(cluster, exact=self.state.has_several_arenas)
        pending.headroom.renew(tree.charged, tree.subjects, lambda branch: branch.account)
        tree.charged.clear()
        tree.subjects.clear()
        self.state.begin(search_classes=frozenset(search_classes))
        self.reserving.begin()

    def fill(self, tournament: Tournament) -> None:
        """Add all request classes that may be tried from now on to the tournament, in order."""
        tournament.clear()
        tournament.by_estimate = self.reserving.by_estimate
        begun = self.begun_classes(tournament) if self.state.remaining else {}
        for arena, draws in self.ordered_classes(tournament):
            if again := begun.get(arena):
                others = (each for each in draws if each[1] not in self.state.remaining)
                draws = merge(others, sorted(again), key=itemgetter(0))
            tournament.draw_from(arena, draws)
        tournament.begin()

    def begun_classes(self, tournament: Tournament) -> dict[Arena | None, list[tuple[SortKey, RequestClass]]]:
        """Return, by arena, the request classes with grants of this cycle, each with the rank of its next request."""
        found: dict[Arena | None, list[tuple[SortKey, RequestClass]]] = {}
        for each in self.state.remaining:
            branch, first = self.branches[each.key.queue], self.state.first_waiting(each)
            if first is not None and self.may_be_tried(each):
                arena = None if each.key.kind == Kind.REPLACEMENT else Arena(branch.arena.name, each.key.terms.account)
                arena = arena if each.arena is None else Arena(each.arena)
                found.setdefault(arena, []).append((tournament.rank(branch, each.key, first), each))
        return found

    # Which classes may be tried

    def may_be_tried(self, request_class: RequestClass) -> bool:
        """Return whether the request class may be tried. `tryable_mask` answers the same for many classes."""
        state, number = self.state, request_class.number
        if state.is_done[number]:
            return False
        if request_class.strict or number in state.search_classes:
            return True
        if not state.has_several_arenas and self.columns.reported_blocker[number] == Blocker.NONE_REPORTED:
            return True  # with one arena, a class that is tried too early changes nothing
        placement_class, reserving = request_class.placement_class, self.reserving
        if not state.blocked.open[placement_class] and (
            not reserving.may_reserve or reserving.unforeseen[placement_class]
        ):
            return False
        return not self.pending.headroom.keys or state.is_within_limits(request_class)

    def any_from(self, priority: int) -> bool:
        """Return whether a request class of this priority or a higher one may be tried."""
        if self.state.is_small:
            request_classes: Iterable[RequestClass] = self.pending.request_classes.values()
            return any(
                request_class.key.priority >= priority and self.may_be_tried(request_class)
                for request_class in request_classes
            )
        numbers = (self.columns.priority[: len(self.columns)] >= priority).nonzero()[0]
        within = self.state.within_limits(self.columns.placement_class[numbers], self.columns.row[numbers])
        return bool(self.tryable_mask(numbers, within).any())

    def tryable_mask(self, numbers: Numbers, within: Mask | None = None) -> Mask:
        """Return which of these request classes may be tried. `within`: the mask of classes within their limits; None
        if all were."""
        state, placement_class = self.state, self.columns.placement_class[numbers]
        found = np.ones(len(numbers), np.bool_) if within is None else within
        if not self.reserving.may_reserve:
            found = found & state.blocked.columns()[0][placement_class]
        elif 1 in self.reserving.unforeseen:
            unforeseen = np.frombuffer(self.reserving.unforeseen, np.bool_)
            found = found & (state.blocked.columns()[0][placement_class] | ~unforeseen[placement_class])
        if state.cluster.tree.stricts:
            found |= state.is_strict[self.columns.row[numbers]]
        if not state.has_several_arenas:
            found |= self.columns.reported_blocker[numbers] == Blocker.NONE_REPORTED
        if state.search_classes:
            found |= np.isin(numbers, list(state.search_classes))
        return found & (placement_class >= 0) & ~np.frombuffer(state.is_done, np.bool_)[numbers]

    def tryable_classes(self) -> Numbers:
        """Return the request classes that may be tried, except those that `Pending.heads` keeps in order."""
        count = len(self.columns)
        row = self.columns.row[:count]
        found = self.tryable_mask(np.arange(count), self.state.within_limits(self.columns.placement_class[:count], row))
        if self.pending.heads and not self.reserving.by_estimate:
            headed = [self.is_in_order(each.queue) for each in self.pending.headroom.rows]
            found &= ~np.array(headed, np.bool_)[row]
        return found.nonzero()[0]

    def is_in_order(self, queue: str) -> bool:
        branch = self.branches[queue]
        return branch.strict is not None and branch.arena.order not in MOVING

    # In order

    def ordered_classes(self, tournament: Tournament) -> Iterator[ArenaDraws]:
        """Yield (arena, classes in order) for the request classes that may be tried. The arena None has the
        replacements."""
        pending, by_estimate = self.pending, self.reserving.by_estimate
        if pending.heads and not by_estimate:
            for arena, heads in pending.heads.items():
                yield Arena(arena), iter(heads)
        if self.state.is_small or by_estimate:
            request_classes: Iterable[RequestClass] = (
                pending.request_classes.values() if pending.loose or by_estimate else ()
            )
            if not self.state.is_small:
                request_classes = [
                    request_class
                    for number in self.tryable_classes().tolist()
                    if (request_class := self.columns.request_classes[number]) is not None
                ]
            yield from self.ordered_singly(request_classes, tournament)
        elif pending.loose:
            yield from self.ordered_by_columns(self.tryable_classes())

    def ordered_singly(self, request_classes: Iterable[RequestClass], tournament: Tournament) -> Iterator[ArenaDraws]:
        """Yield the same as `ordered_classes`; each class is ranked by itself. By estimate, the shortest is first;
        equal ones follow in the order of their queue."""
        by_estimate = self.reserving.by_estimate
        found: dict[Arena | None, list[tuple[SortKey, RequestClass]]] = {}
        for request_class in request_classes:
            if request_class.arena is not None and not by_estimate:
                continue  # `Pending.heads` has it in order
            key, rank = request_class.key, request_class.rank
            branch = self.branches[key.queue]
            if (rank is None or by_estimate) and (first := self.state.first_waiting(request_class)) is not None:
                ranked = tournament.rank(branch, key, first)
            elif rank is not None:
                ranked = rank
            else:
                continue
            arena = None if key.kind == Kind.REPLACEMENT else Arena(branch.arena.name, key.terms.account)
            found.setdefault(arena, []).append((ranked, request_class))
        for arena, each in found.items():
            each.sort()
            yield arena, iter(each)

    def ordered_by_columns(self, numbers: Numbers) -> Iterator[ArenaDraws]:
        """Yield the same as `ordered_classes`, ranked by columns."""
        if not len(numbers):
            return
        arenas = self.arena_of_row[self.columns.row[numbers]]
        urgent = self.replacements(numbers)
        if urgent.any():
            some = numbers[urgent]
            yield None, self.in_order(some, -self.columns.priority[some])
            numbers, arenas = numbers[~urgent], arenas[~urgent]
            if not len(numbers):
                return
        scores = self.scores(numbers, arenas)
        if len(self.arenas) == 1 or (arenas == arenas[0]).all():
            yield self.arenas[int(arenas[0])][0], self.in_order(numbers, scores)
            return
        order = np.argsort(arenas, kind="stable")
        numbers, scores, arenas = numbers[order], scores[order], arenas[order]
        starts = [0, *(np.flatnonzero(np.diff(arenas)) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(starts):
            yield self.arenas[int(arenas[begin])][0], self.in_order(numbers[begin:end], scores[begin:end])

    @lazy
    def priorities(self) -> MultifactorPriority:
        return MultifactorPriority(self.state.cluster, self.state.policy, self.state.now_s)

    def priority_of(self, entry: QueuedRequest) -> float:
        """Return the sum of priority factors of the request, for queues in MULTIFACTOR order."""
        return self.priorities.of(self.state.cluster.jobs[entry.request.job])

    @lazy
    def arenas(self) -> list[tuple[Arena, QueueOrder]]:
        """Return the arenas and their orders, by number of the arena."""
        found = ((self.branches[row.queue].arena, row.account) for row in self.pending.headroom.rows)
        return list(dict.fromkeys((Arena(arena.name, account), arena.order) for arena, account in found))

    @lazy
    def arena_of_row(self) -> Numbers:
        """Return the number of the arena of each headroom row."""
        numbers = {arena: number for number, (arena, _) in enumerate(self.arenas)}
        whose = (Arena(self.branches[row.queue].arena.name, row.account) for row in self.pending.headroom.rows)
        return np.array([numbers[arena] for arena in whose], np.intp)

    def replacements(self, numbers: Numbers) -> Mask:
        """Return which of the request classes replace lost pods."""
        if not self.pending.urgent:
            return np.zeros(len(numbers), np.bool_)
        request_classes = self.columns.request_classes
        kinds = [
            request_class.key.kind == Kind.REPLACEMENT if (request_class := request_classes[number]) else False
            for number in numbers.tolist()
        ]
        return np.array(kinds, np.bool_)

    def scores(self, numbers: Numbers, arenas: Numbers) -> Floats:
        """Return the main sort key of each request class in the order of its arena; lower comes first."""
        found = -self.columns.priority[numbers]
        orders = np.array([WEIGHED.get(order, 0) for _, order in self.arenas])[arenas]
        found[orders == FIFO] = 0.0
        by_factors = orders == FACTORS
        if by_factors.any():
            found[by_factors] = -self.priorities.of_request_classes(numbers[by_factors])
        return found

    def in_order(self, numbers: Numbers, scores: Floats) -> Draws:
        """Yield (rank, request class) in order, without the classes that may no longer be tried."""
        arrivals = self.columns.arrival_s[numbers]
        while len(numbers):
            first = lowest(scores, arrivals)
            if first is None:
                piece, numbers = (numbers, scores, arrivals), numbers[:0]
            else:
                piece = numbers[first], scores[first], arrivals[first]
                numbers, scores, arrivals = numbers[~first], scores[~first], arrivals[~first]
            yield from self.ranked(*piece)
            if len(numbers):
                left = self.tryable_mask(numbers)
                numbers, scores, arrivals = numbers[left], scores[left], arrivals[left]

    def ranked(self, numbers: Numbers, scores: Floats, arrivals: Floats) -> Draws:
        """Yield the (rank, request class) pairs of one piece."""
        order = np.lexsort((arrivals, scores))
        found = list(zip(scores[order].tolist(), arrivals[order].tolist(), numbers[order].tolist(), strict=True))
        request_classes, at, skipped, may_be_tried = self.columns.request_classes, 0, 0, self.may_be_tried
        while at < len(found):
            score, arrival_s, number = found[at]
            at += 1
            if at < len(found) and found[at][1] == arrival_s and found[at][0] == score:
                begin = at - 1
                while at < len(found) and found[at][:2] == (score, arrival_s):
                    at += 1
                yield from tied(found[begin:at], request_classes)
                continue
            first = request_classes[number]
            assert first is not None  # vacant request classes are in no mask
            if may_be_tried(first):
                skipped = 0
                yield (score, arrival_s, first.key.kind, first.first().tie), first
                continue
            skipped += 1
            if skipped > SKIPPED and len(found) - at > SKIPPED:
                left = self.tryable_mask(np.array([number for _, _, number in found[at:]], np.intp)).tolist()
                found = [each for each, is_left in zip(found[at:], left, strict=True) if is_left]
                at = skipped = 0


def tied(
    found: list[tuple[float, float, int]], request_classes: list[RequestClass | None]
) -> Iterator[tuple[SortKey, RequestClass]]:
    """Yield request classes whose columns are equal, by kind and tie of their first requests."""
    ranked: list[tuple[SortKey, RequestClass]] = []
    for score, arrival_s, number in found:
        request_class = request_classes[number]
        assert request_class is not None  # vacant request classes are in no mask
        ranked.append(((score, arrival_s, request_class.key.kind, request_class.first().tie), request_class))
    if len(ranked) > 1:
        ranked.sort(key=lambda each: each[0])
    return iter(ranked)


def lowest(scores: Floats, arrivals: Floats) -> NDArray[np.bool_] | None:
    """Return the mask of the first `PIECE` entries by score and arrival, with all entries equal to the last of them;
    None if these are all entries, or nearly all."""
    if len(scores) <= 4 * PIECE:
        return None
    score = np.partition(scores, PIECE)[PIECE]
    below, equal = scores < score, scores == score
    wanted = PIECE - int(np.count_nonzero(below))
    if int(np.count_nonzero(equal)) <= 2 * PIECE:
        return np.asarray(below | equal)
    arrival = np.partition(arrivals[equal], wanted)[wanted]
    return np.asarray(below | (equal & (arrivals <= arrival)))
