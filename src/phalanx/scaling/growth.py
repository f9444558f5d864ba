"""Plan the cheapest additional nodes for waiting gangs. The gangs are placed in a copy of the cluster. In this copy,
the requested nodes have already arrived, and there are additional nodes that could still be requested.

The gangs are placed one after the other. So the nodes that are requested for a first gang may have free capacity that a
second gang uses.

`GrowthSearch` finds, for several node groups, the cheapest numbers of nodes with which a gang fits.

The search starts with the largest number of nodes of each group. It removes nodes group by group, in several orders of
the groups. Then it tries all cheaper combinations within a budget of trials. With few groups and small gangs the result
is the cheapest possible combination. The search assumes that a gang that fits with some numbers of nodes also fits with
larger numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters.matching import Rows
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.preemption.nomination import PATIENCE_S
from phalanx.core.reasons.explain import holds
from phalanx.model.job import Placement
from phalanx.model.node import NodeGroup
from phalanx.model.plan import RequestNodes
from phalanx.model.policy import Policy
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster

Counts: TypeAlias = tuple[int, ...]  # the number of nodes of each group, in the order of the groups

ORDERS = 24  # the number of different orders of the groups in which nodes are removed
TRIALS = 400  # the maximum number of combinations that are tried for one gang


class Offer(NamedTuple):
    """The offer of one group: the price of a node, the number of seconds until a requested node arrives, and the
    largest number of nodes."""

    price: float
    delay_s: float
    most: int


class GrowthSearch:
    """The search for the cheapest nodes for one gang. `fits`: a function that returns whether the gang fits with these
    numbers of nodes."""

    def __init__(self, offers: Sequence[Offer], fits: Callable[[Counts], bool]) -> None:
        self.offers, self._fits = offers, fits
        self.known: dict[Counts, bool] = {}
        self.best: Counts | None = None

    def fits(self, counts: Counts) -> bool:
        """Return True if the gang fits with these numbers of nodes. Each combination is tried only once."""
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
        """Start from the largest numbers of nodes, and reduce the number of one group after the other, in several
        orders of the groups."""
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
        """Find the smallest number of nodes of the last group with which the gang fits. Keep the combination if it is
        cheaper than the best one."""
        assert self.best is not None
        left, price = self.cost(self.best)[0] - self.cost(counts)[0], self.offers[at].price
        high = self.offers[at].most if price <= 0 else min(self.offers[at].most, int(left / price + 1e-9))
        if (nodes := self.least(counts, at, high)) is not None:
            self.note(replaced(counts, at, nodes))


def replaced(counts: Counts, at: int, nodes: int) -> Counts:
    """Return `counts`, with the number of the group at index `at` replaced by `nodes`."""
    return (*counts[:at], nodes, *counts[at + 1 :])


def cheapest(offers: Sequence[Offer], fits: Callable[[Counts], bool]) -> Counts | None:
    """Return the cheapest numbers of nodes with which the gang fits; None if the gang does not fit even with all
    nodes."""
    search, none = GrowthSearch(offers, fits), (0,) * len(offers)
    if search.fits(none):
        return none
    if not any(offer.most for offer in offers) or not search.fits(tuple(offer.most for offer in offers)):
        return None
    search.take_away()
    search.try_cheaper(none, 0)
    return search.best


TOGETHER = 256  # the maximum number of pods for which nodes are planned together
LEAST = 1e-9  # prices with a smaller difference count as equal


class GrowingCluster:
    """The cluster in one cycle, together with the nodes that could be requested.

    `sizes`: the number of nodes of each group. `most`: the maximum number of nodes of a group that are requested in a
    cycle.

    `coming`: the nodes that were requested before this cycle. `new`: the nodes that may be requested, with their
    groups. `bought`: the new nodes that are requested in this cycle."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        now_s: float,
        *,
        sizes: Counter[str],
        most: int,
    ) -> None:
        self.cluster, self.now_s, groups = cluster, now_s, cluster.columns.groups
        table = cluster.columns.copy()
        self.coming = dict(groups.coming)
        for name, coming in self.coming.items():
            node, group = table.node(name), groups.known.get(coming.group)
            if node is not None and group is not None and group.on_demand is None:
                table.update(replace(node, ready=True, unschedulable=False, taints=group.template.taints))
        self.new_of: dict[str, list[str]] = {}
        self.bought: set[str] = set()
        for group in groups.known.values():
            spare = min(most, group.max_nodes - sizes[group.name]) if may_request(cluster, group, now_s) else 0
            self.new_of[group.name] = list(new_names(cluster, group, spare))
            for name in self.new_of[group.name]:
                table.update(replace(group.node(name), ready=True))
        self.new = {name: group for group, names in self.new_of.items() for name in names}
        self.table = table
        self.draft = Draft(table, policy.topologies + cluster.declared_topologies, policy.score)
        self.allowed = np.ones(table.capacity, np.bool_)
        self.allowed[[table.row_of[name] for name in self.new]] = False

    def grow(self, gang: Gang) -> list[Placement] | None:
        """Return placements of the gang on the cheapest nodes. Return None if the gang fits without more nodes, or does
        not fit even with more nodes."""
        found = self.placed([gang])
        if found is None:
            return None
        placements = found[0]
        used = {placement.node for placement in placements}
        if not any(name in self.coming or name in self.new for name in used):
            return None
        self.take(used)
        return placements

    def cheaper_together(self, gangs: Sequence[Gang], begin: int) -> list[list[Placement]] | None:
        """Undo the placements that `grow` has made since the mark `begin` of the draft, and plan the nodes for all
        these gangs together. If this is cheaper than the nodes that `grow` found for one gang after the other, return
        the new placements; otherwise return None. After this call, no further gang may be placed."""
        price = self.price()
        if len(gangs) < 2 or not price or sum(role.minimum for gang in gangs for role in gang.roles) > TOGETHER:
            return None
        self.draft.rewind(begin)
        self.bought = set()
        found = self.placed(gangs)
        if found is None:
            return None
        self.take({placement.node for placements in found for placement in placements})
        return found if self.price() < price - LEAST else None

    def placed(self, gangs: Sequence[Gang]) -> list[list[Placement]] | None:
        """Place the gangs, in order, on the cheapest nodes. If they do not fit, return None and place none of them."""
        groups = [group for group in self.cluster.columns.groups.known.values() if self.is_useful(group, gangs)]
        most = sum(role.minimum for gang in gangs for role in gang.roles)
        offers = [Offer(each.price_per_hour, each.delay_s, min(most, len(self.spare(each)))) for each in groups]

        def fits(tried: Counts) -> bool:
            mark = self.draft.mark()
            fit = self.try_on(gangs, self.mask(groups, tried)) is not None
            self.draft.rewind(mark)
            return fit

        counts = cheapest(offers, fits)
        return None if counts is None else self.try_on(gangs, self.mask(groups, counts))

    def try_on(self, gangs: Sequence[Gang], among: Rows) -> list[list[Placement]] | None:
        """Place the gangs, in order, on these nodes, and return their placements; None if a gang does not fit."""
        found = []
        for gang in gangs:
            placements = place(self.draft, gang, among)
            if isinstance(placements, PlacementShortfall):
                return None
            found.append(placements)
        return found

    def is_useful(self, group: NodeGroup, gangs: Sequence[Gang]) -> bool:
        """Return whether some pod of the gangs could run on a node of the group that may be requested."""
        return bool(self.spare(group)) and any(holds(group, demand) for gang in gangs for demand in gang.demands)

    def spare(self, group: NodeGroup) -> list[str]:
        """Return the nodes of the group that may be requested and are not used yet."""
        return [name for name in self.new_of[group.name] if name not in self.bought]

    def mask(self, groups: Sequence[NodeGroup], counts: Counts) -> Rows:
        """Return the mask of the node table's rows (one for each node) that a placement may use: the nodes of the
        cluster, the new nodes that are already used, and some unused new nodes. `counts`: how many unused new nodes of
        each group in `groups` may be used."""
        mask, row_of = self.allowed.copy(), self.table.row_of
        for group, nodes in zip(groups, counts, strict=True):
            mask[[row_of[name] for name in self.spare(group)[:nodes]]] = True
        mask[[row_of[name] for name in self.bought]] = True
        return mask

    def take(self, used: set[str]) -> None:
        """Add the new nodes in `used` to the nodes that are requested in this cycle (`bought`)."""
        self.bought |= used & self.new.keys()

    def price(self) -> float:
        """Return the price per hour of the nodes that are requested in this cycle."""
        known = self.cluster.columns.groups.known
        return sum(known[self.new[name]].price_per_hour for name in self.bought)

    def requests(self, job: str, placements: Sequence[Placement], done: set[str]) -> Iterator[RequestNodes]:
        """Yield the requests for the new nodes of the placements that are not in `done`, and add these nodes to
        `done`."""
        used = {placement.node for placement in placements}
        for group in self.cluster.columns.groups.known.values():
            names = [name for name in self.new_of[group.name] if name in used and name not in done]
            if names:
                done.update(names)
                yield request_of(group, names, job, self.now_s)

    def until_s(self, placements: Sequence[Placement]) -> float:
        """Return the time (seconds since the epoch) until which a job with these placements waits for its nodes."""
        used, known = {placement.node for placement in placements}, self.cluster.columns.groups.known
        times = [self.now_s + known[self.new[name]].timeout_s for name in used if name in self.new]
        times += [self.coming[name].until_s for name in used if name in self.coming]
        return max(times, default=self.now_s + PATIENCE_S)


def may_request(cluster: Cluster, group: NodeGroup, now_s: float) -> bool:
    """Return whether nodes may be requested from the group. After a failed request, no nodes may be requested from the
    group for a while."""
    failed = cluster.columns.groups.failed.get(group.name)
    return failed is None or failed.retry_s <= now_s


def new_names(cluster: Cluster, group: NodeGroup, nodes: int) -> Iterator[str]:
    """Yield unused names for new nodes of the group."""
    known, left = cluster.columns.row_of, nodes
    for number in count(1):
        if left <= 0:
            return
        if (name := f"{group.name}-{number}") not in known:
            left -= 1
            yield name


def request_of(group: NodeGroup, names: Sequence[str], job: str, now_s: float) -> RequestNodes:
    """Return the action that requests these nodes of the group."""
    return RequestNodes(job, group.name, tuple(names), now_s, now_s + group.delay_s, now_s + group.timeout_s)
