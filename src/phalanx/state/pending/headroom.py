"""The *headroom*: the amount of each resource that may still be charged to a queue before a limit or quota is reached.

The headroom is stored for each *row*. Usually each queue has one row. If the queue, or a queue above it, has limits for
each user, group or job, the queue has a separate row for each user, group or job. The limits of the queues on the path
from the row's queue to the root are the bounds of the row (`Bound`). `left` has the amount that each bound still
admits. If a bound applies to several rows, these rows use the same element of `left`. For each resource, the headroom
of a row is the smallest amount on its path:

    headroom(row, resource) = min( min of left(bound) over the path,
                                   left(pool) + sum of max(0, kept - claimed) over the path )

The second term is the availability rule of Kueue's KEP-79: a request first uses the amounts that the queues on its path
do not lend, and only then the pool. The module `state.queues.tree` explains `kept` and `claimed`. A request that costs
more than the headroom of its row cannot start. A request within the headroom may still exceed quota, because flavors,
optional groups and borrowing are not considered here. `core.quota.flavor_assignment` checks it exactly. The number of
started jobs is treated like the amount of a resource.

`state.queues.bounds` computes the amount that each bound still admits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.model.pod import Amount
from phalanx.state.queues.bounds import Bound, Rule, amount_left
from phalanx.state.queues.branch import ROOT, Branch
from phalanx.state.queues.quota import Charge, QueueUsage
from phalanx.state.queues.tree import QueueTree

RUNNING = ""  # the name of the resource that stands for the number of started jobs
UNBOUNDED, NOTHING = 0, 1  # `left[UNBOUNDED]` is infinite, `left[NOTHING]` is 0

Floats: TypeAlias = NDArray[np.float64]
AccountOf: TypeAlias = Callable[[Branch], QueueUsage]
Subject: TypeAlias = tuple[str, str]  # ("user", "group" or "job"; its name), or ("", "") for the queue itself

QUEUE: Subject = ("", "")


class HeadroomRow(NamedTuple):
    """A row of the headroom. `user`, `group`, `job`, `account`: as in the `Terms` of the row's requests; empty if
    decisions do not depend on them. `preemptible`: whether the jobs of the row may be preempted. In some queues only
    preemptible jobs may use more than the guarantee."""

    queue: str
    user: str = ""
    group: str = ""
    job: str = ""
    account: str = ""
    preemptible: bool = True


class Headroom:
    """The headroom of all rows. `left`: for each bound, the amount that it still admits; the index is called the
    *place* of the bound. `bounds[row]`: a pair (key, place) for each bound of a row, where the key is the number of the
    resource. `slack[row]`: such a pair for each amount that a queue on the row's path does not lend."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}  # resource -> the number of the resource
        self.rows: list[HeadroomRow] = []
        self.build(QueueTree())

    def build(self, tree: QueueTree) -> None:
        """Build the bounds of every row again, because the queue tree has changed. Each row keeps its number."""
        rows = self.rows
        self.tree = tree
        self.rows = []
        self.number_of: dict[HeadroomRow, int] = {}
        self.left: list[float] = [np.inf, 0.0]
        self.bounds: list[list[tuple[int, int]]] = []
        self.slack: list[list[tuple[int, int]]] = []
        self.pool: dict[int, int] = {}  # key -> the place of the pool's amount in `left`
        self.pooled: list[bool] = []  # for each row, whether the amounts of the pool limit it
        self._bound_at: list[Bound] = [Bound("", Rule.LIMIT)] * 2
        self._place_of: dict[Bound, int] = {}
        self._at: dict[tuple[str, Subject], list[int]] = {}  # (queue, subject) -> the places of their bounds
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
        """Return the key (the number) of a resource. A new resource gets the next number."""
        return self.keys.setdefault(resource, len(self.keys))

    def renew(self, queues: Iterable[str], subjects: Iterable[Subject] = ()) -> None:
        """Compute `left` again for the bounds of these queues. A bound for a single user, group or job is only included
        if it is in `subjects`."""
        for place, left in self._now(queues, subjects, attrgetter("account")):
            self.left[place] = left

    def charged(self, charge: Charge, account_of: AccountOf) -> None:
        """Compute `left` again after a cycle has added or released a charge. But never increase an amount in `left`,
        because other jobs may use a released amount only from the next cycle on (`renew`). `account_of`: returns the
        usage of a queue."""
        path = [branch.name for branch in self.tree.branches[charge.queue].path] if self._at else ()
        for place, left in self._now(path, subjects_of(charge), account_of):
            self.left[place] = min(left, self.left[place])

    def of_rows(self, left_of: Sequence[float] | None = None) -> Floats:
        """Return the headroom of all rows in all resources, as an array [key, row]. `left_of`: an earlier copy
        of `left` to use; None to use the present `left`."""
        if self._tables is None:
            self._tables = table(self.bounds, len(self.keys), UNBOUNDED), table(self.slack, len(self.keys), NOTHING)
        least, slack = self._tables
        left = np.array(self.left if left_of is None else left_of)
        found: Floats = left[least].min(axis=0)
        for key, place in self.pool.items():
            left_of_pool = left[place] + left[slack[:, key]].sum(axis=0)
            np.minimum(found[key], left_of_pool, out=found[key], where=np.array(self.pooled))
        return found

    def allows(self, row: int, cost: Sequence[float]) -> bool:
        """Return whether a cost is within the headroom of the row. `cost[key]`: the amount of the resource with this
        key."""
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
        """Store the bounds of a new row: the limits of the queues on its path to the root, and the amounts that these
        queues do not lend."""
        bounds: list[tuple[int, int]] = []
        slack: list[tuple[int, int]] = []
        self.bounds.append(bounds)
        self.slack.append(slack)
        branch = self.tree.branches[row.queue]
        self.pooled.append(bool(self.tree.keeps) and not branch.unbounded)
        if branch.unbounded:
            return
        for each in branch.path:
            for bound in bounds_of(each, row):
                bounds.append((self.key(bound.key[1]), self._place(each, bound, QUEUE)))
            for subject, bound in bounds_of_subjects(each, row):
                bounds.append((self.key(bound.key[1]), self._place(each, bound, subject)))
        if self.tree.keeps:
            self._bind_keeps(branch, slack)

    def _bind_keeps(self, branch: Branch, slack: list[tuple[int, int]]) -> None:
        for each in branch.path[:-1]:
            for key, kept in each.quota.kept.items():
                if kept and not key[0]:
                    slack.append((self.key(key[1]), self._place(each, Bound(each.name, Rule.KEEP, key), QUEUE)))
        if not self.pool:
            for key in sorted(self.tree.keeps):
                if not key[0]:
                    bound = Bound(ROOT, Rule.POOL, key)
                    self.pool[self.key(key[1])] = self._place(self.tree.root, bound, QUEUE)

    def _place(self, branch: Branch, bound: Bound, subject: Subject) -> int:
        place = self._place_of.get(bound)
        if place is None:
            place = self._place_of[bound] = len(self.left)
            self._bound_at.append(bound)
            self.left.append(self._measured(branch, branch.account, bound))
            self._at.setdefault((branch.name, subject), []).append(place)
        return place

    def _now(
        self, queues: Iterable[str], subjects: Iterable[Subject], account_of: AccountOf
    ) -> Iterator[tuple[int, float]]:
        """Yield (place of a bound, amount that it still admits) for the bounds of these queues. A bound for a single
        user, group or job is only included if it is in `subjects`."""
        if not self._at:
            return  # no queue has bounds
        subjects = [*subjects, QUEUE]
        for queue in queues:
            branch = self.tree.branches[queue]
            for subject in subjects:
                places = self._at.get((branch.name, subject))
                if places is not None:
                    account = account_of(branch)
                    for place in places:
                        yield place, self._measured(branch, account, self._bound_at[place])

    def _measured(self, branch: Branch, account: QueueUsage, bound: Bound) -> float:
        left: Amount = amount_left(branch, account, bound, self.tree.pool)
        # If the bound is exceeded, return 0, and not a negative number. Otherwise requests without this resource would
        # not be allowed.
        return upward(left) if left > 0 else 0.0


