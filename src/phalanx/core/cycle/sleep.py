"""What must grow before a line that found no room is worth looking at again.

If some role alone finds less room than its minimum, that is exact: the line sleeps until room for that role's pods,
counted over all nodes, has reached the minimum. Otherwise the roles fit alone but not together, or not close enough to
each other, or the gang can do without that role; then any node that grows and holds one of its pods may be the one,
and the line sleeps until there is such a node.

`Watch.room` is counted on the draft at that moment. Later in the cycle room only shrinks, so it is an upper bound of
what the book holds when the plan is folded: a line may be woken for nothing, never left asleep though it fits."""

from __future__ import annotations

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.packing import PlacementShortfall
from phalanx.model.plan import Watch
from phalanx.state.classes import Demand, Gang


def watches(draft: Draft, gang: Gang, lack: PlacementShortfall) -> tuple[Watch, ...]:
    """What a gang that found no room waits for. `lack`: of its trial; if nothing but amounts decide where the pods of
    its one role go, that has counted them."""
    if gang.tree is None and len(gang.roles) == 1 and draft.ordinary(gang.demands[0]):
        return (Watch(gang.demands[0], lack.placed, gang.minimums[0]),)
    found: dict[Demand, Watch] = {}  # roles may have the same demand
    needed = gang.required_roles()
    for at, (demand, role) in enumerate(zip(gang.demands, gang.roles, strict=True)):
        room = draft.room(demand)
        if room < role.minimum and at in needed:
            return (Watch(demand, room, role.minimum),)
        found[demand] = Watch(demand, room, 0)
    return tuple(found.values())


def heeds(draft: Draft, gang: Gang) -> bool:
    """Whether other pods may be a part of the reason."""
    if all(map(draft.ordinary, gang.demands)):
        return False
    return any(not draft.ordinary(demand) and draft.pod_affinity(demand).heeds() for demand in gang.demands)
