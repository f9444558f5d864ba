"""How many pods fit, of many gangs of one role, through a cycle.

Most that wake find that others were sooner, so knowing that must cost little. Many gangs are counted at once, against
all nodes that hold a pod of the least of them. From then on each grant lowers their counts by what it took on the few
nodes that it took from, one operation for all gangs; and who falls below its need is *lost*, since within a cycle room
only shrinks."""

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

    Those that still have room are columns: `_gangs`, `_needs`, `_counts`, what each asks (`_asks`: resource -> amounts,
    0 if it asks none), and `_masks`, which rows each may go to, by number (0: all)."""

    def __init__(self, draft: Draft, uncounted: Iterator[Gang]) -> None:
        self.draft, self.uncounted = draft, uncounted
        self.lost: list[Gang] = []  # since somebody looked
        self._short: dict[Gang, int] = {}  # what was counted of those that have too little
        self._at: dict[Gang, None] = {}
        self._gangs: NDArray[np.object_] = np.zeros(0, np.object_)
        self._needs: Floats = np.zeros(0)
        self._counts: Floats = np.zeros(0)
        self._asks: dict[str, Floats] = {name: np.zeros(0) for name in draft.free}
        self._masks: NDArray[np.intp] = np.zeros(0, np.intp)
        self._wheres: dict[Where, int] = {}
        self._rows: list[Rows] = []  # by number of a mask less one

    def short(self, gang: Gang) -> int | None:
        """How many of its pods fit at most, if it is known that those are too few."""
        return self._short.get(gang)

    def fits(self, gang: Gang) -> bool:
        """Whether by counting there is room for the gang now."""
        if gang not in self._at and gang not in self._short:
            self.count([gang, *islice((each for each in self.uncounted if each not in self), BLOCK - 1)])
        return gang not in self._short

    def __contains__(self, gang: Gang) -> bool:
        return gang in self._at or gang in self._short

    def count(self, gangs: Iterable[Gang]) -> None:
        left = iter(gangs)
        while block := list(islice(left, BLOCK)):
            self._count_block(block)

    def take(self, taken: Mapping[int, Mapping[str, int]]) -> None:
        """A grant took that from those positions."""
        if not len(self._gangs) or not taken:
            return
        positions = np.fromiter(taken, np.intp, len(taken))
        after = {name: self.draft.free[name][positions] for name in self._asks}
        before = {
            name: column + np.array([amounts.get(name, 0) for amounts in taken.values()], np.int64)
            for name, column in after.items()
        }
        both = {name: np.concatenate((column, after[name])) for name, column in before.items()}
        holding = held(self._asks, both, len(self._gangs))
        gone = holding[:, : len(positions)] - holding[:, len(positions) :]
        if self._rows:
            gone *= self._allowed(self._masks, positions)
        self._counts -= gone.sum(axis=1)
        self._drop_short()

    def _count_block(self, gangs: Sequence[Gang]) -> None:
        draft, demands = self.draft, [gang.demands[0] for gang in gangs]
        asks = {name: np.array([each.amounts.get(name, 0) for each in demands], np.float64) for name in draft.free}
        masks = np.array([self._mask(each.where) for each in demands], np.intp)
        some = np.ones(len(draft), np.bool_)
        for name, column in draft.free.items():
            if least := asks[name].min():
                some &= column >= least
        positions = some.nonzero()[0]
        counts = held(asks, {name: column[positions] for name, column in draft.free.items()}, len(gangs))
        if masks.any():
            counts *= self._allowed(masks, positions)
        needs = [gang.roles[0].minimum for gang in gangs]
        unheard = np.array([not each.amounts.keys() <= asks.keys() for each in demands])  # no node speaks of it
        self._gangs = np.concatenate((self._gangs, as_objects(gangs)))
        self._needs = np.concatenate((self._needs, np.array(needs, np.float64)))
        self._counts = np.concatenate((self._counts, np.where(unheard, 0.0, counts.sum(axis=1))))
        self._asks = {name: np.concatenate((column, asks[name])) for name, column in self._asks.items()}
        self._masks = np.concatenate((self._masks, masks))
        self._at.update(dict.fromkeys(gangs))
        self._drop_short()

    def _drop_short(self) -> None:
        """Who has too little from now on."""
        kept = self._counts >= self._needs
        if kept.all():
            return
        short = ~kept
        for gang, count in zip(self._gangs[short].tolist(), self._counts[short].tolist(), strict=True):
            self._short[gang] = int(count)
            self.lost.append(gang)
        self._gangs, self._needs, self._counts = self._gangs[kept], self._needs[kept], self._counts[kept]
        self._asks = {name: column[kept] for name, column in self._asks.items()}
        self._masks = self._masks[kept]

    def _mask(self, where: Where) -> int:
        number = self._wheres.get(where)
        if number is None:
            rows = self.draft.matching(where)
            if rows is not None:
                self._rows.append(rows)
            number = self._wheres[where] = 0 if rows is None else len(self._rows)
        return number

    def _allowed(self, masks: NDArray[np.intp], positions: NDArray[np.intp]) -> Rows:
        """[gang, position]: whether it may go there."""
        rows = self.draft.rows[positions]
        everywhere = np.ones(len(rows), np.bool_)
        return np.stack([everywhere, *(each[rows] for each in self._rows)])[masks]


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


def as_objects(gangs: Sequence[Gang]) -> NDArray[np.object_]:
    found = np.empty(len(gangs), np.object_)
    found[:] = gangs
    return found
