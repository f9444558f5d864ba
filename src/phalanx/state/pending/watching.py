"""Thresholds: which sleeping line is woken by which growth.

Every watched demand has a column entry with what it asks, and `room`: an upper bound of how many of its pods fit in
all. When rows have grown, one vector operation per resource tells for every watched demand by how much its room grew,
and the lines whose need is reached wake. The cost follows (watched demands x grown rows), not the lines, let alone
the jobs.

A line that watches with `need` 0 wakes as soon as a grown row holds one pod of that demand.

Lines of many queues may ask for the same gang. Those that lack nothing but room for its one role sleep as a *crowd*,
which is `roused` as one: with a thousand queues, waking the lines would cost more than deciding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from phalanx.model.plan import Watch
from phalanx.state.classes import Demand, Gang
from phalanx.state.pending.line import LineKey

MANY = 2**62
FEW = 64  # posts that are counted one by one faster than together, for one row
BATCH = 1 << 16  # cells looked at in one vector operation: they stay in the processor's cache; crowds are not counted
# where there are more

Amounts = Mapping[str, NDArray[np.int64]]  # resource -> an amount per grown row


class Post:
    """One watched demand: the lines, and the crowds, that wait for `room` to reach what they need; and the lines that
    any growth wakes."""

    __slots__ = ("any", "crowds", "demand", "needs", "room")

    def __init__(self, demand: Demand, room: int = 0) -> None:
        self.demand, self.room = demand, room
        self.crowds: dict[Gang, None] = {}
        self.needs: dict[int, dict[LineKey, None]] = {}
        self.any: dict[LineKey, None] = {}

    def lines(self, need: int) -> dict[LineKey, None]:
        return self.needs.setdefault(need, {}) if need else self.any

    def reached(self) -> Iterator[LineKey]:
        """The lines whose need the room now meets."""
        for need, lines in self.needs.items():
            if need <= self.room:
                yield from lines

    def reached_by(self) -> Iterator[Gang]:
        """The crowds whose need the room now meets."""
        return (gang for gang in self.crowds if gang.minimums[0] <= self.room)

    def copy(self) -> Post:
        other = Post(self.demand, self.room)
        other.needs = {need: dict(lines) for need, lines in self.needs.items()}
        other.any, other.crowds = dict(self.any), dict(self.crowds)
        return other


class Watches:
    """What a line watches is kept while it is awake too, so that going back to sleep costs nothing. `crowds`: the lines
    of each; `roused`: those for which there may be room; `unexplained`: how often in a row each was found to have none
    without asking why."""

    def __init__(self) -> None:
        self.posts: dict[Demand, Post] = {}
        self.crowds: dict[Gang, dict[LineKey, None]] = {}
        self.roused: dict[Gang, None] = {}
        self.unexplained: dict[Gang, int] = {}
        self._watched: dict[LineKey, tuple[Watch, ...]] = {}

    def sleep(self, key: LineKey, watches: tuple[Watch, ...], *, in_crowd: bool = False) -> None:
        """The line waits for these from now on. `in_crowd`: for one thing, the room that its gang's one role needs,
        together with all that ask the same. It must have waited for nothing."""
        if not watches:
            return
        self._watched[key] = watches
        for watch in watches:
            post = self.posts.get(watch.demand)
            if post is None:
                post = self.posts[watch.demand] = Post(watch.demand)
            post.room = watch.room
            if in_crowd:
                post.crowds[key.gang] = None
                self.crowds.setdefault(key.gang, {})[key] = None
            else:
                post.lines(watch.need)[key] = None

    def in_crowd(self, key: LineKey) -> bool:
        return key in self.crowds.get(key.gang, ())

    def quieten(self, gang: Gang, room: int | None, unexplained: int) -> None:
        """The crowd was looked at. `room`: of its pods fit in all, if that was counted."""
        self.roused.pop(gang, None)
        if gang in self.crowds:
            self.unexplained[gang] = unexplained
            if room is not None:
                self.posts[gang.demands[0]].room = room

    def rouse_all(self, unexplained: int) -> None:
        """Look at every crowd. `unexplained`: as if that often in a row it had not been asked why."""
        self.roused.update(dict.fromkeys(self.crowds))
        self.unexplained.update(dict.fromkeys(self.crowds, unexplained))

    def only(self, key: LineKey) -> Watch | None:
        """What the line watches, if that is one thing."""
        watched = self._watched.get(key, ())
        return watched[0] if len(watched) == 1 else None

    def forget(self, key: LineKey) -> None:
        """The line waits for nothing any more."""
        watched = self._watched.pop(key, None)
        if watched is None:
            return
        together = self.in_crowd(key)
        for watch in watched:
            post = self.posts[watch.demand]
            if together:
                self._leave_crowd(key, post)
            else:
                lines = post.lines(watch.need)
                lines.pop(key, None)
                if watch.need and not lines:
                    del post.needs[watch.need]
            if not (post.needs or post.any or post.crowds):
                del self.posts[watch.demand]

    def _leave_crowd(self, key: LineKey, post: Post) -> None:
        gang, lines = key.gang, self.crowds[key.gang]
        del lines[key]
        if not lines:
            del self.crowds[gang], post.crowds[gang]
            self.roused.pop(gang, None)
            self.unexplained.pop(gang, None)

    def grow(self, before: Amounts, after: Amounts) -> dict[LineKey, None]:
        """Rows grew: the lines to wake; crowds are roused."""
        woken: dict[LineKey, None] = {}
        posts = list(self.posts.values())
        if len(posts) * len(next(iter(after.values()), ())) > BATCH:
            posts = [post for post in posts if not self._rouse_uncounted(post)]
        for post, touched, growth in self._growths(posts, before, after):
            post.room += growth
            if touched:
                woken.update(post.any)
            if growth:
                woken.update(dict.fromkeys(post.reached()))
                self.roused.update(dict.fromkeys(post.reached_by()))
        return woken

    def _rouse_uncounted(self, post: Post) -> bool:
        """Where much has grown nearly every crowd is roused, and who decides counts them all at once: so they are not
        counted here as well. Whether that is all that waits for the post."""
        if post.needs or post.any:
            return False
        post.room = MANY
        self.roused.update(post.crowds)
        return True

    def grow_one(self, before: Mapping[str, int], after: Mapping[str, int]) -> dict[LineKey, None]:
        """One row grew: what `grow` says, counted without arrays, which for one row is many times faster."""
        woken: dict[LineKey, None] = {}
        for post in self.posts.values():
            asks = post.demand.asks
            held = held_by(after, asks)
            if not held:
                continue
            if post.any:
                woken.update(post.any)
            growth = held - held_by(before, asks)
            if growth > 0:
                post.room += growth
                if post.needs:
                    woken.update(dict.fromkeys(post.reached()))
                if post.crowds:
                    self.roused.update(dict.fromkeys(post.reached_by()))
        return woken

    def copy(self) -> Watches:
        other = Watches()
        other.posts = {demand: post.copy() for demand, post in self.posts.items()}
        other.crowds = {gang: dict(lines) for gang, lines in self.crowds.items()}
        other.roused, other.unexplained = dict(self.roused), dict(self.unexplained)
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
    try:
        return max(0, min([amounts[resource] // amount for resource, amount in asks]))
    except KeyError:
        return 0  # there is none of some of it


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
