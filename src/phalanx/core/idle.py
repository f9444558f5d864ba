"""Would it fit if nothing ran? For gangs of which counting does not tell: several roles that compete for the same
nodes, pods that keep each other away, parts of devices.

They are tried on the nodes as they would be with nobody's pods on them, once until a node changes. A gang for which no
place is found even so is told that it never fits, holds up nobody, and is looked at again when a node changes. Pods of
others may still come that it wants to be near, or that make a spread even: neither is asked of it here."""

from __future__ import annotations

from dataclasses import replace

from phalanx.core import misfit, objection
from phalanx.core.draft import Draft
from phalanx.core.fit import remember
from phalanx.core.gang import Shortfall, place
from phalanx.model.cluster import Cluster
from phalanx.model.columns import Columns
from phalanx.model.demand import Gang
from phalanx.model.job import Role
from phalanx.model.reason import Code, Reason


def never_fits(cluster: Cluster, draft: Draft, gang: Gang) -> Reason | None:
    """Why there is no place for the gang even if nothing runs. Kept with the facts."""
    if gang.tree is None and len(gang.roles) == 1 and gang.demands[0].plain:
        return None  # counting has told
    facts = cluster.columns.facts
    known: tuple[Reason | None] | None = facts.derived.get((never_fits, gang))
    if known is None:
        known = (sought(cluster, draft, gang),)
        remember(facts, (never_fits, gang), known)
    return known[0]


def sought(cluster: Cluster, draft: Draft, gang: Gang) -> Reason | None:
    empty = Draft(idle(cluster.columns), draft.topologies)
    alone = cluster.interned.gang(tuple(map(alone_of, gang.roles)), gang.groups, gang.closeness, gang.size)
    lack = place(empty, alone)
    if not isinstance(lack, Shortfall):
        return None
    if (near := lack.nearest) is not None and near.holds < near.wanted:
        return misfit.no_domain(alone, replace(near, empty=near.holds))
    if near is not None:
        reason = misfit.no_domain(alone, near)
    else:
        reason = objection.turned_away(empty, alone, lack) or misfit.no_room_left(alone, lack)
    return replace(reason, code=Code.NEVER_FITS, text=f"even if nothing ran: {reason.text}")


def idle(columns: Columns) -> Columns:
    """The nodes with nothing on them. Kept with the facts."""
    known: Columns | None = columns.facts.derived.get(idle)
    if known is None:
        known = columns.emptied()
        remember(columns.facts, idle, known)
    return known


def alone_of(role: Role) -> Role:
    """Without what others may yet bring about."""
    shape = role.shape
    if not shape.near and not shape.spread:
        return role
    return replace(role, shape=replace(shape, near=(), spread=()))
