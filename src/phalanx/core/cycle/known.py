"""Store which placement classes cannot start in this cycle, and why. A *placement class* has all requests, of all
queues, that have equal demands on nodes. The stored failures only save time: without them, a cycle would make the same
decisions, but would try more requests in vain.

At the beginning of a cycle a placement class is *open* if two conditions are met. First, for each role of the class,
enough pods fit on the nodes (`core.placement.capacity`). Second, no trial placement has failed since the last change
that could make it succeed. Within a cycle free capacity only shrinks, so a closed class stays closed. A class is
*exact* if counting alone shows whether it fits. When a class f is closed, it *dominates* the classes that need at least
as much as f, and these classes are closed, too. In the exact rule, need(f) is the number of pods that f needs:

    if f is exact, and only r < need(f) pods of f fit, then an exact class of one role fails too if it needs more than r
    pods, and if its pods request no less of each resource and may use no other nodes   (dominance)

The rule is correct because each node that holds a pod of a dominated class could hold a pod of f instead. So after a
few failed trials, dominance closes most other classes.

If capacity is missing, the reason is computed once for the placement class, and all queues report
it (`PlacementClass.reason`). Each cycle computes about `EXPLAINED` of these reasons again. If quota is missing, the
reason is computed for each request class. If several reasons apply, the first one in this list is reported: the request
can never start; quota is missing; capacity is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.backfill.reservation import Lack, WouldDelayReservation
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.core.reasons import explain, no_quota
from phalanx.core.reasons.no_capacity import CycleGrants
from phalanx.model.job import Placement
from phalanx.model.reason import NEVER, Reason
from phalanx.state.classes import Gang, NodeConstraints
from phalanx.state.cluster import Cluster
from phalanx.state.pending.placement_class import PlacementClass, PlacementClasses, PlacementClassKey
from phalanx.state.pending.request_class import Kind, RequestClass

Mask: TypeAlias = NDArray[np.bool_]
Placed: TypeAlias = tuple[Gang, str, Sequence[Placement]]  # a granted request: (gang, job, placements)

# once this many requests have failed in a cycle, it reports stored reasons, and only computes missing reasons
EXPLAINED = 4
NO_MORE = -1.0  # replaces the value in `Live.needs` when a class is closed, so that it is not closed again


class Live(NamedTuple):
    """Arrays that describe the open placement classes with one role. `numbers`: the numbers of the classes. `needs`:
    for each class, the number of pods that it needs. `wheres`: for each class, a number that identifies its node
    constraints (`KnownFailures._where`); 0 if all nodes match. `asks`: the requested amounts of one pod, indexed
    [resource, class]."""

    numbers: NDArray[np.intp]
    needs: NDArray[np.float64]
    wheres: NDArray[np.intp]
    asks: NDArray[np.float64]


class KnownFailures:
    """The placement classes that cannot start in one cycle, and the reasons of requests that the cycle denies.

    `failed`: classes that were closed because a trial placement failed, although the free amounts were enough.
    `explained`: placement class -> the reason that was computed in this cycle.
    `disproved`: placement classes whose stored reason is no longer true.
    `failures`: the number of requests that this cycle has denied so far.

    Set by `begin`:

    `is_done`: a byte for each request class: 1 if the class must not be tried again in this cycle.
    `open`: a byte for each placement class: 1 if the class may still start, 0 if it is closed. One more byte at the end
        belongs to no class. `opened`: a copy of `open` from the beginning of the cycle.
    `had_room`: a byte for each placement class: 1 if, when the cycle began, the free amounts were enough for the class
        and no trial placement of it had failed."""

    is_done: bytearray
    open: bytearray
    had_room: bytearray
    open_mask: Mask

    def __init__(self, cluster: Cluster, draft: Draft, ledger: QuotaLedger, placed: Sequence[Placed]) -> None:
        self.cluster, self.classes = cluster, cluster.pending.placement_classes
        self.draft, self.ledger, self.placed = draft, ledger, placed  # the cycle appends each grant to `placed`
        self.failed: list[PlacementClass] = []
        self.explained: dict[PlacementClassKey, Reason] = {}
        self.disproved: dict[PlacementClassKey, None] = {}
        self.failures = 0
        self.grants: CycleGrants | None = None
        self._noted = 0  # how many entries of `placed` are already in `grants`

    def begin(self) -> None:
        """Let the cycle try every request class, and open each placement class for which the free amounts are enough.
        The cycle calls this method when it begins, and again in two cases: it has removed placed pods, so that the free
        capacity has grown; or the first reservation has changed."""
        classes, room = self.classes, self.classes.capacity.room
        count, composite = len(classes.by_number), classes.composite
        self.is_done = bytearray(len(self.cluster.pending.columns.request_classes))
        self.open = bytearray((room[classes.demand[:count]] >= classes.need[:count]).tobytes() + b"\0")
        for each in composite:
            self.open[each.number] = all(room[demand] >= need for demand, need in each.demands)
        for each in composite:  # a class with flavor classes has no demands of its own
            if each.flavor_classes:
                self.open[each.number] = any(self.open[way.number] for way in each.flavor_classes)
        self.opened = bytes(self.open)
        self.had_room = bytearray(self.opened)
        # `open_mask` shares the memory of `open`, so it changes whenever `open` changes
        self.open_mask = np.frombuffer(self.open, np.bool_)
        for each in self.classes.failed:
            self.had_room[each.number] = 0
        self._live: Live | None = None
        self._wheres: dict[NodeConstraints, int] = {}
        self._parents = [each for each in self.classes.composite if each.flavor_classes]

    # Classes that may start

    def counted(self, found: PlacementClass, grants: int) -> bool:
        """Return whether the class is still open: the free amounts are enough, and no trial placement has failed.
        Otherwise close it. `grants`: the number of grants so far in this cycle; before the first grant, the amounts
        need not be counted again. A class that is not exact may be open although it does not fit."""
        number = found.number
        if grants and found.single and self.open[number]:
            need = int(found.demands[0][1])
            room = self.draft.room_up_to(need, found.key.gang.demands[0])
            if room < need:
                self.close(found, room)
                return False
        if self.open[number] and found in self.classes.failed:
            self._shut(found)
        return bool(self.open[number])

    def fail(self, gang: Gang, placed: int) -> None:
        """Close the placement class of a gang whose trial placement has failed. `placed`: the number of pods that could
        be placed, if the gang has one role. If the class is closed already, do nothing: the trial was then only made to
        compute a reason."""
        for counts in (True, False):
            found = self.classes.of_key.get(PlacementClassKey(gang, counts=counts))
            if found is None or not self.open[found.number]:
                continue
            if found.single and self.draft.ordinary(gang.demands[0]):
                self.close(found, placed)
            else:
                self.failed.append(found)
                self._shut(found)

    def _shut(self, found: PlacementClass) -> None:
        """Close a class because its trial placement has failed, in this cycle or in an earlier one."""
        self.open[found.number] = 0
        self._close_parents()

    def close(self, found: PlacementClass, room: int) -> None:
        """Close a class, and all classes that it dominates. `room`: the number of pods of the class that fit."""
        self.open[found.number] = 0
        live = self._live = self._live or self._columns()
        dominated = live.needs > room
        for has, asked in zip(live.asks, self.classes.capacity.asks[:, found.demands[0][0]].tolist(), strict=False):
            if asked:
                dominated &= has >= asked
        if where := self._where(found.key.gang.demands[0].where):
            dominated &= live.wheres == where
        closing = live.numbers[dominated]
        if len(closing):
            self.open_mask[closing] = False
            live.needs[dominated] = NO_MORE
        self._close_parents()

    def _close_parents(self) -> None:
        """Close each class that has flavor classes, once all of its flavor classes are closed."""
        for each in self._parents:
            if self.open[each.number] and not any(self.open[way.number] for way in each.flavor_classes):
                self.open[each.number] = 0

    def _columns(self) -> Live:
        classes, capacity = self.classes.by_number, self.classes.capacity
        found = [each for at, is_open in enumerate(self.open) if is_open and (each := classes[at]) and each.single]
        wheres = [self._where(each.key.gang.demands[0].where) for each in found]
        demands = [each.demands[0][0] for each in found]
        return Live(
            np.array([each.number for each in found], np.intp),
            np.array([each.demands[0][1] for each in found]),
            np.array(wheres, np.intp),
            capacity.asks[: len(capacity.resources), demands],
        )

    def _where(self, where: NodeConstraints) -> int:
        """Return a number that identifies these node constraints; 0 if all usable nodes match them. Constraints that
        were not seen before in this cycle get the next free number."""
        number = self._wheres.get(where)
        if number is None:
            number = self._wheres[where] = 0 if self.draft.allowed(where) is None else len(self._wheres) + 1
        return number

    # Stored reasons

    def reason_of_placement_class(self, found: PlacementClass) -> Reason | None:
        return self.explained.get(found.key) or (None if found.key in self.disproved else found.reason)

    def never_starts(self, found: PlacementClass) -> bool:
        """Check again whether a closed class would not even fit on empty nodes, and return the result. A class that can
        never start does not block a strict queue. If the stored reason states the opposite, drop the stored reason."""
        gangs = [way.key.gang for way in found.flavor_classes or (found,)]
        reason = self.reason_of_placement_class(found)
        never = all(explain.never(self.cluster, self.draft, gang) is not None for gang in gangs)
        if reason is not None and (reason.code in NEVER) != never:
            self.explained.pop(found.key, None)
            self.disproved[found.key] = None
        return never

    def explains(self, found: PlacementClass) -> bool:
        """Return whether a new reason must be computed for a closed class. True if the class had capacity when the
        cycle began, has no new reason yet, and fewer than `EXPLAINED` requests have failed in this cycle."""
        return bool(self.had_room[found.number]) and self.failures < EXPLAINED and found.key not in self.explained

    def class_of_offer(self, request_class: RequestClass, offer: FlavorAssignment) -> PlacementClass | None:
        """Return the placement class of the offer's gang; None if no such class is stored."""
        if offer.gang is request_class.key.gang and not offer.flavors:
            return request_class.placement_class
        return self.classes.of_key.get(PlacementClassKey(offer.gang, counts=request_class.key.kind == Kind.JOB))

    def known_reason(self, request_class: RequestClass, offer: FlavorAssignment, *, searches: bool) -> Reason | None:
        """Return the stored reason why the offer has no capacity; None if the offer's placement class is open, or if
        the reason must be computed again. `searches`: whether the request may preempt."""
        found = self.class_of_offer(request_class, offer)
        if found is None or (self.open[found.number] and found not in self.classes.failed):
            return None
        if request_class.strict:
            # Nodes may have changed since the reason was stored. In that case, this call drops the stored reason.
            self.never_starts(found)
        is_renewed = (searches and self.failures < EXPLAINED) or self.explains(found)
        return None if is_renewed else self.reason_of_placement_class(found)

    # Computing reasons

    def explain(self, gang: Gang, lack: Lack) -> Reason:
        """Return the reason why no capacity was found for the gang of an offer that quota allows. The reason is stored
        for all requests of the placement class. `lack`: the result of the failed placement."""
        if isinstance(lack, WouldDelayReservation):
            return lack.reason
        if isinstance(lack, Reason):
            return lack
        grants = self.grants = self.grants or CycleGrants()
        for grant in self.placed[self._noted :]:
            # a reason names the largest consumers of a resource, and jobs that this cycle has granted may be among them
            grants.note(*grant)
        self._noted = len(self.placed)
        reason = explain.why_not(self.cluster, self.draft, gang, lack, grants)
        for counts in (True, False):
            if (key := PlacementClassKey(gang, counts=counts)) in self.classes.of_key:
                self.explained[key] = reason
        return reason

    def explain_placement_class(self, found: PlacementClass) -> Reason | None:
        """Return the reason why there is no capacity for the class. If no reason is stored, try to place the class to
        compute the reason. Return None if that succeeds."""
        known = self.reason_of_placement_class(found)
        return self.explain_anew(found) if known is None and not found.flavor_classes else known

    def explain_anew(self, found: PlacementClass) -> Reason | None:
        """Try to place the class, and return the reason why there is no capacity for it. Return None if it can be
        placed."""
        mark, gang = self.draft.mark(), found.key.gang
        outcome = place(self.draft, gang)
        if isinstance(outcome, PlacementShortfall):
            return self.explain(gang, outcome)
        self.draft.rewind(mark)
        return None

    def why_not(
        self, request_class: RequestClass, offers: Sequence[FlavorAssignment], found: Sequence[Reason]
    ) -> Reason:
        """Combine the reasons why the offers fail, and return one reason for the request. `found`: the reasons of the
        offers that quota allows, in the order of the offers. If several offers have the same flavors, use the reason of
        one of them, if possible one that can succeed later."""
        lacking, reasons, queue = iter(found), dict[tuple[str, ...], Reason](), request_class.key.queue
        for offer in offers:
            said = reasons.get(offer.flavors)
            if offer.short is None:
                reason = next(lacking)
            else:
                reason = self.never(request_class, offer) or no_quota.why_not(self.cluster, self.ledger, queue, offer)
            # This gang can never fit, but a gang with fewer optional members may. Report why quota does not allow such
            # a gang.
            if reason.code in NEVER:
                ledger = self.ledger
                others = (no_quota.why_not(self.cluster, ledger, queue, each) for each in offer.besides[::-1])
                reason = next((each for each in others if each.code not in NEVER), reason)
            if said is None or (said.code in NEVER and reason.code not in NEVER):
                reasons[offer.flavors] = reason
        return reasons[offer.flavors] if len(reasons) == 1 else no_quota.of_flavors(reasons)

    def never(self, request_class: RequestClass, offer: FlavorAssignment) -> Reason | None:
        """Return the reason why the offer's gang would not even fit on empty nodes; None if it would fit, or if a node
        group may add nodes for it. This reason is reported instead of missing quota."""
        is_whole, queue = request_class.placement_class.key.whole, request_class.key.queue
        if not is_whole or explain.may_get_nodes(self.cluster, queue, offer.gang):
            return None
        return explain.never(self.cluster, self.draft, offer.gang)


def forget_mended_failures(classes: PlacementClasses) -> None:
    """Forget the failed trial placement of each class that may fit now. A class may fit if the free amounts of a node
    have grown since the trial, and one pod of the class fits on this node."""
    grown = classes.capacity.grown
    for found in list(classes.failed):
        if any(grown[demand] for demand, _ in found.demands):
            del classes.failed[found]


def find_flavor_classes(cluster: Cluster, found: PlacementClass) -> None:
    """Store the flavor classes of a class whose queue has flavors. There is one flavor class for each possible
    assignment of flavors to the roles. The class is open as long as at least one of its flavor classes is open."""
    if found.flavor_classes or not found.key.flavors or not found.key.whole:
        return
    gang, counts = found.key.gang, found.key.counts
    given = flavor_assignment.combinations(cluster.flavors, found.key.flavors, gang)
    gangs = (cluster.with_flavors(gang, flavors) for flavors in given)
    cluster.pending.placement_classes.add_flavor_classes(
        found, [PlacementClassKey(each, counts=counts) for each in gangs]
    )
