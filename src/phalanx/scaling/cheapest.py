"""Search the cheapest numbers of nodes of several groups that let a gang fit.

The search starts with the largest number of nodes of each group. It removes nodes group by group, in several orders of
the groups. Then it tries all cheaper combinations within a budget of trials. With few groups and small gangs the result
is the cheapest there is. More nodes never hurt: if a gang fits with some numbers of nodes, it also fits with larger
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

Counts: TypeAlias = tuple[int, ...]  # for each group, the number of nodes

ORDERS = 24  # how many orders of the groups are tried for removing nodes
TRIALS = 400  # the most trials for one gang


class Offer(NamedTuple):
    """The offer of one group: the price of a node, its delay in seconds, and the largest number of nodes."""

    price: float
    delay_s: float
    most: int


class Search:
    """The search for one gang. `fits`: a function that returns whether the gang fits with these numbers of nodes."""

    def __init__(self, offers: Sequence[Offer], fits: Callable[[Counts], bool]) -> None:
        self.offers, self._fits = offers, fits
        self.known: dict[Counts, bool] = {}
        self.best: Counts | None = None

    def fits(self, counts: Counts) -> bool:
        """Return whether the gang fits; each combination is tried once."""
        if counts not in self.known:
            self.known[counts] = self._fits(counts)
        return self.known[counts]

    def cost(self, counts: Counts) -> tuple[float, float, int, Counts]:
        """Return the key by which combinations are compared: price, then delay, then number of nodes."""
        used = [(offer, count) for offer, count in zip(self.offers, counts, strict=True) if count]
        price = sum(offer.price * count for offer, count in used)
        return round(price, 9), max((offer.delay_s for offer, _ in used), default=0.0), sum(counts), counts

    def note(self, counts: Counts) -> None:
        """Keep the combination if it is the cheapest so far."""
        if self.best is None or self.cost(counts) < self.cost(self.best):
            self.best = counts

    def least(self, counts: Counts, at: int, high: int) -> int | None:
        """Return the smallest number of nodes of the group `at`, at most `high`, with which the gang fits."""
        if not self.fits(replaced(counts, at, high)):
            return None
        low = 0
        while low < high:
            middle = (low + high) // 2
            if self.fits(replaced(counts, at, middle)):
                high = middle
            else:
                low = middle + 1
        return high

    def take_away(self) -> None:
        """Start from the largest numbers and reduce one group after the other, in several orders."""
        most = tuple(offer.most for offer in self.offers)
        groups = sorted(range(len(most)), key=lambda at: -self.offers[at].price)
        for order in islice(permutations(groups), ORDERS):
            counts = most
            for at in order:
                needed = self.least(counts, at, counts[at])
                counts = counts if needed is None else replaced(counts, at, needed)
            self.note(counts)

    def try_cheaper(self, counts: Counts, at: int) -> None:
        """Try all combinations that begin with `counts[:at]` and are cheaper than the best one."""
        assert self.best is not None
        if len(self.known) >= TRIALS:
            return
        offer = self.offers[at]
        for nodes in range(offer.most + 1):
            tried = replaced(counts, at, nodes)
            if self.cost(tried)[:1] > self.cost(self.best)[:1] or len(self.known) >= TRIALS:
                return
            if at + 1 == len(self.offers):
                self.finish(counts, at)
                return
            self.try_cheaper(tried, at + 1)

    def finish(self, counts: Counts, at: int) -> None:
        """Find the smallest number of nodes of the last group that is worth its price."""
        assert self.best is not None
        left, price = self.cost(self.best)[0] - self.cost(counts)[0], self.offers[at].price
        high = self.offers[at].most if price <= 0 else min(self.offers[at].most, int(left / price + 1e-9))
        if (nodes := self.least(counts, at, high)) is not None:
            self.note(replaced(counts, at, nodes))


def replaced(counts: Counts, at: int, nodes: int) -> Counts:
    """Return the numbers with another number of nodes for the group `at`."""
    return (*counts[:at], nodes, *counts[at + 1 :])


def cheapest(offers: Sequence[Offer], fits: Callable[[Counts], bool]) -> Counts | None:
    """Return the cheapest numbers of nodes with which the gang fits; None if it does not fit with all nodes."""
    search, none = Search(offers, fits), (0,) * len(offers)
    if search.fits(none):
        return none
    if not any(offer.most for offer in offers) or not search.fits(tuple(offer.most for offer in offers)):
        return None
    search.take_away()
    search.try_cheaper(none, 0)
    return search.best
