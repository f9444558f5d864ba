"""How many pods fit, of many gangs of one role, through a cycle.

Most that wake find that others were sooner, so counting must cost little. Many gangs are counted at once: one operation
compares 64 demands with all nodes, at a tenth of what one by one costs. Within a cycle room only shrinks, so what did
not fit does not fit later, and counting again looks only at the nodes that held a pod the last time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from phalanx.core import fit
from phalanx.core.draft import Draft
from phalanx.model.demand import Gang

BLOCK = 64  # gangs counted at once


class Rooms:
    """Counts end at what a gang needs. `uncounted`: gangs that will roughly come up, in order; some of them are counted
    whenever one has to be."""

    def __init__(self, draft: Draft, uncounted: Iterator[Gang]) -> None:
        self.draft, self.uncounted = draft, uncounted
        self.grants = 0  # of the cycle so far: counts from before are upper bounds
        self._known: dict[Gang, tuple[int, int]] = {}  # how many, and after how many grants
        self._rows: dict[Gang, NDArray[np.intp]] = {}  # where, of those that fit
        self._position_of: NDArray[np.intp] = np.zeros(0, np.intp)
        self._laid_out: NDArray[np.intp] | None = None

    def __contains__(self, gang: Gang) -> bool:
        return gang in self._known

    def bound(self, gang: Gang) -> int | None:
        """What was counted last, which is no less than what fits now; None: never counted."""
        known = self._known.get(gang)
        return None if known is None else known[0]

    def fits(self, gang: Gang) -> bool:
        """Whether by counting there is room for the gang now."""
        return self.of(gang) >= gang.roles[0].minimum

    def of(self, gang: Gang) -> int:
        """How many of its pods fit in all, if that is less than it needs; else what it needs."""
        known, need = self._known.get(gang), gang.roles[0].minimum
        if known is None:
            self.count([gang, *islice((each for each in self.uncounted if each not in self._known), BLOCK - 1)])
        elif known[0] >= need and known[1] != self.grants:
            self._count_again(gang)
        return self._known[gang][0]

    def count(self, gangs: Iterable[Gang]) -> None:
        """All of them, whatever is known."""
        left = iter(gangs)
        while block := list(islice(left, BLOCK)):
            self._count_block(block)

    def _count_block(self, gangs: list[Gang]) -> None:
        draft = self.draft
        demands = [gang.demands[0] for gang in gangs]
        positions, fits = fit.fits_each(draft.free, [demand.amounts for demand in demands], len(draft))
        for at, demand in enumerate(demands):
            if (allowed := draft.allowed(demand.where)) is not None:
                fits[at] &= allowed[positions]
        for at, gang in enumerate(gangs):
            self._note(gang, positions[fits[at]])

    def _count_again(self, gang: Gang) -> None:
        draft = self.draft
        if self._laid_out is not draft.rows:
            self._laid_out = draft.rows
            self._position_of = np.zeros(draft.columns.capacity, np.intp)
            self._position_of[draft.rows] = np.arange(len(draft))
        positions = self._position_of[self._rows[gang]]
        fits = np.ones(len(positions), np.bool_)
        for resource, amount in gang.demands[0].asks:
            fits &= draft.free[resource][positions] >= amount
        self._note(gang, positions[fits])

    def _note(self, gang: Gang, positions: NDArray[np.intp]) -> None:
        """These hold a pod, or more."""
        need, room = gang.roles[0].minimum, len(positions)
        if 0 < room < need:
            room = min(need, int(fit.holds(self.draft.free, gang.demands[0].asks, positions).sum()))
        self._known[gang] = (min(room, need), self.grants)
        if room >= need:
            self._rows[gang] = self.draft.rows[positions]
        else:
            self._rows.pop(gang, None)
