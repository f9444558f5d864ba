"""Place a gang whole on the draft, or not at all.

Every role's minimum must find room; then as many more, up to each role's count, as fit. A role's pods fill the nodes in
packing order (best fit). For a gang of one role that is exact: it finds room exactly if there is any. Roles compete for
the same nodes, so with several of them the order matters and packing is a search:

1. the role whose pod is the largest part of a node goes first, then the next;
2. if that fails, though each role alone would fit: the scarcest role first (the one whose room exceeds its minimum
   least), then other orders, at most `ORDERS` in all;
3. if there are at most `SEARCH_NODES` nodes that any of its pods fits on: a depth-first search over how many pods of
   each role go to each node, given up after `SEARCH_STEPS` steps.

Not guaranteed: that a gang of several roles that would just fit is found when more nodes than that are in question, or
the steps run out. (Deciding it is multi-dimensional bin packing, which is NP-hard.) It then waits, with the reason of
its first trial, and is tried again when room grows. What is guaranteed: what is placed fits, and a gang that is not
placed leaves the draft exactly as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, repeat
from typing import TypeAlias

import numpy as np

from phalanx.core.draft import Draft
from phalanx.core.fit import Rows
from phalanx.core.search import search
from phalanx.model.demand import Demand, Gang
from phalanx.model.job import Placement, Role

CHUNK = 1024  # positions compared at once: most gangs find their room in the first
ORDERS = 6

# (role, position in the draft, how many of its pods there)
Share: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """How far the first trial came, in numbers of that trial: `placed` of `wanted` pods; then `role` found no more
    room. `left`: per resource it asks, the most that was then free on one node it matches (so after the trial's own
    pods)."""

    role: int
    placed: int
    wanted: int
    left: tuple[tuple[str, int], ...]


def place(draft: Draft, gang: Gang, among: Rows | None = None) -> list[Placement] | Shortfall:
    """The whole gang's placements, taken from the draft; or how far it got, with nothing taken. `among`: by row of the
    book's columns, the only nodes it may go to; None: all."""
    within = None if among is None else among[draft.rows]
    shares: list[Share] = []
    shortfall = try_in_order(draft, gang, by_size(draft, gang), shares, within)
    if shortfall is not None and (len(gang.roles) == 1 or not rearrange(draft, gang, shares, within)):
        return shortfall
    for role, (demand, asked) in enumerate(zip(gang.demands, gang.roles, strict=True)):
        if asked.count > asked.minimum:
            fill(draft, demand, role, asked.count - asked.minimum, shares, within)
    return named(draft, shares)


def try_in_order(
    draft: Draft, gang: Gang, order: Sequence[int], shares: list[Share], within: Rows | None
) -> Shortfall | None:
    """Fill the minimums role by role in that order; if one fails, put everything back."""
    mark = draft.mark()
    for role in order:
        if fill(draft, gang.demands[role], role, gang.roles[role].minimum, shares, within):
            wanted = sum(each.minimum for each in gang.roles)
            placed = sum(count for _, _, count in shares)
            left = largest_left(draft, gang.demands[role])
            draft.rewind(mark)
            shares.clear()
            return Shortfall(role=role, placed=placed, wanted=wanted, left=left)
    return None


def rearrange(draft: Draft, gang: Gang, shares: list[Share], within: Rows | None) -> bool:
    """Other ways to place a gang of several roles (steps 2 and 3 above); whether one was found."""
    rooms = [draft.room(demand, within) for demand in gang.demands]
    if any(room < role.minimum for room, role in zip(rooms, gang.roles, strict=True)):
        return False
    for order in other_orders(rooms, gang.roles):
        if try_in_order(draft, gang, order, shares, within) is None:
            return True
    found = search(draft, gang, within)
    for role, position, count in found or ():
        draft.take(position, gang.demands[role].asks, count)
    shares += found or ()
    return found is not None


def by_size(draft: Draft, gang: Gang) -> Sequence[int]:
    """Roles by the largest part of the largest node that one pod asks, largest first."""
    if len(gang.roles) == 1:
        return (0,)
    return sorted(range(len(gang.roles)), key=lambda role: -draft.part_of_node(gang.demands[role]))


def other_orders(rooms: Sequence[int], roles: Sequence[Role]) -> Iterator[Sequence[int]]:
    scarcest = sorted(range(len(roles)), key=lambda role: rooms[role] / max(1, roles[role].minimum))
    return islice(permutations(scarcest), ORDERS)


def fill(draft: Draft, demand: Demand, role: int, count: int, shares: list[Share], within: Rows | None = None) -> int:
    """Take room for `count` pods, the fullest nodes first; how many found none. `within`: by position in the draft,
    the only nodes they may go to."""
    columns = draft.asked(demand)
    if columns is None:
        return count
    allowed = both(draft.allowed(demand.where), within)
    for start in range(0, len(draft), CHUNK):
        if not count:
            break
        stop = start + CHUNK
        fits = None if allowed is None else allowed[start:stop].copy()
        for column, _, amount in columns:
            enough = column[start:stop] >= amount
            fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
        assert fits is not None
        for offset in fits.nonzero()[0][:count].tolist():
            position = start + offset
            taken = count
            for _, view, amount in columns:
                if (most := view[position] // amount) < taken:
                    taken = most
            draft.take(position, demand.asks, taken)
            shares.append((role, position, taken))
            count -= taken
            if not count:
                break
    return count


def both(some: Rows | None, others: Rows | None) -> Rows | None:
    """Where both are true; None is true everywhere."""
    if some is None or others is None:
        return others if some is None else some
    return some & others


def largest_left(draft: Draft, demand: Demand) -> tuple[tuple[str, int], ...]:
    """Per resource asked, the most that is free now on one matching node."""
    allowed = draft.allowed(demand.where)
    left = []
    for resource, _ in demand.asks:
        column = draft.free.get(resource)
        if column is not None and allowed is not None:
            column = column[allowed]
        left.append((resource, 0 if column is None else int(column.max(initial=0))))
    return tuple(left)


def named(draft: Draft, shares: Sequence[Share]) -> list[Placement]:
    """The shares as placements: a role's pods are numbered in the order in which they were placed."""
    names, rows = draft.columns.names, draft.rows
    numbered: dict[int, int] = {}
    placements: list[Placement] = []
    for role, position, count in shares:
        first = numbered.get(role, 0)
        numbered[role] = first + count
        slots = zip(repeat(role), range(first, first + count), repeat(names[rows[position]]), repeat(()))
        placements.extend(map(Placement._make, slots))
    return placements
