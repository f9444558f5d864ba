"""What must grow before a line that found no room is worth looking at again.

If some role alone finds less room than its minimum, that is exact: the line sleeps until room for that role's pods,
counted over all nodes, has reached the minimum. Otherwise the roles fit alone but not together, or not close enough to
each other, or the gang can do without that role; then any node that grows and holds one of its pods may be the one,
and the line sleeps until there is such a node.

`Watch.room` is counted on the draft at that moment. Later in the cycle room only shrinks, so it is an upper bound of
what the book holds when the plan is folded: a line may be woken for nothing, never left asleep though it fits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phalanx.core import fit
from phalanx.core.draft import Draft
from phalanx.model.demand import Demand, Gang
from phalanx.model.plan import Watch


def watches(draft: Draft, gang: Gang) -> tuple[Watch, ...]:
    """What a gang that found no room waits for."""
    found: dict[Demand, Watch] = {}  # roles may have the same demand
    needed = gang.needed()
    for at, (demand, role) in enumerate(zip(gang.demands, gang.roles, strict=True)):
        room = draft.room(demand)
        if room < role.minimum and at in needed:
            return (Watch(demand, room, role.minimum),)
        found[demand] = Watch(demand, room, 0)
    return tuple(found.values())


def heeds(draft: Draft, gang: Gang) -> bool:
    """Whether other pods may be a part of the reason."""
    return any(not draft.ordinary(demand) and draft.wishes(demand).heeds() for demand in gang.demands)


def screen(draft: Draft, gangs: Sequence[Gang]) -> list[int | None]:
    """For each gang of one role: how many of its pods fit in all, if that is less than its minimum; None if it fits.

    All at once, since a cycle that frees some room wakes many lines and the first few take it: comparing 64 demands
    with 5,000 nodes in one operation costs a tenth of doing it one by one."""
    demands = [gang.demands[0] for gang in gangs]
    needs = np.array([gang.roles[0].minimum for gang in gangs], np.int64)
    positions, fits = fit.fits_each(draft.free, [demand.amounts for demand in demands], len(draft))
    for at, demand in enumerate(demands):
        if (allowed := draft.allowed(demand.where)) is not None:
            fits[at] &= allowed[positions]
    few = (np.count_nonzero(fits, axis=1) < needs).nonzero()[0]  # on that many nodes one pod each would do
    rooms: list[int | None] = [None] * len(gangs)
    for at in few.tolist():
        found = positions[fits[at]]
        room = int(fit.holds(draft.free, demands[at].asks, found).sum()) if len(found) else 0
        rooms[at] = room if room < needs[at] else None
    return rooms
