"""The order in which a queue prefers the assignments of flavors to a gang's roles (Kueue's flavorFungibility).

Each resource group of each role chooses its flavor by itself, in the order of the roles. A choice counts only the
role's requests for resources of this group, and the requests of earlier roles with the same flavor. So if the GPUs of a
job have to be borrowed, its CPUs still come from a flavor that is within the guarantee.

In each group the *leading* flavors come first, up to the flavor at which the search stops. A flavor without free quota
is a leading flavor if the queue prefers to preempt. If no job can be preempted in this flavor, the next leading flavor
is tried. Assignments of leading flavors alone come before all others. The others follow in case nodes are full: first
those within the guarantee, then those that borrow, then those that are short of quota."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from phalanx.core.quota import role_flavors
from phalanx.core.quota.ledger import QuotaLedger, key_beyond_guarantee, shortfall
from phalanx.model.node import Flavor, parts_of
from phalanx.model.pod import Amount
from phalanx.model.queue import FlavorFungibility
from phalanx.state.classes import Gang
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Charge, Key

Rank: TypeAlias = tuple[int, ...]


class FlavorMode(IntEnum):
    """How quota allows a flavor."""

    FITS = 0  # within the guarantee
    BORROWS = 1
    SHORT = 2


class FlavorPreference(NamedTuple):
    """The preference of one role for the flavors of one resource group. `places`: flavor -> its place in the order,
    from 0 on. `leading`: how many flavors at the beginning of the order are *leading*. An assignment of only leading
    flavors is tried before all others."""

    places: Mapping[str, int]
    leading: int


class Preferences:
    """For each role of a gang, its preference in each resource group of which it requests a resource.

    `pods`: for each role, the number of pods with which the flavors are compared."""

    def __init__(
        self,
        ledger: QuotaLedger,
        branch: Branch,
        known: Mapping[str, Flavor],
        gang: Gang,
        charge: Charge,
        pods: Sequence[int],
    ) -> None:
        assert branch.queue is not None  # the root names no flavors
        self.wish = branch.queue.fungibility
        self.roles: list[list[FlavorPreference]] = []
        used: dict[Key, Amount] = {}
        for demand, count in zip(gang.demands, pods, strict=True):
            self.roles.append([])
            for group in role_flavors.groups_asked(branch.flavors, demand):
                asked = [(resource, amount * count) for resource, amount in demand.costs if group.covers(resource)]
                flavors = role_flavors.suitable_flavors(known, group, demand)
                costs = [
                    tuple(((name, resource), used.get((name, resource), 0) + amount) for resource, amount in asked)
                    for name in flavors
                ]
                charges = [charge._replace(cost=cost, jobs=0) for cost in costs]
                modes = [flavor_mode(ledger, branch, each) for each in charges]
                order, leading = preferred_order(modes, self.wish)
                self.roles[-1].append(FlavorPreference({flavors[at]: place for place, at in enumerate(order)}, leading))
                best = order[leading - 1]  # the flavor at which the search stopped
                used.update(costs[best])

    def rank(self, flavors: Sequence[str], mode: FlavorMode) -> Rank:
        """Return the rank of the assignment; the lowest is tried first. `mode`: the mode of the whole assignment."""
        places = [
            (each.places[name], each.leading)
            for preferences, joined in zip(self.roles, flavors, strict=True)
            for each, name in zip(preferences, parts_of(joined), strict=True)
        ]
        leads = all(place < leading for place, leading in places)
        return 0 if leads else 1 + mode_class(mode, self.wish), *(place for place, _ in places)


def flavor_mode(ledger: QuotaLedger, branch: Branch, charge: Charge) -> FlavorMode:
    """Return the mode of the charge: within the guarantee, by borrowing, or short of quota."""
    if shortfall(ledger, branch, charge) is not None:
        return FlavorMode.SHORT
    borrows = key_beyond_guarantee(branch, ledger.account(branch).total, charge.cost) is not None
    return FlavorMode.BORROWS if borrows else FlavorMode.FITS


def preferred_order(modes: Sequence[FlavorMode], wish: FlavorFungibility) -> tuple[list[int], int]:
    """Return (indexes of the flavors in the order of preference, number of leading flavors). `modes`: the mode of each
    flavor."""
    leading = list[int]()
    for at, mode in enumerate(modes):
        stops = mode is FlavorMode.FITS or (mode is FlavorMode.BORROWS and wish.borrow_before_next)
        if stops or (mode is FlavorMode.SHORT and wish.preempt_before_next):
            leading.append(at)
        if stops:
            break
    others = [at for at in range(len(modes)) if at not in leading]
    others.sort(key=lambda at: mode_class(modes[at], wish))
    stopped = bool(leading) and modes[leading[-1]] is not FlavorMode.SHORT
    return leading + others, len(leading) + (not stopped and bool(others))


def mode_class(mode: FlavorMode, wish: FlavorFungibility) -> int:
    """Return the place of the mode in the order of preference: 0 within the guarantee; borrowing and preemption have 1
    and 2, in the order that the queue wishes."""
    if mode is FlavorMode.FITS:
        return 0
    return 1 if (mode is FlavorMode.SHORT) == wish.prefer_preemption else 2
