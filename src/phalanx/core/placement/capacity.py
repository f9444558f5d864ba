"""For which gangs of one role there is room, by counting, through a cycle.

Most that wake find that others were sooner, so knowing that must cost little. Within a cycle room only shrinks: who has
too little is *short* for the rest of it. Whoever comes up is counted by itself, unless it was since the last grant; and
many that are likely to be short are counted at once, those that ask about the same against the few nodes that hold a
pod of the least of them, at a twentieth of the cost for each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters.matching import Rows
from phalanx.state.classes import Gang, NodeConstraints

BLOCK = 256  # gangs counted at once
FEW = 1024  # gangs times nodes that are counted faster each by itself

Floats: TypeAlias = NDArray[np.float64]


class GangColumns(NamedTuple):
    """Gangs as columns. `asks`: [resource, gang], of each pod; `wheres`: the number of its `NodeConstraints`; `needs`:
    its minimum, infinite if no node speaks of some of what it asks."""

    gangs: NDArray[np.object_]
    asks: Floats
    wheres: NDArray[np.intp]
    needs: Floats

    def only(self, which: slice | Rows | NDArray[np.intp]) -> GangColumns:
        return GangColumns(self.gangs[which], self.asks[:, which], self.wheres[which], self.needs[which])


class FreeCapacity:
    """`uncounted`: gangs that will roughly come up, in order; some of them are counted whenever one has to be.
    `grants`: that took room so far."""

    def __init__(self, draft: Draft, uncounted: Iterator[Gang]) -> None:
        self.draft, self.uncounted = draft, uncounted
        self.grants = 0
        self._counted: dict[Gang, int] = {}  # those that had enough, and after how many grants
        self._short: dict[Gang, int] = {}  # what was counted of those that have too little
        self._wheres: dict[NodeConstraints, int] = {}
        self._matches: list[Rows] = []  # by number of a `NodeConstraints` less one: which rows it matches

    def short(self, gang: Gang) -> int | None:
        """How many of its pods fit at most, if it is known that those are too few."""
        return self._short.get(gang)

    def fits(self, gang: Gang) -> bool:
        """Whether by counting there is room for the gang now; if it was never counted, others are with it."""
        if gang not in self:
            others = [*islice((each for each in self.uncounted if each not in self), BLOCK - 1)]
            if len(others) * len(self.draft) > FEW:
                self.count(self.asking([gang, *others]))
            else:
                for each in others:
                    self.fits_alone(each)
        return self.fits_alone(gang)

    def fits_alone(self, gang: Gang) -> bool:
        """Whether by counting there is room for the gang now."""
        if gang in self._short:
            return False
        if self._counted.get(gang) != self.grants:
            need = gang.minimums[0]
            room = self.draft.room_up_to(need, gang.demands[0])
            if room < need:
                self._short[gang] = room
                return False
            self._counted[gang] = self.grants
        return True

    def __contains__(self, gang: Gang) -> bool:
        return gang in self._counted or gang in self._short

    def asking(self, gangs: Collection[Gang]) -> GangColumns:
        """These as columns; beside each other are those that ask about the same, and so fit on the same few nodes."""
        demands = [gang.demands[0] for gang in gangs]
        amounts = [demand.amounts for demand in demands]
        asks = np.array([[each.get(name, 0) for each in amounts] for name in self.draft.free], np.float64)
        asks = asks.reshape(len(self.draft.free), len(gangs))  # a cluster without nodes has no resources
        known = np.count_nonzero(asks, axis=0) == [len(each) for each in amounts]
        column = np.empty(len(gangs), np.object_)
        column[:] = list(gangs)
        wheres = np.array([self._number(demand.where) for demand in demands], np.intp)
        needs = np.where(known, [gang.minimums[0] for gang in gangs], np.inf)
        return GangColumns(column, asks, wheres, needs).only(np.lexsort(asks[::-1]) if len(asks) else slice(None))

    def count(self, asking: GangColumns) -> GangColumns:
        """Those of them for which there is room now."""
        blocks = [asking.only(slice(at, at + BLOCK)) for at in range(0, len(asking.gangs), BLOCK)]
        rooms = np.concatenate([np.zeros(0), *map(self._rooms_of, blocks)])
        enough = rooms >= asking.needs
        self._short.update(zip(asking.gangs[~enough].tolist(), rooms[~enough].astype(np.int64).tolist(), strict=True))
        fitting = asking.only(enough)
        self._counted.update(dict.fromkeys(fitting.gangs.tolist(), self.grants))
        return fitting

    def _rooms_of(self, block: GangColumns) -> Floats:
        """How many of their pods fit."""
        draft = self.draft
        some = np.ones(len(draft), np.bool_)
        for column, asks in zip(draft.free.values(), block.asks, strict=True):
            if least := asks.min():
                some &= column >= least
        positions = some.nonzero()[0]
        amounts = np.array([column[positions] for column in draft.free.values()], np.float64)
        amounts = amounts.reshape(len(block.asks), len(positions))
        pods = pods_that_fit(block.asks, np.maximum(amounts, 0, out=amounts))
        if block.wheres.any():
            pods *= self._matching(draft.rows[positions])[block.wheres]
        return np.where(block.needs < np.inf, pods.sum(axis=1), 0.0)

    def _number(self, where: NodeConstraints) -> int:
        number = self._wheres.get(where)
        if number is None:
            rows = self.draft.matching(where)
            if rows is not None:
                self._matches.append(rows)
            number = self._wheres[where] = 0 if rows is None else len(self._matches)
        return number

    def _matching(self, rows: NDArray[np.intp]) -> Rows:
        """[number of a `NodeConstraints`, row]: whether it matches; number 0 matches all."""
        return np.stack([np.ones(len(rows), np.bool_), *(each[rows] for each in self._matches)])


def pods_that_fit(asks: Floats, amounts: Floats) -> Floats:
    """[gang, node]: how many pods that ask so much hold, of so much. Exact, since both are integers below 2**53."""
    most: Floats = np.full((asks.shape[1], amounts.shape[1]), np.inf)
    if not most.size:
        return most
    bound = np.inf
    for each, has in zip(asks, amounts, strict=True):
        asking = each.nonzero()[0]
        if not len(asking) or has.min() >= each.max() * bound:
            continue  # there is enough of it for as many as the others allow
        if len(asking) == len(each):
            np.minimum(most, has / each[:, None], out=most)
            bound = float(most.max())
        else:
            most[asking] = np.minimum(most[asking], has / each[asking, None])
    return np.floor(most, out=most)
