"""The draft: the free capacity of the nodes while one cycle decides, with an undo log. The nodes are in packing order
(`core.placement.packing_order`).

The cycle takes the capacity of its grants from the draft, never from the state. To try a gang, the caller calls `mark`
and places the gang. If the gang does not fit, the caller calls `rewind`. So either the whole gang is placed, or all
amounts, pod counts and devices of the draft are exactly as before. The packing order is sorted again when one node in
25 has lost capacity; on a small cluster, this happens after every gang."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from phalanx.core.placement.filters import matching as fit
from phalanx.core.placement.filters.affinity import PodAffinity, PodCounts
from phalanx.core.placement.filters.devices import DeviceAllocation, DeviceDraft, asks_devices
from phalanx.core.placement.packing_order import MOVED, Column, PackingOrder
from phalanx.model.node import Topology
from phalanx.model.pod import MAX_AMOUNT, PODS, Amounts, Shape
from phalanx.model.policy import ScoringStrategy
from phalanx.state.classes import Demand, NodeConstraints
from phalanx.state.nodes.pod_index import term_matches
from phalanx.state.nodes.table import NodeTable

Expected: TypeAlias = tuple[tuple[Shape, float], ...]  # (shape, relative frequency) of each kind of expected pods
# (the number of nodes with enough capacity; a pair for each filter). The pair has the text of the filter ("are, by
# zone, with …") and the number of these nodes that it rejected.
Objections: TypeAlias = tuple[int, tuple[tuple[str, int], ...]]

# A node is closed if its free amount of the resource `pods` is below this value. `shut` lowers the amount accordingly.
SHUT = -MAX_AMOUNT // 2
RENEW_PART = 25  # the packing order is sorted again when 1/25 of the nodes has lost capacity


class Draft:
    """The free capacity of one cycle. A *position* is an index in `packing_order`.

    `expected`: the pods that are expected in the future; only used by the score for fragmentation. `objections`: demand
    -> the reasons why no node was found when a pod of the demand last failed to be placed."""

    def __init__(
        self,
        columns: NodeTable,
        topologies: Sequence[Topology] = (),
        score: ScoringStrategy = ScoringStrategy.PACK,
        expected: Expected = (),
        layout: PackingOrder | None = None,
    ) -> None:
        self.columns, self.topologies, self.score, self.expected = columns, topologies, score, expected
        self.packing_order = PackingOrder(columns, packed=score is ScoringStrategy.PACK) if layout is None else layout
        self.rows, self.free, self.views = self.packing_order.rows, self.packing_order.free, self.packing_order.views
        self._allowed: dict[NodeConstraints, fit.Rows | None] = {}
        # An entry of the undo log is (position, requests, pods), or a function that undoes a change.
        self._log: list[tuple[int, Amounts, int] | partial[Any]] = []
        self._given: dict[
            tuple[Demand, int], list[DeviceAllocation]
        ] = {}  # (demand, position) -> device allocations of pods at the position that have no `Placement` yet
        self._ordinary: dict[Demand, tuple[int, bool]] = {}
        self._wishes: dict[Demand, PodAffinity] = {}
        # rows whose devices or amounts were taken; only recorded if scores depend on devices or amounts
        self.touched: dict[int, None] = {}
        self._shut: dict[int, None] = {}  # the rows of closed nodes
        self.overcommitted: list[int] = []  # rows of overcommitted nodes that are on the draft, but closed
        self._puts = 0
        self._tenants: dict[int, dict[Demand, int]] = {}
        facts = columns.attributes
        self._choosy = score is not ScoringStrategy.PACK or bool((facts.ready & facts.soft_tainted).any())
        self._named = bool(columns.devices.listed)
        self.objections: dict[Demand, Objections] = {}
        self._taken = 0

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, position: int, asks: Amounts, count: int) -> None:
        """Subtract `count` times the requests from the free amounts of the node at the position (add them if `count` is
        negative)."""
        views = self.views
        for resource, amount in asks:
            views[resource][position] -= amount * count
        self._log.append((position, asks, count))
        if count < 0:
            self.packing_order.grown = True
            self.packing_order.filled.clear()
        if self._choosy:
            self._puts += 1
            self.touched[int(self.rows[position])] = None

    def shut(self, position: int) -> None:
        """Close the node for the rest of the cycle. The cycle closes nodes that are overcommitted because a nominated
        job waits there until its victims have left."""
        if self.views[PODS][position] >= SHUT:
            self.take(position, ((PODS, MAX_AMOUNT),), 1)
        self._shut[int(self.rows[position])] = None

    def reopen(self) -> None:
        """Reopen the closed nodes that are not overcommitted any more. Precondition: the caller has removed the
        terminating pods from the draft."""
        if not self._shut:
            return
        for position in np.isin(self.rows, list(self._shut)).nonzero()[0].tolist():
            left = {name: view[position] for name, view in self.views.items()}
            if left[PODS] < SHUT and left.pop(PODS) + MAX_AMOUNT >= 0 and min(left.values(), default=0) >= 0:
                self.take(position, ((PODS, MAX_AMOUNT),), -1)

    def put(self, position: int, demand: Demand, pods: int) -> None:
        """Place `pods` pods of the demand at the position; if `pods` is negative, remove pods."""
        self.take(position, demand.asks, pods)
        if demand.tracked:
            self._see(position, demand, pods)

    def fill(
        self, demand: Demand, role: int, count: int, shares: list[tuple[int, int, int]], within: fit.Rows | None = None
    ) -> int:
        """Place `count` pods of an ordinary demand (see `ordinary`) in packing order, and append (role, position,
        number of pods) to `shares`. Return the number of pods for which there was no capacity."""
        allowed = self.allowed(demand.where)
        if within is not None:
            allowed = within if allowed is None else allowed & within
        for position, holds in self.packing_order.holding(demand, allowed):
            pods = min(count, holds)
            for name, amount in demand.asks:
                self.views[name][position] -= amount * pods
            self._log.append((position, demand.asks, pods))
            if demand.tracked:
                self._see(position, demand, pods)
            shares.append((role, position, pods))
            count -= pods
            if not count:
                # all earlier nodes are full for this demand, so the next call for the demand can begin at this node
                if allowed is None:
                    self.packing_order.filled[demand] = position
                break
        return count

    def put_on(self, position: int, demand: Demand, choice: DeviceAllocation) -> None:
        """Place one pod on the devices of `choice`. The method `names` later returns the names of these devices."""
        self.put(position, demand, 1)
        self._take_devices(position, demand, choice)
        given = self._given.setdefault((demand, position), [])
        given.append(choice)
        self._log.append(partial(take_last, given))

    def scores_devices(self, demand: Demand) -> bool:
        """Return whether the scoring strategy depends on the pod's devices. If so, devices must be chosen pod by
        pod."""
        return self._named and self.score is not ScoringStrategy.PACK and asks_devices(self.columns, demand.asks)

    def tenants(self, row: int) -> list[Demand]:
        """Return the demands of the pods that use devices of the node at the row."""
        placed, running = self._tenants.get(row, {}), self.columns.tenants.get(row, {})
        return [each for each in {**running, **placed} if placed.get(each, 0) + running.get(each, 0) > 0]

    def changes(self) -> int:
        """Return a number that increases whenever a node changes in the cluster state or on this draft."""
        return sum(self.columns.stamps) + self._puts

    def vacate(self, position: int, demand: Demand, devices: Sequence[str] = ()) -> None:
        """Remove a running pod from the node at the position, and release its devices."""
        self.put(position, demand, -1)
        if devices:
            self._take_devices(position, demand, self.ledger.choice(int(self.rows[position]), devices), -1)

    def occupy(self, position: int, demand: Demand, devices: Sequence[str] = ()) -> None:
        """Add a pod to the node at the position. The pod runs there, or will run there, and uses the devices `devices`
        of the node."""
        self.put(position, demand, 1)
        if devices:
            self._take_devices(position, demand, self.ledger.choice(int(self.rows[position]), devices))

    def names(self, position: int, demand: Demand, pods: int) -> Iterable[tuple[str, ...]]:
        """Return the names of the devices of each pod of the demand placed at the position. If devices are not chosen
        yet, this method chooses them."""
        given = self._given.get((demand, position), []) if self._given else []
        if not given and not (self._named and asks_devices(self.columns, demand.asks)):
            return repeat((), pods)
        row = int(self.rows[position])
        named = [self.ledger.names(row, given.pop(0)) for _ in range(min(pods, len(given)))]
        for _ in range(pods - len(named)):
            choice = self.ledger.choose(demand, row, {})
            self._take_devices(position, demand, choice)
            named.append(self.ledger.names(row, choice))
        return named

    def ordinary(self, demand: Demand) -> bool:
        """Return whether packing order, node constraints and amounts alone decide where pods of the demand are placed.
        The result is True if the demand is unconstrained, no affinity term of another pod selects its pods, and the
        policy packs pods."""
        if not demand.unconstrained or self._choosy:
            return False
        if demand.kind is None or not (wishing := self.pod_counts.with_affinity):
            return True
        known = self._ordinary.get(demand)
        if known is None or known[0] != len(wishing):
            wanted = any(
                term_matches(term, kind.namespace, demand.kind) for kind in wishing for term in kind.near + kind.away
            )
            known = self._ordinary[demand] = (len(wishing), not wanted)
        return known[1]

    def ordinary_amounts(self, demand: Demand) -> bool:
        """Return whether node constraints and amounts alone decide where pods of the demand may be placed."""
        return self.ordinary(demand) and not (self._named and asks_devices(self.columns, demand.asks))

    def pod_affinity(self, demand: Demand) -> PodAffinity:
        """Return the affinity rules of the demand's pods. The rules count the pods on this draft as well."""
        if demand not in self._wishes:
            self._wishes[demand] = PodAffinity(self.pod_counts, demand)
        return self._wishes[demand]

    @cached_property
    def pod_counts(self) -> PodCounts:
        return PodCounts(self.columns)

    @cached_property
    def ledger(self) -> DeviceDraft:
        return DeviceDraft(self.columns)

    def _see(self, position: int, demand: Demand, pods: int) -> None:
        """Add the pods to the counts of pods and of host ports, and add an entry to the undo log."""
        row = int(self.rows[position])
        self._note(demand, row, pods)
        self._log.append(partial(self._note, demand, row, -pods))

    def _note(self, demand: Demand, row: int, pods: int) -> None:
        if demand.kind is not None:
            self.pod_counts.note(demand.kind, row, pods)
        if demand.shape.ports:
            self.pod_counts.note_ports(row, demand.shape.ports, pods)

    def _tenant(self, demand: Demand, row: int, pods: int) -> None:
        tenants = self._tenants.setdefault(row, {})
        tenants[demand] = tenants.get(demand, 0) + pods

    def _take_devices(self, position: int, demand: Demand, choice: DeviceAllocation, pods: int = 1) -> None:
        row = int(self.rows[position])
        for resource, opened in self.ledger.take(demand, row, choice, pods).items():
            self.take(position, ((resource, abs(opened)),), 1 if opened > 0 else -1)
        self._tenant(demand, row, pods)
        self._log.append(partial(self.ledger.take, demand, row, choice, -pods))
        self._log.append(partial(self._tenant, demand, row, -pods))

    def mark(self) -> int:
        """Return a mark for `rewind`."""
        return len(self._log)

    def rewind(self, mark: int) -> None:
        """Restore the draft to its state at the mark."""
        if len(self._log) > mark:
            self.packing_order.filled.clear()
        while len(self._log) > mark:
            entry = self._log.pop()
            if isinstance(entry, partial):
                entry()
                continue
            position, asks, count = entry
            for resource, amount in asks:
                self.views[resource][position] += amount * count

    def settle(self) -> None:
        """Make all changes since the last call final. Marks that were taken before this call are no longer valid."""
        self._taken += len(self._log)
        if len(self.packing_order.strayed) <= MOVED:
            self.packing_order.strayed += [entry[0] for entry in self._log if not isinstance(entry, partial)]
        self._log.clear()
        self._given.clear()
        if self._taken * RENEW_PART > len(self.rows) > 1:
            self.packing_order.renew()
            self._allowed.clear()
            self._taken = 0

    @property
    def untouched(self) -> bool:
        """Return whether the draft still has the same free amounts as the cluster state."""
        return not (self._log or self.packing_order.strayed)

    def allowed(self, where: NodeConstraints) -> fit.Rows | None:
        """Return the mask of positions whose nodes match the constraints; None if all nodes of the draft match."""
        if where not in self._allowed:
            found = fit.matching(self.columns.attributes, where)[self.rows]
            self._allowed[where] = None if found.all() else found
        return self._allowed[where]

    def asked(self, demand: Demand) -> list[tuple[Column, memoryview[int], int]] | None:
        """Return a triple for each requested resource: (array of free amounts by position, memoryview of this array,
        requested amount). Return None if no node has one of the resources."""
        try:
            return [(self.free[name], self.views[name], amount) for name, amount in demand.asks]
        except KeyError:
            return None

    def part_of_node(self, demand: Demand) -> float:
        """Return the size of one pod of the demand. For each resource, the requested amount is divided by the largest
        allocatable amount of any node; the size is the largest of these quotients."""
        return max(amount / self.packing_order.scales.get(name, 1) for name, amount in demand.asks)

    def room(self, demand: Demand, within: fit.Rows | None = None) -> int:
        """Return the total number of pods of the demand that fit. `within`: the mask of positions that may be used;
        None if all may be used."""
        columns = self.asked(demand)
        if columns is None:
            return 0
        fits = self.allowed(demand.where)
        for column, _, amount in columns:
            enough = column >= amount
            fits = enough if fits is None else fits & enough
        assert fits is not None  # every pod requests at least the resource `pods`
        fits = fits if within is None else fits & within
        found = fits.nonzero()[0]
        return int(fit.pods_held(self.free, demand.asks, found).sum()) if len(found) else 0

    def room_up_to(self, most: int, demand: Demand) -> int:
        """Return the total number of pods of the demand that fit. Counting stops when the number reaches `most`. So a
        result below `most` is exact. With a result of `most` or more, even more pods may fit."""
        found = 0
        for _, pods in self.packing_order.holding(demand, self.allowed(demand.where)):
            found += pods
            if found >= most:
                break
        return found

    def most_free(self, demand: Demand) -> tuple[tuple[str, int], ...]:
        """Return (resource, largest free amount on one matching node) for each requested resource."""
        allowed = self.allowed(demand.where)
        rows = slice(None) if allowed is None else allowed
        columns = [(name, self.free.get(name)) for name, _ in demand.asks]
        return tuple([(name, 0 if column is None else int(column[rows].max(initial=0))) for name, column in columns])

    def free_in_all(self, demand: Demand) -> list[int]:
        """Return for each requested resource the sum of its free amounts on all matching nodes."""
        allowed = self.allowed(demand.where)
        rows = slice(None) if allowed is None else allowed
        columns = [self.free.get(name) for name, _ in demand.asks]
        return [0 if column is None else int(np.maximum(column[rows], 0).sum()) for column in columns]

    def overfull(self, matching: fit.Rows) -> int:
        """Return the number of matching nodes that are overcommitted. Such nodes are either closed on the draft or left
        out of the draft. `matching`: the mask of rows whose nodes match."""
        left_out = np.count_nonzero(matching) - np.count_nonzero(matching[self.rows])
        return int(left_out + matching[self.overcommitted].sum()) if self.overcommitted else int(left_out)


def take_last(given: list[DeviceAllocation]) -> None:
    """Remove the last device allocation of the list. Do nothing if the list is empty, because `names` has already
    removed the allocation."""
    if given:
        given.pop()
