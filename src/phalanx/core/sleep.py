"""What must grow before a line that found no room is worth looking at again.

If some role alone finds less room than its minimum, that is exact: the line sleeps until room for that role's pods,
counted over all nodes, has reached the minimum. Otherwise the roles fit alone but not together; then any node that
grows and holds one of their pods may be the one, and the line sleeps until there is such a node.

`Watch.room` is counted on the draft at that moment. Later in the cycle room only shrinks, so it is an upper bound of
what the book holds when the plan is folded: a line may be woken for nothing, never left asleep though it fits."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.draft import Draft
from phalanx.model.demand import Demand
from phalanx.model.job import Role
from phalanx.model.plan import Watch


def watches(draft: Draft, demands: Sequence[Demand], roles: Sequence[Role]) -> tuple[Watch, ...]:
    rooms = [draft.room(demand) for demand in demands]
    for demand, role, room in zip(demands, roles, rooms, strict=True):
        if room < role.minimum:
            return (Watch(demand, room, role.minimum),)
    return tuple(Watch(demand, room, 0) for demand, room in zip(demands, rooms, strict=True))


def too_little(draft: Draft, demands: Sequence[Demand], roles: Sequence[Role]) -> tuple[Watch, ...]:
    """What to watch, if counting shows that some role alone has too little room; else nothing."""
    for demand, role in zip(demands, roles, strict=True):
        room = draft.room(demand)
        if room < role.minimum:
            return (Watch(demand, room, role.minimum),)
    return ()
