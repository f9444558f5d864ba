"""How much more each row of the quota tree may start, as columns.

A *row* is a queue and, where the path limits them, a user, a group or a job. Every number on its path that bounds what
starts is a `Bar`, and what a bar still lets in is kept in `left`, once for all rows below. The headroom of a row in a
resource is the least that is left on its path:

    headroom(row, resource) = min( min of left(bar) over the path,
                                   left(pool) + sum of max(0, kept - claimed) over the path )

The second term is the availability rule of Kueue's KEP-79 (`state.queue_tree`): what is within the keeps on the way
asks nothing of the pool. A request that costs more than its row's headroom certainly may not start;
`core.quota.flavor_assignment` decides the rest (flavors, groups that may be left out, who may borrow for what). Started
jobs are counted like a resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.model.pod import Amount
from phalanx.model.queue import BorrowingPolicy
from phalanx.state.pending.bars import Bar, Rule, room
from phalanx.state.queue_tree import ROOT, Branch, Charge, QueueTree, QueueUsage

RUNNING = ""  # in place of a resource: started jobs
UNBOUNDED, NOTHING = 0, 1  # places in `left` of what is infinite, and of zero

Floats: TypeAlias = NDArray[np.float64]
AccountOf: TypeAlias = Callable[[Branch], QueueUsage]
Subject: TypeAlias = tuple[str, str]  # ("user", "group" or "job"; its name), or ("", "") for the queue itself

QUEUE: Subject = ("", "")


class HeadroomRow(NamedTuple):
    """A row: whom the limits of a path tell apart, and the account that its queue's order does. Empty names: nobody
    is."""

    queue: str
    user: str = ""
    group: str = ""
    job: str = ""
    account: str = ""


class Headroom:
    """The headroom of all rows. `left[place]` is what a bar still lets in; `rows` by number. `bounds[row]`: (key,
    place) of the bars of a row; `slack[row]`: (key, place) of the keeps on its path."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}  # resource -> number
        self.rows: list[HeadroomRow] = []
        self.build(QueueTree())

    def build(self, tree: QueueTree) -> None:
        """The tree is another: every row is bound anew. Rows keep their numbers."""
        rows = self.rows
        self.tree = tree
        self.rows = []
        self.number_of: dict[HeadroomRow, int] = {}
        self.left: list[float] = [np.inf, 0.0]
        self.bounds: list[list[tuple[int, int]]] = []
        self.slack: list[list[tuple[int, int]]] = []
        self.pool: dict[int, int] = {}  # key -> place
        self.pooled: list[bool] = []  # by row: what queues keep bounds it
        self._bars: list[Bar] = [Bar("", Rule.LIMIT)] * 2
        self._place_of: dict[Bar, int] = {}
        self._at: dict[tuple[str, Subject], list[int]] = {}  # queue and subject -> places
        self._tables: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None
        for row in rows:
            self.row(row)

    def row(self, row: HeadroomRow) -> int:
        """Return the row's number."""
        number = self.number_of.get(row)
        if number is None:
            number = self.number_of[row] = len(self.rows)
            self.rows.append(row)
            self._bind(row)
            self._tables = None
        return number

    def key(self, resource: str) -> int:
        """Return the number of a resource that some bar bounds."""
        return self.keys.setdefault(resource, len(self.keys))

    def renew(self, queues: Iterable[str], subjects: Iterable[Subject], account_of: AccountOf) -> None:
        """Measure anew what is left in those queues, and for those subjects there."""
        for place, left in self._now(queues, subjects, account_of):
            self.left[place] = left

    def renew_pool(self) -> None:
        """The cluster has more in all, or less."""
        self.renew([ROOT], (), lambda branch: branch.account)

    def charged(self, charge: Charge, account_of: AccountOf) -> None:
        """Measure anew what that charge, made or given back in a cycle, leaves: never more than there was, as what is
        given back is there for others when the next cycle measures (`renew`)."""
        path = [branch.name for branch in self.tree.branches[charge.queue].path] if self._at else ()
        for place, left in self._now(path, subjects_of(charge), account_of):
            self.left[place] = min(left, self.left[place])

    def of_rows(self) -> Floats:
        """Return the headroom [key, row]."""
        if self._tables is None:
            self._tables = table(self.bounds, len(self.keys), UNBOUNDED), table(self.slack, len(self.keys), NOTHING)
        least, slack = self._tables
        left = np.array(self.left)
        found: Floats = left[least].min(axis=0)
        for key, place in self.pool.items():
            left_of_pool = left[place] + left[slack[:, key]].sum(axis=0)
            np.minimum(found[key], left_of_pool, out=found[key], where=np.array(self.pooled))
        return found

    def allows(self, row: int, cost: Sequence[float]) -> bool:
        """Return whether the row's headroom has that much, by key."""
        left = self.left
        for key, place in self.bounds[row]:
            if cost[key] > left[place]:
                return False
        if self.pooled[row]:
            slack = dict.fromkeys(self.pool, 0.0)
            for key, place in self.slack[row]:
                slack[key] += left[place]
            return all(cost[key] <= left[place] + slack[key] for key, place in self.pool.items())
        return True

    def _bind(self, row: HeadroomRow) -> None:
        """Enter all that bounds the row."""
        bounds: list[tuple[int, int]] = []
        slack: list[tuple[int, int]] = []
        self.bounds.append(bounds)
        self.slack.append(slack)
        branch = self.tree.branches[row.queue]
        self.pooled.append(self.tree.keeps and not branch.unbounded)
        if branch.unbounded:
            return
        for each in branch.path:
            for bar in bars_of(each, row):
                bounds.append((self.key(bar.key[1]), self._place(each, bar, QUEUE)))
            for subject, bar in bars_of_subjects(each, row):
                bounds.append((self.key(bar.key[1]), self._place(each, bar, subject)))
        if self.tree.keeps:
            self._bind_keeps(branch, slack)

    def _bind_keeps(self, branch: Branch, slack: list[tuple[int, int]]) -> None:
        for each in branch.path[:-1]:
            for key, kept in each.kept.items():
                if kept and not key[0]:
                    slack.append((self.key(key[1]), self._place(each, Bar(each.name, Rule.KEEP, key), QUEUE)))
        if not self.pool:
            resources = {key for each in self.tree.branches.values() for key, kept in each.kept.items() if kept}
            for key in sorted(resources):
                if not key[0]:
                    bar = Bar(ROOT, Rule.POOL, key)
                    self.pool[self.key(key[1])] = self._place(self.tree.root, bar, QUEUE)

    def _place(self, branch: Branch, bar: Bar, subject: Subject) -> int:
        place = self._place_of.get(bar)
        if place is None:
            place = self._place_of[bar] = len(self.left)
            self._bars.append(bar)
            self.left.append(self._measured(branch, branch.account, bar))
            self._at.setdefault((branch.name, subject), []).append(place)
        return place

    def _now(
        self, queues: Iterable[str], subjects: Iterable[Subject], account_of: AccountOf
    ) -> Iterator[tuple[int, float]]:
        """Yield (place, what is left) of the bars of those queues, and of those subjects there."""
        if not self._at:
            return  # nothing bounds anybody
        subjects = [*subjects, QUEUE]
        for queue in queues:
            branch = self.tree.branches[queue]
            for subject in subjects:
                places = self._at.get((branch.name, subject))
                if places is not None:
                    account = account_of(branch)
                    for place in places:
                        yield place, self._measured(branch, account, self._bars[place])

    def _measured(self, branch: Branch, account: QueueUsage, bar: Bar) -> float:
        left: Amount = room(branch, account, bar, self.tree.pool)
        return upward(left) if left > 0 else 0.0  # who asks nothing of it is not kept out by an excess


