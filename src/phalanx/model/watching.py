"""Thresholds: which sleeping line is woken by which growth.

Every watched demand has a column entry with what it asks, and `room`: an upper bound of how many of its pods fit in
all. When rows have grown, one vector operation per resource tells for every watched demand by how much its room grew,
and the lines whose need is reached wake. The cost follows (watched demands x grown rows), not the lines, let alone
the jobs.

A line that watches with `need` 0 wakes as soon as a grown row holds one pod of that demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from phalanx.model.demand import Demand
from phalanx.model.line import LineKey
from phalanx.model.plan import Watch

BATCH = 1 << 16  # cells looked at in one vector operation: they stay in the processor's cache

Amounts = Mapping[str, NDArray[np.int64]]  # resource -> an amount per grown row


class Post:
    """One watched demand: the lines that wait for `room` to reach their need, and those that any growth wakes."""

    __slots__ = ("any", "demand", "needs", "room", "watched_by")

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.room = 0
        self.needs: list[tuple[int, int, LineKey]] = []  # heap: need, token of the sleep, line
        self.any: dict[LineKey, None] = {}
        self.watched_by = 0

    def copy(self) -> Post:
        other = Post(self.demand)
        other.room, other.needs, other.any = self.room, list(self.needs), dict(self.any)
        other.watched_by = self.watched_by
        return other


class Watches:
    """`token` numbers the sleeps: a heap entry of an earlier sleep of the same line counts no more."""

    def __init__(self) -> None:
        self.posts: dict[Demand, Post] = {}
        self._sleeping: dict[LineKey, tuple[int, tuple[Watch, ...]]] = {}
        self._tokens = 0

    def __contains__(self, key: LineKey) -> bool:
        return key in self._sleeping

    def sleep(self, key: LineKey, watches: tuple[Watch, ...]) -> None:
        self.wake(key)
        self._tokens += 1
        self._sleeping[key] = (self._tokens, watches)
        for watch in watches:
            post = self.posts.get(watch.demand)
            if post is None:
                post = self.posts[watch.demand] = Post(watch.demand)
            post.watched_by += 1
            post.room = watch.room
            if watch.need:
                heappush(post.needs, (watch.need, self._tokens, key))
            else:
                post.any[key] = None

    def wake(self, key: LineKey) -> None:
        """The line sleeps no more."""
        _, watches = self._sleeping.pop(key, (0, ()))
        for watch in watches:
            post = self.posts[watch.demand]
            post.watched_by -= 1
            post.any.pop(key, None)
            if not post.watched_by:
                del self.posts[watch.demand]

    def grow(self, before: Amounts, after: Amounts) -> list[LineKey]:
        """Rows grew: the lines to wake, in a fixed order. They are no longer watched."""
        woken: dict[LineKey, None] = {}
        for post, touched, growth in self._growths(list(self.posts.values()), before, after):
            post.room += growth
            if touched:
                woken.update(post.any)
            while post.needs and post.needs[0][0] <= post.room:
                _, token, key = heappop(post.needs)
                if self._sleeping.get(key, (0,))[0] == token:
                    woken[key] = None
        for key in woken:
            self.wake(key)
        return list(woken)

    def copy(self) -> Watches:
        other = Watches()
        other.posts = {demand: post.copy() for demand, post in self.posts.items()}
        other._sleeping, other._tokens = dict(self._sleeping), self._tokens
        return other

    def _growths(self, posts: list[Post], before: Amounts, after: Amounts) -> Iterator[tuple[Post, bool, int]]:
        """(post, whether a grown row holds one of its pods, by how many pods its room grew)."""
        rows = len(next(iter(after.values()), ()))
        step = max(1, BATCH // max(1, rows))
        for start in range(0, len(posts), step):
            some = posts[start : start + step]
            held = holds(some, after, rows)
            growth = np.maximum(held - holds(some, before, rows), 0).sum(axis=1)
            touched = (held > 0).any(axis=1)
            for at, post in enumerate(some):
                yield post, bool(touched[at]), int(growth[at])


def holds(posts: list[Post], amounts: Amounts, rows: int) -> NDArray[np.float64]:
    """[post, row]: how many pods of the post's demand those amounts hold.

    Division in float64 is exact here: both sides are integers below 2**53, so a quotient that is not whole lies further
    below the next whole number than rounding reaches."""
    most: NDArray[np.float64] = np.full((len(posts), rows), np.inf)
    asked = [dict(post.demand.asks) for post in posts]
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
