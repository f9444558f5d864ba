"""Placement classes: the different demands of request classes on nodes. They are stored as columns, so that a cycle can
compare all of them with the free amounts of nodes.

Request classes with equal demands on nodes share a *placement class*, whichever queue they are in. The key of a
placement class is a gang, or one role of a gang, and the flavors that it may get. A role of a gang has a demand. For
each demand, `Capacity` has the number of its pods that fit on the nodes.

`core.placement.capacity` brings these numbers up to date. `room[demand]` is the exact number of pods that fit on all
usable nodes together at that time. Only changes are counted again: `free` is a copy of the free amounts at the last
count, and only the rows (nodes) to which pods were charged since then are compared with it. The room of a demand that
was never counted is infinite, because there is no sign yet that its pods do not fit.

For some demands, a pod fits on a node if the amounts suffice and the node constraints (`where`) are met
(`core.placement.draft` calls these demands exact). A request with such a demand can be placed if and only if the room
is at least the number of needed pods. For all other demands the room is an upper bound of the number of pods that
fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.model.reason import Reason
from phalanx.state.classes import AffinityClass as PodKind
from phalanx.state.classes import Demand, Gang
from phalanx.state.nodes.pod_index import change_may_help
from phalanx.state.pending.headroom import RUNNING, upward
from phalanx.state.queues.rules import ResourceGroup

FIRST_COLUMNS = 64  # the initial length of a column; its length doubles when it is full
REMEMBERED = 1 << 16  # the largest number of stored results about pod affinity


class PlacementClassKey(NamedTuple):
    """The key of a placement class. `flavors`: the flavors that the queues of its requests allow, by resource group.
    `whole`: True if all pods of a request are placed together. `counts`: True if the start of a request counts against
    limits on running jobs."""

    gang: Gang
    flavors: tuple[ResourceGroup, ...] = ()
    whole: bool = True
    counts: bool = True


@dataclass(slots=True, eq=False)
class PlacementClass:
    """A placement class: the demand on nodes of all request classes, in any queue, that have the same key.

    `number`: the index of the class in every column.
    `demands`: for each role, the index of its demand in `Capacity`, and the number of pods that the role needs (0 for
        an optional role).
    `flavor_classes`: one placement class for each choice of flavors that the gang may get. The gang can be placed only
        if one of these classes can.
    `single`: True if the gang has only one role, which is required, and no other conditions.
    `cost`: for each key of `Headroom`, the smallest amount that a request charges.
    `references`: the number of request classes with this placement class, plus the number of placement classes with
        this class as a flavor class.
    `depends_on_other_pods`: True if a trial placement of the class can fail because of other pods: by affinity, spread
        or ports.
    `reason`: the last reason why requests of the class do not fit.
    `stale`: the number of cycles since `reason` was computed in which the class first had capacity, but lost it to
        other jobs."""

    number: int
    key: PlacementClassKey
    demands: tuple[tuple[int, float], ...]
    flavor_classes: tuple[PlacementClass, ...] = ()
    single: bool = False
    cost: tuple[float, ...] = ()
    references: int = 0
    depends_on_other_pods: bool = False
    reason: Reason | None = None
    stale: int = 0


class Capacity:
    """The columns of demands. `asks[resource, number]`: the amount of the resource that one pod of the demand requests,
    in units of the resource. `users`: for each demand, the number of placement classes that refer to it. `grown`: for
    each demand, True if one of its pods fits on a row (node) whose free amounts have grown since the last count."""

    def __init__(self) -> None:
        self.number_of: dict[Demand, int] = {}
        self.demands: list[Demand | None] = []
        self.users: list[int] = []
        self.resources: dict[str, int] = {}
        self.asks: NDArray[np.float64] = np.zeros((4, FIRST_COLUMNS))
        self.room: NDArray[np.float64] = np.full(FIRST_COLUMNS, np.inf)
        self.grown: NDArray[np.bool_] = np.zeros(FIRST_COLUMNS, np.bool_)
        self.uncounted: dict[int, None] = {}  # demands that were never counted
        self.free: dict[str, NDArray[np.int64]] = {}
        self.counted_at: Any = None  # a value that identifies the state of the last count (`core.placement.capacity`)
        self._vacant: list[int] = []

    def __len__(self) -> int:
        return len(self.demands)

    def refer(self, demand: Demand) -> int:
        """Return the index of the demand, and record that one more placement class refers to it."""
        if (number := self.number_of.get(demand)) is not None:
            self.users[number] += 1
            return number
        number = self._vacant.pop() if self._vacant else len(self.demands)
        if number == len(self.demands):
            self.demands.append(demand)
            self.users.append(0)
            if number >= len(self.room):
                self._grow()
        self.number_of[demand], self.demands[number], self.users[number] = number, demand, 1
        for resource, _ in demand.asks:
            self.resources.setdefault(resource, len(self.resources))
        while len(self.resources) > len(self.asks):
            self.asks = np.concatenate((self.asks, np.zeros_like(self.asks)))
        self.asks[:, number] = 0.0
        for resource, amount in demand.asks:
            self.asks[self.resources[resource], number] = amount
        self.room[number] = np.inf
        self.uncounted[number] = None
        return number

    def release(self, number: int) -> None:
        """Record that a placement class no longer refers to the demand. If it was the last one, remove the demand."""
        self.users[number] -= 1
        if not self.users[number]:
            demand = self.demands[number]
            assert demand is not None  # a placement class still refers to this demand
            del self.number_of[demand]
            self.demands[number] = None
            self.uncounted.pop(number, None)
            self._vacant.append(number)

    def _grow(self) -> None:
        more = len(self.room)
        self.asks = np.concatenate((self.asks, np.zeros((len(self.asks), more))), axis=1)
        self.room = np.concatenate((self.room, np.full(more, np.inf)))
        self.grown = np.concatenate((self.grown, np.zeros(more, np.bool_)))


class PlacementClasses:
    """The table of placement classes.

    `by_number`, `of_key`: the classes. A class stays as long as a request class or another class refers to it.
    `demand`, `need`: for the class with each number, its first demand, and the number of pods of this demand that the
        class needs; -1: the class has no demand.
    `composite`: the classes with several roles or flavors.
    `failed`: classes whose last placement failed, although the counted capacity was enough."""

    def __init__(self) -> None:
        self.capacity = Capacity()
        self.by_number: list[PlacementClass | None] = []
        self.of_key: dict[PlacementClassKey, PlacementClass] = {}
        self.demand: NDArray[np.int32] = np.zeros(FIRST_COLUMNS, np.int32)
        self.need: NDArray[np.float64] = np.zeros(FIRST_COLUMNS)
        self.composite: dict[PlacementClass, None] = {}
        self.failed: dict[PlacementClass, None] = {}
        self._costs: NDArray[np.float64] = np.zeros((0, 0))
        self._costly: set[int] = set()  # numbers of classes whose costs are not computed yet
        self._vacant: list[int] = []
        self._concerned: dict[tuple[Demand, PodKind], bool] = {}

    def __iter__(self) -> Iterator[PlacementClass]:
        return iter(self.of_key.values())

    def refer(self, key: PlacementClassKey) -> PlacementClass:
        """Return the placement class with this key, and count one more reference to it. Create the class if it does not
        exist."""
        found = self.of_key.get(key)
        if found is None:
            number = self._vacant.pop() if self._vacant else len(self.by_number)
            if number == len(self.by_number):
                self.by_number.append(None)
                if number == len(self.need):
                    self.demand = np.concatenate((self.demand, np.zeros_like(self.demand)))
                    self.need = np.concatenate((self.need, np.zeros_like(self.need)))
            gang, needed = key.gang, set(key.gang.required_roles)
            # A trial placement places a whole gang whose flavors are chosen. So a class with a choice of flavors has no
            # demands and is not tried. Its flavor classes, which `core.cycle.known` finds, are tried instead.
            is_tried = key.whole and not key.flavors
            roles = range(len(gang.roles)) if is_tried else ()
            demands = tuple(
                (self.capacity.refer(gang.demands[at]), float(gang.minimums[at] if at in needed else 0)) for at in roles
            )
            heeds = is_tried and any(not demand.unconstrained or demand.kind is not None for demand in gang.demands)
            single = len(gang.roles) == 1 and gang.simple and bool(demands) and demands[0][1] > 0
            found = PlacementClass(number, key, demands, single=single, depends_on_other_pods=heeds)
            self.by_number[number] = self.of_key[key] = found
            self.demand[number], self.need[number] = demands[0] if demands else (0, -1.0)
            if key.flavors or len(demands) > 1:
                self.composite[found] = None
            self._costly.add(number)
        found.references += 1
        return found

    def add_flavor_classes(self, found: PlacementClass, ways: Iterable[PlacementClassKey]) -> None:
        """Store the flavor classes of the class `found`, one for each choice of flavors. They are not removed before
        `found` is removed."""
        found.flavor_classes = tuple(self.refer(way) for way in dict.fromkeys(ways))

    def release(self, found: PlacementClass) -> None:
        """Record that the placement class has one reference less. If that was the last reference, remove the class."""
        found.references -= 1
        if found.references > 0:
            return
        self.by_number[found.number] = None
        self.composite.pop(found, None)
        self.failed.pop(found, None)
        del self.of_key[found.key]
        self._vacant.append(found.number)
        for demand, _ in found.demands:
            self.capacity.release(demand)
        for way in found.flavor_classes:
            self.release(way)

    def costs(self, keys: dict[str, int]) -> NDArray[np.float64]:
        """Return the smallest amounts that a request charges to its queue, as an array [key of the headroom, placement
        class]. The last element of the second axis belongs to no class and is 0; a read at the index -1 (no placement
        class) returns it."""
        if self._costs.shape != (len(keys), len(self.need) + 1):
            self._costs = np.zeros((len(keys), len(self.need) + 1))
            self._costly = set(range(len(self.by_number)))
        for number in self._costly:
            if (found := self.by_number[number]) is not None:
                found.cost = cost_of(found.key, keys)
                self._costs[:, number] = found.cost
        self._costly.clear()
        return self._costs

    def explain(self, key: PlacementClassKey, reason: Reason | None) -> None:
        """Store the reason why requests of the placement class do not fit; None if the reason is not known."""
        if (found := self.of_key.get(key)) is not None:
            found.reason, found.stale = reason, 0

    def forget_failures(self, kinds: Sequence[PodKind]) -> bool:
        """Remove the placement classes from `failed` that may fit now, because pods of these affinity classes were
        added or removed. Return whether at least one was removed."""
        mended = [found for found in self.failed if found.depends_on_other_pods and self._depends_on(found, kinds)]
        for found in mended:
            del self.failed[found]
        return bool(mended)

    def _depends_on(self, found: PlacementClass, kinds: Sequence[PodKind]) -> bool:
        for demand in found.key.gang.demands:
            for kind in kinds:
                known = self._concerned.get((demand, kind))
                if known is None:
                    if len(self._concerned) >= REMEMBERED:
                        self._concerned.clear()
                    known = self._concerned[demand, kind] = change_may_help(demand.shape, demand.kind, kind)
                if known:
                    return True
        return False


def cost_of(key: PlacementClassKey, keys: dict[str, int]) -> tuple[float, ...]:
    """Return the smallest amounts that a request of the class charges to its queue, for each key of the headroom. For
    gangs with optional members, the amounts of resources are 0."""
    gang, found = key.gang, [0.0] * len(keys)
    if RUNNING in keys:
        found[keys[RUNNING]] = float(key.counts)
    if key.whole and not gang.optional:
        for (_, resource), amount in gang.due:
            if resource in keys:
                found[keys[resource]] = upward(amount)
    return tuple(found)
