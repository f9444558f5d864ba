"""Would it fit if nothing ran? For gangs of which counting does not tell: several roles that compete for the same
nodes, pods that keep each other away, parts of devices.

They are tried on the nodes as they would be with nobody's pods on them, once until a node changes. A gang for which no
place is found even so is told that it never fits, holds up nobody, and is looked at again when a node changes. Pods of
others may still come that it wants to be near, or that make a spread even: neither is asked of it here."""

from __future__ import annotations

from dataclasses import replace

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters.matching import cache_answer
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.reasons import filtered, misfit
from phalanx.model.job import Role
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.table import NodeTable


def never_fits(cluster: Cluster, draft: Draft, gang: Gang) -> Reason | None:
    """Why there is no place for the gang even if nothing runs. Kept with the facts."""
    if gang.tree is None and len(gang.roles) == 1 and gang.demands[0].unconstrained:
        return None  # counting has told
    facts = cluster.columns.attributes
    known: tuple[Reason | None] | None = facts.derived.get((never_fits, gang))
    if known is None:
        known = (never_fits_reason(cluster, draft, gang),)
        cache_answer(facts, (never_fits, gang), known)
    return known[0]


def never_fits_reason(cluster: Cluster, draft: Draft, gang: Gang) -> Reason | None:
    empty = Draft(emptied_table(cluster.columns), draft.topologies)
    alone = cluster.interned.gang(tuple(map(without_pod_affinity, gang.roles)), gang.groups, gang.closeness, gang.size)
    lack = place(empty, alone)
    if not isinstance(lack, PlacementShortfall):
        return None
    if (near := lack.nearest) is not None and near.holds < near.wanted:
        return misfit.no_domain(alone, replace(near, empty=near.holds))
    if near is not None:
        reason = misfit.no_domain(alone, near)
    else:
        reason = filtered.filtered_out(empty, alone, lack) or misfit.no_capacity_left(alone, lack)
    return replace(reason, code=ReasonCode.NEVER_FITS, text=f"even if nothing ran: {reason.text}")


def emptied_table(columns: NodeTable) -> NodeTable:
    """The nodes with nothing on them. Kept with the facts."""
    known: NodeTable | None = columns.attributes.derived.get(emptied_table)
    if known is None:
        known = columns.emptied()
        cache_answer(columns.attributes, emptied_table, known)
    return known


def without_pod_affinity(role: Role) -> Role:
    """Without what others may yet bring about."""
    shape = role.shape
    if not shape.near and not shape.spread:
        return role
    return replace(role, shape=replace(shape, near=(), spread=()))
