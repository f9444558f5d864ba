"""Reasons of jobs that wait although enough nodes may be free: filters reject the nodes, or the gang would not even fit
on empty nodes.

The first part of the module is about a pod with constraints: some nodes have enough capacity for the pod, but filters
reject each of these nodes. The numbers in this reason are from the last attempt to place the gang. They describe the
nodes at the moment when the pod found no node; other pods of the gang may already have been placed by then.

The second part of the module is about a gang that would not fit on empty nodes. In simple cases a count of pods shows
this. The module decides the other cases: several roles that compete for the same nodes, anti-affinity within the gang,
shares of devices, topology, or an invalid gang. It tries to place the gang on a copy of the nodes without pods. The
result of this attempt is valid until a node changes. If the gang cannot be placed, its reason states that it can never
fit. A gang that can never fit does not block a strict queue, and is tried again when a node changes. The attempt
ignores pod affinity and topology spread, because pods of jobs that start later may satisfy these rules.
"""

from __future__ import annotations

from dataclasses import replace

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters.matching import cache_answer
from phalanx.core.placement.gang import place
from phalanx.core.placement.packing import NearestDomain, PlacementShortfall
from phalanx.model.job import Role
from phalanx.model.pod import format_amount
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.table import NodeTable


def filtered_out(draft: Draft, gang: Gang, shortfall: PlacementShortfall) -> Reason | None:
    """Return the reason of a gang if filters rejected all nodes that had enough capacity for one of its pods. Return
    None if the gang failed for another cause."""
    found, failed = draft.objections.get(gang.demands[shortfall.role], (0, ()))
    if not found or draft.ordinary(gang.demands[shortfall.role]):
        return None
    role = gang.roles[shortfall.role]
    placed = f"placed {shortfall.placed} of {shortfall.wanted} pods; " if shortfall.wanted > 1 else ""
    next_pod = ("the next pod" if placed else "the pod") + (f" of role {role.name}" if len(gang.roles) > 1 else "")
    some = "1 node has" if found == 1 else f"{found} nodes have"
    listed = ", ".join(f"{count} {text if count > 1 else singular(text)}" for text, count in failed)
    return Reason(
        code=ReasonCode.PLACEMENT_RULES,
        text=f"{placed}{some} room for {next_pod}, but {listed}",
        numbers={"placed": shortfall.placed, "pods": shortfall.wanted, "role": role.name, "with_room": found}
        | {"failed": dict(failed)},
        more_nodes_help=True,
    )


def singular(text: str) -> str:
    """Change a text about several nodes into a text about one node: `are not ready` becomes `is not ready`."""
    for many, one in (("are", "is"), ("do", "does"), ("have", "has")):
        if text.startswith((f"{many} ", f"{many},")):
            return one + text.removeprefix(many)
    return text


# --- empty nodes ------------------------------------------------------------------------------------------------------


def never_fits(cluster: Cluster, draft: Draft, gang: Gang) -> Reason | None:
    """Return the reason why the gang would not fit on empty nodes; None if it may fit. The result is cached with the
    node attributes."""
    facts = cluster.columns.attributes
    known: tuple[Reason | None] | None = facts.derived.get((never_fits, gang))
    if known is None:
        known = (never_fits_reason(cluster, draft, gang),)
        cache_answer(facts, (never_fits, gang), known)
    return known[0]


def never_fits_reason(cluster: Cluster, draft: Draft, gang: Gang) -> Reason | None:
    """Compute the result of `never_fits`, without the cache."""
    empty, alone = Draft(emptied_table(cluster.columns), draft.topologies), by_itself(cluster, gang)
    lack = place(empty, alone)
    if not isinstance(lack, PlacementShortfall):
        return None
    if (near := lack.nearest) is not None and near.holds < near.wanted:
        return no_domain(alone, replace(near, empty=near.holds))
    if near is not None:
        reason = no_domain(alone, near)
    else:
        reason = filtered_out(empty, alone, lack) or no_capacity_left(alone, lack)
    return replace(reason, code=ReasonCode.NEVER_FITS, text=f"even if nothing ran: {reason.text}")