def bars_of(branch: Branch, row: HeadroomRow) -> Iterable[Bar]:
    """Yield what bounds all jobs of a queue alike, flavors aside."""
    queue = branch.queue
    if queue is None:
        return
    yield from (Bar(branch.name, Rule.LIMIT, key) for key in branch.limit if not key[0])
    if queue.total.running is not None:
        yield Bar(branch.name, Rule.RUNNING)
    if queue.borrow is BorrowingPolicy.NONE:
        yield from (Bar(branch.name, Rule.GUARANTEE, key) for key in branch.guaranteed if not key[0])


def bars_of_subjects(branch: Branch, row: HeadroomRow) -> Iterable[tuple[Subject, Bar]]:
    """Yield what bounds the row's user, group and job."""
    queue = branch.queue
    if queue is None:
        return
    found = []
    if branch.limits_users:
        found.append((("user", row.user), queue.per_user.of(row.user), Rule.USER, Rule.USER_RUNNING))
    if branch.limits_groups:
        found.append((("group", row.group), queue.per_group.of(row.group), Rule.GROUP, Rule.GROUP_RUNNING))
    for subject, limits, amounts, running in found:
        for resource, _ in limits.resources:
            yield subject, Bar(branch.name, amounts, ("", resource), subject[1])
        if limits.running is not None:
            yield subject, Bar(branch.name, running, whose=subject[1])
    if branch.limits_jobs and row.job:
        for resource, _ in queue.per_job.resources:
            yield ("job", row.job), Bar(branch.name, Rule.JOB, ("", resource), row.job)


def subjects_of(charge: Charge) -> tuple[Subject, ...]:
    """Return whose limits a charge may touch besides its queue's."""
    return ("user", charge.user), ("group", charge.group), ("job", charge.job)


def table(places: Sequence[Sequence[tuple[int, int]]], keys: int, filler: int) -> NDArray[np.intp]:
    """Return [depth, key, row]: the places by row and key, one below the other, filled up with `filler`."""
    columns: list[list[list[int]]] = []
    depth = 1
    for row in places:
        of_keys: list[list[int]] = [[] for _ in range(keys)]
        for key, place in row:
            of_keys[key].append(place)
        depth = max([depth, *map(len, of_keys)])
        columns.append(of_keys)
    found = np.full((depth, keys, len(places)), filler, np.intp)
    for at, of_keys in enumerate(columns):
        for key, each in enumerate(of_keys):
            found[: len(each), key, at] = each
    return found


def upward(amount: Amount) -> float:
    """Return the amount as a float that is no less."""
    found = float(amount)
    return found if found >= amount else float(np.nextafter(found, np.inf))
