"""A long sequence in order, whose members come and go anywhere.

It is kept in blocks, so that inserting and removing moves a short piece of memory, and nothing is ever put in order
anew: a heap from which members are deleted lazily is as fast on average, but clears itself up now and then, and with
100,000 members that one time costs more than ten cycles."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

FULL = 1024  # members of a block; a longer one is cut in two

Member = TypeVar("Member", bound=tuple[object, ...])


class Ordered(Generic[Member]):
    """Tuples, lower is sooner, and no two are equal."""

    __slots__ = ("_blocks", "_lasts")

    def __init__(self, members: Iterable[Member] = ()) -> None:
        every = sorted(members)
        half = FULL // 2
        self._blocks = [every[at : at + half] for at in range(0, len(every), half)]
        self._lasts = [block[-1] for block in self._blocks]

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[Member]:
        for block in self._blocks:
            yield from block

    def add(self, member: Member) -> None:
        blocks, lasts = self._blocks, self._lasts
        if not blocks:
            blocks.append([member])
            lasts.append(member)
            return
        at = min(bisect_left(lasts, member), len(blocks) - 1)
        block = blocks[at]
        insort(block, member)
        if len(block) > FULL:
            blocks.insert(at, block[: FULL // 2])
            lasts.insert(at, blocks[at][-1])
            del block[: FULL // 2]
            at += 1
        lasts[at] = block[-1]

    def remove(self, member: Member) -> None:
        """It must be there."""
        at = bisect_left(self._lasts, member)
        block = self._blocks[at]
        del block[bisect_left(block, member)]
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]

    def copy(self) -> Ordered[Member]:
        other = Ordered[Member]()
        other._blocks, other._lasts = [list(block) for block in self._blocks], list(self._lasts)
        return other
