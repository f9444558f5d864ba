"""The reasons why requests cannot start: known reasons, and reasons that a cycle computes.

`core.cycle.steps` asks whether it is already known that a request cannot start, and why, and computes the reason of a
request that is denied. `core.cycle.messages.report` reports these reasons to the jobs.

- A reason for missing capacity is computed once for a placement class, and shared by all queues
  (`PlacementClass.reason`). A cycle computes about `EXPLAINED` of them again.
- A reason for missing quota is computed for each request class.
- If several reasons apply, the order is: requests that can never start, then quota, then capacity."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.backfill.reservation import Lack, WouldDelayReservation
from phalanx.core.cycle.state import CycleState
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.reasons import explain, no_quota
from phalanx.core.reasons.consumers import CycleGrants
from phalanx.model.job import Placement
from phalanx.model.reason import NEVER, Reason
from phalanx.state.classes import Gang
from phalanx.state.pending.request_class import PlacementClass, PlacementClassKey, RequestClass

EXPLAINED = 4  # a cycle computes a new reason for at least this many failed requests


class KnownReasons:
    """The reasons of one cycle.

    `explained`: placement class -> the reason that was computed in this cycle.
    `disproved`: placement classes whose stored reason no longer holds.
    `failures`: the number of requests that were denied.
    `placed`: the gang, the job and the placements of each grant. The cycle adds to it."""

    def __init__(self, state: CycleState) -> None:
        self.state, self.cluster, self.pending = state, state.cluster, state.pending
        self.explained: dict[PlacementClassKey, Reason] = {}
        self.disproved: dict[PlacementClassKey, None] = {}
        self.failures = 0
        self.placed: list[tuple[Gang, str, Sequence[Placement]]] = []
        self.grants: CycleGrants | None = None
        self._noted = 0  # the number of entries of `placed` that `grants` includes

    def granted_so_far(self) -> CycleGrants:
        """Return the grants of the cycle so far. Reasons need them, because they name the largest consumers."""
        grants = self.grants = self.grants or CycleGrants()
        for gang, job, placements in self.placed[self._noted :]:
            grants.note(gang, job, placements)
        self._noted = len(self.placed)
        return grants

    # What is known

    def reason_of_placement_class(self, found: PlacementClass) -> Reason | None:
        return self.explained.get(found.key) or (None if found.key in self.disproved else found.reason)

    def is_hopeless(self, found: PlacementClass) -> bool:
        """Return whether the stored reason says that the class would not fit even on empty nodes. Such a class gets no
        reservation."""
        reason = self.reason_of_placement_class(found)
        return reason is not None and reason.code in NEVER

    def never_starts(self, found: PlacementClass) -> bool:
        """Return whether a class without capacity would not fit even on empty nodes, by a new check. Its request
        classes then block no jobs in a strict queue. A stored reason that contradicts the result is forgotten."""
        gangs = [way.key.gang for way in found.flavor_classes or (found,)]
        reason = self.reason_of_placement_class(found)
        never = all(explain.never(self.cluster, self.state.draft, gang) is not None for gang in gangs)
        if reason is not None and (reason.code in NEVER) != never:
            self.explained.pop(found.key, None)
            self.disproved[found.key] = None
        return never

    def explains(self, found: PlacementClass) -> bool:
        """Return whether the reason of a class without capacity must be computed again: the class had capacity when the
        cycle began, and fewer than `EXPLAINED` requests have failed so far."""
        had_room = bool(self.state.blocked.had_room[found.number])
        return had_room and self.failures < EXPLAINED and found.key not in self.explained

    def known_reason(self, request_class: RequestClass, found: PlacementClass | None) -> Reason | None:
        """Return the stored reason why the class has no capacity; None if the class is open, or if the reason must be
        computed again."""
        blocked = self.state.blocked
        if found is None or (blocked.open[found.number] and found not in self.pending.failed):
            return None
        searches = request_class.number in self.state.search_classes and self.failures < EXPLAINED
        if request_class.strict:
            self.never_starts(found)  # forget a stored reason that earlier nodes caused
        return None if searches or self.explains(found) else self.reason_of_placement_class(found)

    # Why not

    def lacking(self, offer: FlavorAssignment, lack: Lack) -> Reason:
        """Return the reason why an offer within quota finds no capacity. All requests of the placement class share this
        reason."""
        if isinstance(lack, WouldDelayReservation):
            return lack.reason
        if isinstance(lack, Reason):
            return lack
        return self.explain(offer.gang, lack)

    def explain(self, gang: Gang, lack: PlacementShortfall) -> Reason:
        state = self.state
        reason = explain.why_not(self.cluster, state.draft, gang, lack, self.granted_so_far())
        for counts in (True, False):
            if (key := PlacementClassKey(gang, counts=counts)) in self.pending.placement_class_of:
                self.explained[key] = reason
        return reason

    def explain_placement_class(self, found: PlacementClass) -> Reason | None:
        """Return the reason why the class has no capacity: the stored reason, or one from a trial placement. None: the
        trial finds capacity."""
        known = self.reason_of_placement_class(found)
        if known is None and not found.flavor_classes:
            gang = found.key.gang
            lack = self.try_placement(gang)
            known = None if lack is None else self.explain(gang, lack)
        return known

    def try_placement(self, gang: Gang) -> PlacementShortfall | None:
        draft = self.state.draft
        mark = draft.mark()
        outcome = place(draft, gang)
        if isinstance(outcome, PlacementShortfall):
            return outcome
        draft.rewind(mark)
        return None

    def why_not(
        self, request_class: RequestClass, offers: Sequence[FlavorAssignment], found: Sequence[Reason]
    ) -> Reason:
        """Return why each offer fails. `found`: the reasons of the offers that quota allows, in the same order. The
        offer that the queue prefers gives the code. If several offers have the same flavors, one of them is reported,
        preferably an offer that can succeed later."""
        lacking, reasons, queue = iter(found), dict[tuple[str, ...], Reason](), request_class.key.queue
        for offer in offers:
            said = reasons.get(offer.flavors)
            if offer.short is None:
                reason = next(lacking)
            else:
                reason = self.never(request_class, offer) or no_quota.why_not(
                    self.cluster, self.state.ledger, queue, offer
                )
            if reason.code in NEVER:  # other choices of its members may fit, but quota is too small for them now
                ledger = self.state.ledger
                others = (no_quota.why_not(self.cluster, ledger, queue, each) for each in offer.besides[::-1])
                reason = next((each for each in others if each.code not in NEVER), reason)
            if said is None or (said.code in NEVER and reason.code not in NEVER):
                reasons[offer.flavors] = reason
        return no_quota.of_flavors(list(reasons), list(reasons.values()))

    def never(self, request_class: RequestClass, offer: FlavorAssignment) -> Reason | None:
        """Return why the offer could not be placed even on empty nodes. This reason comes before missing quota."""
        is_whole, queue = request_class.placement_class.key.whole, request_class.key.queue
        if not is_whole or explain.may_get_nodes(self.cluster, queue, offer.gang):
            return None
        return explain.never(self.cluster, self.state.draft, offer.gang)