def emptied_table(columns: NodeTable) -> NodeTable:
    """Return a node table with the same nodes, but without pods. The table is cached with the node attributes."""
    known: NodeTable | None = columns.attributes.derived.get(emptied_table)
    if known is None:
        known = columns.emptied()
        cache_answer(columns.attributes, emptied_table, known)
    return known


def by_itself(cluster: Cluster, gang: Gang) -> Gang:
    """Return the gang without its pod affinity and spread constraints, because pods that start later may satisfy
    them."""
    return cluster.interned.gang(tuple(map(without_pod_affinity, gang.roles)), gang.groups, gang.closeness, gang.size)


def without_pod_affinity(role: Role) -> Role:
    """Return the role without its pod affinity and spread constraints."""
    shape = role.shape
    if not shape.near and not shape.spread:
        return role
    return replace(role, shape=replace(shape, near=(), spread=()))


def invalid(gang: Gang) -> Reason:
    """Return the reason of an invalid gang. The reason states the error in the gang's roles and groups."""
    return Reason(code=ReasonCode.INVALID, text=gang.error)


def no_domain(gang: Gang, nearest: NearestDomain) -> Reason:
    """Return the reason of a gang for which all nodes together have enough capacity, but no single topology domain
    has. `nearest`: the domain that could hold the largest number of the gang's pods."""
    what = f"all {nearest.wanted} pods" if nearest.wanted > 1 else "the pod"
    if len(gang.roles) > 1:
        what += f" of {nearest.unit}" if nearest.unit else " of the job"
    if nearest.slices:
        what += " in slices of " + ", of ".join(f"{pods} per {level}" for pods, level in nearest.slices)
    code, numbers = ReasonCode.NO_DOMAIN, {"level": nearest.level, "domains": nearest.domains, "pods": nearest.wanted}
    if not nearest.domains:
        code = ReasonCode.NEVER_FITS
        text = f"{what} must share a domain of {nearest.level}, but no node has that label and those of coarser levels"
    elif nearest.empty < nearest.wanted:
        code = ReasonCode.NEVER_FITS
        text = f"no domain of {nearest.level} could ever hold {what}; the largest of {nearest.domains} holds "
        text += f"{nearest.empty} when empty"
    elif nearest.holds >= nearest.wanted:
        text = f"no domain of {nearest.level} holds {what} as they are to be placed inside of it"
    elif not nearest.holds:
        text = f"no domain of {nearest.level} holds {what} now, nor any of them, though the nodes together would"
    else:
        text = f"no domain of {nearest.level} holds {what} now, though the nodes together would; the best of "
        text += f"{nearest.domains}, {nearest.name}, holds {nearest.holds}"
    numbers |= {"domain": nearest.name, "holds": nearest.holds, "holds_when_empty": nearest.empty}
    return Reason(code=code, text=text, numbers=numbers, more_nodes_help=True)


def no_capacity_left(gang: Gang, lack: PlacementShortfall) -> Reason:
    """Return the reason of a gang that does not fit on empty nodes. It states how many pods of the gang could be
    placed, and the largest amounts that were then still free on one node."""
    demand, role, left = gang.demands[lack.role], gang.roles[lack.role], dict(lack.left)
    missing = [
        f"{format_amount(name, left[name])} of the {format_amount(name, ask)} {name}"
        for name, ask in demand.asks
        if ask > left[name]
    ]
    which = f" of role {role.name}" if role.name else ""
    text = f"{lack.placed} of {lack.wanted} pods find a place; for the next{which}, "
    text += (
        f"no node has more than {' and '.join(missing)} asked" if missing else "no node has all that it asks at once"
    )
    numbers = {"placed": lack.placed, "pods": lack.wanted, "role": role.name, "left_on_one_node": left}
    return Reason(
        code=ReasonCode.NO_ROOM, text=text, numbers=numbers | {"asked_per_pod": dict(demand.asks)}, more_nodes_help=True
    )