def bounds_of(branch: Branch, row: HeadroomRow) -> Iterable[Bound]:
    """Yield the bounds of the queue that apply to all of its jobs. Leave out limits on the amount of a single
    flavor."""
    queue = branch.queue
    if queue is None:
        return
    yield from (Bound(branch.name, Rule.LIMIT, key) for key in branch.quota.limit if not key[0])
    if queue.total.running is not None:
        yield Bound(branch.name, Rule.RUNNING)
    if not queue.borrow.allows(preemptible=row.preemptible):
        yield from (Bound(branch.name, Rule.GUARANTEE, key) for key in branch.quota.guaranteed if not key[0])


def bounds_of_subjects(branch: Branch, row: HeadroomRow) -> Iterable[tuple[Subject, Bound]]:
    """Yield (subject, bound) for the limits of the queue that apply to the user, the group and the job of the row."""
    queue = branch.queue
    if queue is None:
        return
    found = []
    if branch.rules.limits.users:
        found.append((("user", row.user), queue.per_user.of(row.user), Rule.USER, Rule.USER_RUNNING))
    if branch.rules.limits.groups:
        found.append((("group", row.group), queue.per_group.of(row.group), Rule.GROUP, Rule.GROUP_RUNNING))
    for subject, limits, amounts, running in found:
        for resource, _ in limits.resources:
            yield subject, Bound(branch.name, amounts, ("", resource), subject[1])
        if limits.running is not None:
            yield subject, Bound(branch.name, running, whose=subject[1])
    if branch.rules.limits.jobs and row.job:
        for resource, _ in queue.per_job.resources:
            yield ("job", row.job), Bound(branch.name, Rule.JOB, ("", resource), row.job)


def subjects_of(charge: Charge) -> tuple[Subject, ...]:
    """Return the user, the group and the job of the charge. Their limits apply to it."""
    return ("user", charge.user), ("group", charge.group), ("job", charge.job)


def table(places: Sequence[Sequence[tuple[int, int]]], keys: int, filler: int) -> NDArray[np.intp]:
    """Return an array [depth, key, row] of places in `left`. The elements [:, key, row] are the places of this key in
    this row; the remaining elements are `filler`. `places`: for each row, its pairs (key, place)."""
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
    """Return the amount as a float. If no float is equal to the amount, return the next larger one."""
    found = float(amount)
    return found if found >= amount else float(np.nextafter(found, np.inf))
