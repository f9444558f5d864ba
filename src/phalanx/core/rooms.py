"""How many pods fit, of many gangs of one role, through a cycle.

Most that wake find that others were sooner, so knowing that must cost little. Within a cycle room only shrinks: who has
too little is *short* for the rest of it. Whoever comes up is counted by itself, unless it was since the last grant; and
many that are likely to be short are counted at once, against all nodes that hold a pod of the least of them, at a tenth
of the cost for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.draft import Draft
from phalanx.core.fit import Rows
from phalanx.model.demand import Gang, Where

BLOCK = 64  # gangs counted at once

Floats: TypeAlias = NDArray[np.float64]
Amounts: TypeAlias = Mapping[str, NDArray[np.int64]]  # resource -> an amount per node


class Rooms:
    """`uncounted`: gangs that will roughly come up, in order; some of them are counted whenever one has to be.
    `grants`: that took room so far."""

    def __init__(self, draft: Draft, uncounted: Iterator[Gang]) -> None:
        self.draft, self.uncounted = draft, uncounted
        self.grants = 0
        self._counted: dict[Gang, int] = {}  # those that had enough, and after how many grants
        self._short: dict[Gang, int] = {}  # what was counted of those that have too little
        self._wheres: dict[Where, int] = {}
        self._rows: list[Rows] = []  # by number of a `Where` less one: which rows it matches

    def short(self, gang: Gang) -> int | None:
        """How many of its pods fit at most, if it is known that those are too few."""
        return self._short.get(gang)

    def fits(self, gang: Gang) -> bool:
        """Whether by counting there is room for the gang now; if it was never counted, others are with it."""
        if gang not in self:
            self.count([gang, *islice((each for each in self.uncounted if each not in self), BLOCK - 1)])
        return self.fits_alone(gang)

    def fits_alone(self, gang: Gang) -> bool:
        """Whether by counting there is room for the gang now."""
        if gang in self._short:
            return False
        if self._counted.get(gang) != self.grants:
            self._note(gang, self.draft.room(gang.demands[0]))
        return gang not in self._short

    def __contains__(self, gang: Gang) -> bool:
        return gang in self._counted or gang in self._short

    def count(self, gangs: Iterable[Gang]) -> None:
        left = iter(sorted(gangs, key=size))  # those of a block ask about the same, and fit on the same few nodes
        while block := list(islice(left, BLOCK)):
            for gang, room in zip(block, self._rooms_of(block), strict=True):
                self._note(gang, room)

    def _note(self, gang: Gang, room: int) -> None:
        if room >= gang.roles[0].minimum:
            self._counted[gang] = self.grants
        else:
            self._short[gang] = room

    def _rooms_of(self, gangs: Sequence[Gang]) -> list[int]:
        draft, demands = self.draft, [gang.demands[0] for gang in gangs]
        asks = {name: np.array([each.amounts.get(name, 0) for each in demands], np.float64) for name in draft.free}
        wheres = np.array([self._number(each.where) for each in demands], np.intp)
        some = np.ones(len(draft), np.bool_)
        for name, column in draft.free.items():
            if least := asks[name].min():
                some &= column >= least
        positions = some.nonzero()[0]
        counts = held(asks, {name: column[positions] for name, column in draft.free.items()}, len(gangs))
        if wheres.any():
            counts *= self._matching(draft.rows[positions])[wheres]
        unheard = np.array([not each.amounts.keys() <= asks.keys() for each in demands])  # no node speaks of it
        rooms: list[int] = np.where(unheard, 0.0, counts.sum(axis=1)).astype(np.int64).tolist()
        return rooms

    def _number(self, where: Where) -> int:
        number = self._wheres.get(where)
        if number is None:
            rows = self.draft.matching(where)
            if rows is not None:
                self._rows.append(rows)
            number = self._wheres[where] = 0 if rows is None else len(self._rows)
        return number

    def _matching(self, rows: NDArray[np.intp]) -> Rows:
        """[number of a `Where`, row]: whether it matches; number 0 matches all."""
        return np.stack([np.ones(len(rows), np.bool_), *(each[rows] for each in self._rows)])


def held(asks: Mapping[str, Floats], amounts: Amounts, gangs: int) -> Floats:
    """[gang, node]: how many pods those amounts hold. Exact, since both sides are integers below 2**53."""
    most: Floats = np.full((gangs, len(next(iter(amounts.values()), ()))), np.inf)
    if not most.size:
        return most
    bound = np.inf
    for name, each in asks.items():
        asking = each.nonzero()[0]
        has = np.maximum(amounts[name], 0).astype(np.float64)
        if not len(asking) or has.min() >= each.max() * bound:
            continue  # there is enough of it for as many as the others allow
        if len(asking) == gangs:
            np.minimum(most, has / each[:, None], out=most)
            bound = float(most.max())
        else:
            most[asking] = np.minimum(most[asking], has / each[asking, None])
    return np.floor(most, out=most)


def size(gang: Gang) -> int:
    """By which those that ask much are told from those that ask little."""
    return gang.demands[0].asks[0][1]
