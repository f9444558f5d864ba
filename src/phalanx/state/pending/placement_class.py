"""Placement classes: the distinct demands of request classes on nodes. Their values are stored in columns (arrays with
one element for each class), so that a cycle can compare all classes with the free amounts at once.

Request classes with equal demands on nodes share a *placement class*, whichever queue they are in. The key of a
placement class has a gang (or one role of a gang) and the flavors that it may get. Each role of a gang has a demand,
which describes one of its pods. `Capacity` stores how many pods of each demand fit on the nodes.

`core.placement.capacity` counts these pods at the beginning of each cycle. `room[demand]` is the number of pods that
fit on all usable nodes together. To save time, only nodes whose charges have changed since the last count are counted
again; `free` is a copy of the free amounts at the last count. The room of a demand that was never counted is infinite,
so the demand is assumed to fit.

A demand is *exact* if only two conditions decide whether one of its pods fits on a node: the free amounts are enough,
and the node meets the constraints (`where`). A request with an exact demand can be placed if and only if the room is at
least the number of needed pods. For all other demands, fewer pods than the room may fit, for example because of pod
affinity."""

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
REMEMBERED = 1 << 16  # at most this many results of `change_may_help` are stored


class PlacementClassKey(NamedTuple):
    """The key of a placement class. `flavors`: the flavors that the queue allows for each resource group; empty if
    there is no choice. `whole`: whether all pods of a request are placed together. `counts`: whether the start of a
    request counts against limits on running jobs."""

    gang: Gang
    flavors: tuple[ResourceGroup, ...] = ()
    whole: bool = True
    counts: bool = True


@dataclass(slots=True, eq=False)
class PlacementClass:
    """The demands on nodes that all request classes with this key have, in all queues.

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
    """The demands, with their values in columns. `asks[resource, number]`: the amount that one pod of the demand
    requests. `room`: for each demand, the number of pods that fit on the nodes. `users`: for each demand, the number of
    placement classes that refer to it. `grown`: for each demand, whether one of its pods fits on a node whose free
    amounts have grown since the last count."""

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
        self.counted_at: Any = None  # set by `core.placement.capacity`; identifies the state of the last count
        self._vacant: list[int] = []

    def __len__(self) -> int:
        return len(self.demands)

    def refer(self, demand: Demand) -> int:
        """Return the index of the demand, and count one more placement class that refers to it. Store the demand if it
        is new."""
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
        """Record that one placement class no longer refers to the demand with this index. Remove the demand if no class
        refers to it any more."""
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
    """All placement classes.

    `by_number`, `of_key`: the classes by their numbers and keys. A class exists as long as a request class or another
    placement class refers to it.
    `demand`, `need`: columns with the index of the first demand of each class, and the number of pods of this demand
        that the class needs (-1 if the class has no demand).
    `composite`: the classes with several roles or with a choice of flavors.
    `failed`: classes whose last trial placement failed, although the free amounts were enough."""

    def __init__(self) -> None:
        self.capacity = Capacity()
        self.by_number: list[PlacementClass | None] = []
        self.of_key: dict[PlacementClassKey, PlacementClass] = {}
        self.demand: NDArray[np.int32] = np.zeros(FIRST_COLUMNS, np.int32)
        self.need: NDArray[np.float64] = np.zeros(FIRST_COLUMNS)
        self.composite: dict[PlacementClass, None] = {}
        self.failed: dict[PlacementClass, None] = {}
        self._costs: NDArray[np.float64] = np.zeros((0, 0))
        self._costly: set[int] = set()  # the numbers of the classes whose costs must be computed
        self._vacant: list[int] = []
        self._concerned: dict[tuple[Demand, PodKind], bool] = {}

    def __iter__(self) -> Iterator[PlacementClass]:
        return iter(self.of_key.values())

    def refer(self, key: PlacementClassKey) -> PlacementClass:
        """Return the placement class with this key, and count one more reference to it. Create the class if none
        exists."""
        found = self.of_key.get(key)
        if found is None:
            number = self._vacant.pop() if self._vacant else len(self.by_number)
            if number == len(self.by_number):
                self.by_number.append(None)
                if number == len(self.need):
                    self.demand = np.concatenate((self.demand, np.zeros_like(self.demand)))
                    self.need = np.concatenate((self.need, np.zeros_like(self.need)))
            gang, needed = key.gang, set(key.gang.required_roles)
            # A trial placement needs a gang with fixed flavors. So a class with a choice of flavors has no demands and
            # is not tried. Its flavor classes (one for each choice) are tried instead; `core.cycle.known` adds them.
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
        """Store the flavor classes of a class, one for each choice of flavors. The class refers to them, so they exist
        as long as the class exists. `ways`: the keys of the flavor classes."""
        found.flavor_classes = tuple(self.refer(way) for way in dict.fromkeys(ways))

    def release(self, found: PlacementClass) -> None:
        """Reduce the number of references to the placement class by one, and remove the class if none is left."""
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
        """Return the smallest amounts that a request of each class charges to its queue, as an array [key of the
        headroom, placement class]. The array has an extra last column of zeros, for the index -1 (no placement
        class)."""
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
        """Store the reason why requests of the placement class do not fit. `reason`: None to forget the stored
        reason."""
        if (found := self.of_key.get(key)) is not None:
            found.reason, found.stale = reason, 0

    def forget_failures(self, kinds: Sequence[PodKind]) -> bool:
        """Remove classes from `failed` that may fit now because pods were added or removed. Return whether a class was
        removed. `kinds`: the affinity classes of these pods."""
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
    """Return the smallest amounts that a request of the class charges to its queue: one for each key of the headroom.
    For a gang with optional members, the amounts of resources are assumed to be 0. `keys`: resource -> its key."""
    gang, found = key.gang, [0.0] * len(keys)
    if RUNNING in keys:
        found[keys[RUNNING]] = float(key.counts)
    if key.whole and not gang.optional:
        for (_, resource), amount in gang.due:
            if resource in keys:
                found[keys[resource]] = upward(amount)
    return tuple(found)
