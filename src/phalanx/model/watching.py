"""Thresholds: which sleeping line is woken by which growth.

Every watched demand has a column entry with what it asks, and `room`: an upper bound of how many of its pods fit in
all. When rows have grown, one vector operation per resource tells for every watched demand by how much its room grew,
and the lines whose need is reached wake. The cost follows (watched demands x grown rows), not the lines, let alone
the jobs.

A line that watches with `need` 0 wakes as soon as a grown row holds one pod of that demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from phalanx.model.demand import Demand
from phalanx.model.line import LineKey
from phalanx.model.plan import Watch

MANY = 2**62
FEW = 64  # posts that are counted one by one faster than together, for one row
BATCH = 1 << 16  # cells looked at in one vector operation: they stay in the processor's cache

Amounts = Mapping[str, NDArray[np.int64]]  # resource -> an amount per grown row


class Post:
    """One watched demand: the lines that wait for `room` to reach what they need, and those that any growth wakes."""

    __slots__ = ("any", "demand", "needs", "room")

    def __init__(self, demand: Demand, room: int = 0) -> None:
        self.demand, self.room = demand, room
        self.needs: dict[int, dict[LineKey, None]] = {}
        self.any: dict[LineKey, None] = {}

    def lines(self, need: int) -> dict[LineKey, None]:
        return self.needs.setdefault(need, {}) if need else self.any

    def copy(self) -> Post:
        other = Post(self.demand, self.room)
        other.needs = {need: dict(lines) for need, lines in self.needs.items()}
        other.any = dict(self.any)
        return other


class Watches:
    """What a line watches is kept while it is awake too, so that going back to sleep costs nothing."""

    def __init__(self) -> None:
        self.posts: dict[Demand, Post] = {}
        self._watched: dict[LineKey, tuple[Watch, ...]] = {}

    def sleep(self, key: LineKey, watches: tuple[Watch, ...]) -> None:
        """The line waits for these from now on."""
        self.forget(key)
        self._watched[key] = watches
        for watch in watches:
            post = self.posts.setdefault(watch.demand, Post(watch.demand))
            post.room = watch.room
            post.lines(watch.need)[key] = None

    def only(self, key: LineKey) -> Watch | None:
        """What the line watches, if that is one thing."""
        watched = self._watched.get(key, ())
        return watched[0] if len(watched) == 1 else None

    def forget(self, key: LineKey) -> None:
        """The line waits for nothing any more."""
        for watch in self._watched.pop(key, ()):
            post = self.posts[watch.demand]
            lines = post.lines(watch.need)
            lines.pop(key, None)
            if watch.need and not lines:
                del post.needs[watch.need]
            if not post.needs and not post.any:
                del self.posts[watch.demand]

    def grow(self, before: Amounts, after: Amounts) -> dict[LineKey, None]:
        """Rows grew: the lines to wake."""
        woken: dict[LineKey, None] = {}
        for post, touched, growth in self._growths(list(self.posts.values()), before, after):
            post.room += growth
            if touched:
                woken.update(post.any)
            if growth:
                for need, lines in post.needs.items():
                    if need <= post.room:
                        woken.update(lines)
        return woken

    def grow_one(self, before: Mapping[str, int], after: Mapping[str, int]) -> dict[LineKey, None]:
        """One row grew: what `grow` says, counted without arrays, which for one row is many times faster."""
        woken: dict[LineKey, None] = {}
        for post in self.posts.values():
            asks = post.demand.asks
            held = held_by(after, asks)
            if not held:
                continue
            woken.update(post.any)
            growth = held - held_by(before, asks)
            if growth > 0:
                post.room += growth
                for need, lines in post.needs.items():
                    if need <= post.room:
                        woken.update(lines)
        return woken

    def copy(self) -> Watches:
        other = Watches()
        other.posts = {demand: post.copy() for demand, post in self.posts.items()}
        other._watched = dict(self._watched)
        return other

    def _growths(self, posts: list[Post], before: Amounts, after: Amounts) -> Iterator[tuple[Post, bool, int]]:
        """(post, whether a grown row holds one of its pods, by how many pods its room grew)."""
        rows = len(next(iter(after.values()), ()))
        step = max(1, BATCH // max(1, rows))
        for start in range(0, len(posts), step):
            some = posts[start : start + step]
            held = holds(some, after, rows)
            growth = np.maximum(held - holds(some, before, rows), 0).sum(axis=1)
            touched = np.count_nonzero(held, axis=1)
            for at, post in enumerate(some):
                yield post, bool(touched[at]), int(growth[at])


def held_by(amounts: Mapping[str, int], asks: tuple[tuple[str, int], ...]) -> int:
    """How many pods with these asks the amounts hold."""
    most = MANY
    for resource, amount in asks:
        has = amounts.get(resource, 0) // amount
        if has < most:
            most = has
    return max(0, most)


def holds(posts: list[Post], amounts: Amounts, rows: int) -> NDArray[np.float64]:
    """[post, row]: how many pods of the post's demand those amounts hold.

    Division in float64 is exact here: both sides are integers below 2**53, so a quotient that is not whole lies further
    below the next whole number than rounding reaches."""
    most: NDArray[np.float64] = np.full((len(posts), rows), np.inf)
    asked = [post.demand.amounts for post in posts]
    for resource in sorted(set().union(*asked)):
        asks = np.array([each.get(resource, 0) for each in asked], np.float64)
        asking = np.flatnonzero(asks)
        column = amounts.get(resource)
        has = np.zeros(rows) if column is None else np.maximum(column, 0).astype(np.float64)
        if len(asking) == len(posts):
            np.minimum(most, has / asks[:, None], out=most)
        else:
            most[asking] = np.minimum(most[asking], has / asks[asking, None])
    np.floor(most, out=most)
    return most
