"""What is pending, as columns: one column a cell, and one a class.

A *request* (`state.pending.cell_queue.Request`) is a queued job, or an open slot of a started one. Requests that are
alike in all that the answer depends on (`CellKey`) make a *cell*: queue row, class, priority, terms. A cell keeps its
requests in order (`CellQueue`); its first one speaks for it (`Cells`). A *class* is what cells of any queue ask of
nodes: a gang, or one role of it, and the flavors of nodes that it may be given. In every cycle all cells are compared
with what is free and what quota allows, in a few operations on arrays (`core.cycle.candidates`): nothing sleeps, so
nothing has to be woken.

A request that was not received yet (`fresh`) is in no cell; nor is one that is not eligible until something happens
(parked, which is known by being nowhere) or until a time (`timers`).

What a plan found about cells and classes by number holds as long as `version` does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.model.queue import QueueOrder
from phalanx.model.reason import NEVER, Reason
from phalanx.state.classes import AffinityClass as PodKind
from phalanx.state.classes import Gang
from phalanx.state.nodes.pod_index import change_may_help
from phalanx.state.pending.capacity import Capacity
from phalanx.state.pending.cell_queue import ROOM, UNTOLD, CellKey, CellQueue, Kind, QueuedRequest, Request
from phalanx.state.pending.cells import FIRST_CELLS, Cells, Heads
from phalanx.state.pending.headroom import RUNNING, Headroom, HeadroomRow, upward
from phalanx.state.pending.timers import Timers
from phalanx.state.queue_tree import Branch, Key, QueueTree, ResourceGroup

STALE = 1 << 30  # cycles; explained anew as soon as can be
REMEMBERED = 1 << 16  # answers whether a demand heeds a kind of pods
MOVING = frozenset({QueueOrder.MULTIFACTOR, QueueOrder.USAGE})  # orders in which time changes who is first


class Combination(NamedTuple):
    """The key of a class. `flavors`: of its cells' queues, by resource group; `whole`: its pods are placed at once;
    `counts`: it counts as a started job."""

    gang: Gang
    flavors: tuple[ResourceGroup, ...] = ()
    whole: bool = True
    counts: bool = True


@dataclass(slots=True)
class PendingClass:
    """A class: what cells of any queue ask of nodes. `demands`: (number in `Capacity`, pods needed) of each role; 0
    of one that it can do without. `ways`: the classes of the gang in each flavor; one of them must be open.
    `single`: it has one role, and asks nothing but the pods themselves; `cost`: by key of `Headroom`. `heeds`: other
    pods may be a part of why it finds no room. `reason`: why it finds no room, as last explained; `stale`: in how
    many cycles since then it lost what room it had."""

    number: int
    combination: Combination
    demands: tuple[tuple[int, float], ...]
    ways: tuple[int, ...] = ()
    single: bool = False
    cost: tuple[float, ...] = ()
    cells: int = 0
    heeds: bool = False
    reason: Reason | None = None
    stale: int = 0


class Deadline(NamedTuple):
    """A deadline, in place of a request, in `Pending.timers`: the job can start no more when its time comes."""

    job: str


class Search(NamedTuple):
    """A search for victims that found nobody: what had changed by then (`Pending.changes`; negative: it was not to be
    made yet), and the time from which it may find somebody though nothing changes (seconds since the epoch)."""

    changes: int
    again_s: float
    reserved: object


class Pending:
    """All that is pending. `version` counts the events folded in. `fresh`: requests to be received. `untold`:
    received, and not told yet why they wait. `changed`: something happened since the last plan that may let a
    request start. `changes` counts what could let a search for victims succeed; `searched`: by cell, the searches
    that found nobody, longest ago first. `grown`: rows that gained free amounts since classes were last looked at.
    `reserved`: who has the first reservation, and from when; `hopeless`: jobs of arrays in a cell that could never
    start."""

    def __init__(self) -> None:
        self.version = self.changes = 0
        self.fresh: dict[Request, None] = {}
        self.untold: dict[Request, None] = {}
        self.changed = False
        self.timers = Timers()
        self.lines: dict[CellKey, CellQueue] = {}
        self.cells = Cells()
        self.classes: list[PendingClass | None] = []
        self.demand: NDArray[np.int32] = np.zeros(FIRST_CELLS, np.int32)  # by class: its first, and how many of its
        self.need: NDArray[np.float64] = np.zeros(FIRST_CELLS)  # pods it needs; -1: of none
        self.composite: dict[int, None] = {}  # classes of several roles or flavors
        self.failed: dict[int, None] = {}  # classes whose last trial failed though counting found room
        self.capacity = Capacity()
        self.headroom = Headroom()
        self.costs: NDArray[np.float64] = np.zeros((0, 1))  # [key, class], the last class being none
        self.grown: dict[int, None] = {}
        self.searched: dict[CellKey, Search] = {}
        self.reserved: tuple[Request, float] | None = None
        self.hopeless: dict[Request, None] = {}
        self._class_of: dict[Combination, int] = {}
        self._vacant: list[int] = []
        self._line_of: dict[Request, CellQueue] = {}
        self.renews = False  # all classes are to be explained anew, in time
        self.heads: dict[str, Heads] = {}  # of arenas in strict queues
        self.loose = 0  # cells that are in none of these
        self.replacements = 0  # cells of them
        self._qos: dict[str, int] = {}
        self._concerned: dict[tuple[object, PodKind], bool] = {}
        self._costly: dict[int, None] = {}  # classes of which that is not known

    def has_several_arenas(self, tree: QueueTree) -> bool:
        """Return whether more than one order decides who of all that wait is next."""
        return tree.root.split and (self.loose > 0 or len(self.heads) > 1)

    def __bool__(self) -> bool:
        """Return whether anybody waits."""
        return bool(self.fresh or self.lines) or any(isinstance(item, Request) for item in self.timers)

    @property
    def urgent(self) -> bool:
        """Return whether a replacement may be among the cells."""
        return self.replacements > 0

    # Requests

    def refresh(self, request: Request) -> None:
        """Receive the request anew, wherever it is."""
        self.leave(request)
        self.fresh[request] = None

    def rest(self, request: Request, again_s: float) -> None:
        """The request is not eligible before that time (seconds since the epoch), whatever else happens."""
        self.leave(request)
        self.timers.set(request, again_s)

    def leave(self, request: Request) -> None:
        """The request waits no more."""
        if request in self.fresh:
            del self.fresh[request]
            return
        line = self._line_of.pop(request, None)
        if line is None:
            self.timers.drop(request)
            return
        if self.untold:
            self.untold.pop(request, None)
        if self.hopeless:
            self.hopeless.pop(request, None)
        if self.reserved is not None and self.reserved[0] == request:
            self.stir()  # what was kept for it may be had by others
            self.changed = True
        first = line.first()
        line.remove(request)
        if not line:
            self._close(line)
        elif first.request == request:
            self._lead(line, line.first())
            self._forget_search(line.key)
        if line.strict:
            self.changed = True  # another may be the head

    def enter(self, key: CellKey, entry: QueuedRequest, tree: QueueTree) -> CellQueue:
        """The request waits in its cell from now on."""
        request = entry.request
        self.fresh.pop(request, None)
        line = self.lines.get(key) or self._open(key, tree)
        line.add(entry)
        self._line_of[request] = line
        self.untold[request] = None
        if line.first() is entry:
            self._lead(line, entry)
        return line

    def _lead(self, line: CellQueue, entry: QueuedRequest) -> None:
        """The request is the cell's first."""
        self.cells.lead(line.cell, entry)
        if line.rank is not None:
            line.rank = (line.rank[0], entry.arrival_s, line.key.kind, entry.tie)
            if line.arena is not None:
                self.heads.setdefault(line.arena, Heads()).put(line, line.rank)

    def stands(self, request: Request) -> bool:
        """Return whether the request is in a cell."""
        return request in self._line_of

    def line_of(self, request: Request) -> CellQueue | None:
        """Return the line of the request's cell."""
        return self._line_of.get(request)

    def qos_names(self) -> list[str]:
        """Return the names that `Cells.qos` numbers."""
        return list(self._qos)

    def reason_of(self, line: CellQueue) -> Reason | None:
        """Return why the requests of a cell wait, as last told."""
        if line.reason is not None:
            return line.reason
        if self.cells.told[line.cell] == UNTOLD:
            return None
        found = self.classes[line.cls]
        return None if found is None else found.reason

    # Cells and classes

    def _open(self, key: CellKey, tree: QueueTree) -> CellQueue:
        line = self.lines[key] = CellQueue(key)
        cells, terms, branch = self.cells, key.terms, tree.branches[key.queue]
        cell = line.cell = cells.place(line)
        self._place_in_tree(line, branch)
        self.loose += line.arena is None
        self.replacements += key.kind == Kind.REPLACEMENT
        line.cls = cells.cls[cell] = self._join_class(key, tree)
        row = HeadroomRow(key.queue, terms.user, terms.group, terms.job, terms.account)
        line.row = cells.row[cell] = self.headroom.row(row)
        cells.told[cell] = UNTOLD
        cells.priority[cell] = key.priority
        cells.limit_s[cell] = np.inf if terms.limit_s is None else terms.limit_s
        cells.nice[cell] = terms.nice
        cells.qos[cell] = self._qos.setdefault(terms.qos, len(self._qos))
        return line

    def _place_in_tree(self, line: CellQueue, branch: Branch) -> None:
        """Set what follows for the cell from where its queue is in the tree."""
        key, order = line.key, branch.arena.order
        replaces = key.kind == Kind.REPLACEMENT
        line.strict = branch.strict is not None
        self.cells.preempts[line.cell] = key.terms.preempts and (
            (branch.preempts and key.kind == Kind.JOB) or (branch.reclaims and key.kind == Kind.GROWTH)
        )
        line.rank = line.arena = None
        if line.strict and not replaces and order not in MOVING:
            line.arena = branch.arena.name
        if replaces or order is not QueueOrder.MULTIFACTOR:
            line.rank = (0.0 if order is QueueOrder.FIFO and not replaces else -float(key.priority), 0.0, key.kind, 0)

    def _close(self, line: CellQueue) -> None:
        cell = line.cell
        line.rank = None
        self.loose -= line.arena is None
        self.replacements -= line.key.kind == Kind.REPLACEMENT
        self._leave_class(line.cls)
        self.cells.vacate(cell)
        del self.lines[line.key]
        self._forget_search(line.key)
        if line.key in self.timers:
            self.timers.drop(line.key)

    def _forget_search(self, key: CellKey) -> None:
        self.searched.pop(key, None)

    def _join_class(self, key: CellKey, tree: QueueTree) -> int:
        """Return the number of the class of such a cell, which has one cell more."""
        job = key.kind == Kind.JOB
        queue = tree.branches[key.queue].queue
        whole = not job or queue is None or queue.gang
        flavors = tree.branches[key.queue].flavors if key.kind != Kind.REPLACEMENT else ()
        number = self.class_of(Combination(key.gang, flavors, whole, job))
        found = self.classes[number]
        assert found is not None
        found.cells += 1
        return number

    def number_of(self, combination: Combination) -> int | None:
        """Return the number of that class, if it is pending."""
        return self._class_of.get(combination)

    def class_of(self, combination: Combination) -> int:
        """Return the number of that class."""
        number = self._class_of.get(combination)
        if number is None:
            number = self._vacant.pop() if self._vacant else len(self.classes)
            if number == len(self.classes):
                self.classes.append(None)
                if number == len(self.need):
                    self.demand = np.concatenate((self.demand, np.zeros_like(self.demand)))
                    self.need = np.concatenate((self.need, np.zeros_like(self.need)))
            self.demand[number], self.need[number] = 0, -1.0
            self._class_of[combination] = number
            self.classes[number] = self._described(number, combination)
            self._costly[number] = None
        return number

    def give_ways(self, found: PendingClass, ways: Iterable[Combination]) -> None:
        """Note in which ways the class may be given flavors: it keeps the classes of these pending."""
        found.ways = tuple(dict.fromkeys(map(self.class_of, ways)))
        for way in found.ways:
            each = self.classes[way]
            assert each is not None  # made just now, if it was not pending
            each.cells += 1

    def _described(self, number: int, combination: Combination) -> PendingClass:
        gang = combination.gang
        if combination.flavors:
            self.composite[number] = None
            return PendingClass(number, combination, ())  # `core.cycle.blocked` finds its ways
        needed, roles = set(gang.required_roles()), range(len(gang.roles)) if combination.whole else ()
        demands = tuple(
            (self.capacity.refer(gang.demands[at]), float(gang.minimums[at] if at in needed else 0)) for at in roles
        )
        heeds = any(not demand.unconstrained or demand.kind is not None for demand in gang.demands)
        single = len(gang.roles) == 1 and gang.simple and bool(demands) and demands[0][1] > 0
        if demands:
            self.demand[number], self.need[number] = demands[0]
        if len(demands) > 1:
            self.composite[number] = None
        return PendingClass(number, combination, demands, single=single, heeds=heeds)

    def _leave_class(self, number: int) -> None:
        found = self.classes[number]
        assert found is not None
        found.cells -= 1
        if found.cells > 0:
            return
        self.classes[number] = None
        self.composite.pop(number, None)
        self.failed.pop(number, None)
        del self._class_of[found.combination]
        self._vacant.append(number)
        for demand, _ in found.demands:
            self.capacity.release(demand)
        for way in found.ways:
            self._leave_class(way)

    def cost_columns(self) -> NDArray[np.float64]:
        """Return what the first of a cell costs its queue at least, [key of the headroom, class]."""
        keys = self.headroom.keys
        if len(keys) != len(self.costs):
            self.costs, self._costly = (
                np.zeros((len(keys), len(self.need) + 1)),
                dict.fromkeys(range(len(self.classes))),
            )
        if self._costly:
            if self.costs.shape[1] <= len(self.need):
                self.costs = np.zeros((len(keys), 2 * len(self.need)))
                self._costly = dict.fromkeys(range(len(self.classes)))
            for number in self._costly:
                if (found := self.classes[number]) is not None:
                    found.cost = cost_of(found.combination, keys)
                    self.costs[:, number] = found.cost
            self._costly = {}
        return self.costs

    # What was found

    def explain(self, combination: Combination, reason: Reason) -> None:
        """Store why requests of the class find no room."""
        number = self._class_of.get(combination)
        if number is not None and (found := self.classes[number]) is not None:
            found.reason, found.stale = reason, 0

    def tell(self, key: CellKey, told: int, reason: Reason | None) -> None:
        """The requests of the cell were told that; `reason` None: why, as its class was."""
        line = self.lines.get(key)
        if line is not None:
            line.reason = reason
            self.cells.told[line.cell] = told

    def remember(self, key: CellKey, search: Search) -> None:
        """Remember the failed search of the cell; when time may let it succeed, the cell is tried again."""
        if key in self.lines:
            if (known := self.searched.get(key)) is None or known.again_s != search.again_s:
                self.timers.set(key, search.again_s)
            self._forget_search(key)
            self.searched[key] = search

    # What happens

    def ring(self, item: object) -> None:
        """The item's timer is over."""
        if isinstance(item, Deadline):
            self.refresh(Request(item.job))
        elif isinstance(item, Request):
            self.fresh[item] = None
        self.changed = True

    def has_due_search(self) -> bool:
        """Return whether something changed since the cell that searched for victims longest ago did so."""
        for search in self.searched.values():
            if search.changes >= 0:
                return search.changes != self.changes
        return False

    def stir(self) -> None:
        """Note that something changed that could let a search for victims succeed."""
        self.changes += 1

    def note_growth(self, row: int) -> None:
        """Note that the row has more room."""
        self.grown[row] = None
        self.changes += 1
        self.changed = True

    def look_at_nodes(self) -> None:
        """A node is another, or gone. Who could never start may be able to; the others are explained anew in time."""
        self._look_at_never()
        for found in self.classes:
            if found is not None:
                found.stale = STALE
        self.renews = True
        self.failed.clear()
        self.stir()
        self.changed = True

    def _look_at_never(self) -> None:
        """Forget who could never start: that is to be found anew."""
        self._renew_turns()
        forgotten = []
        for found in self.classes:
            if found is not None and found.reason is not None and found.reason.code in NEVER:
                found.reason = None
                forgotten.append(found.number)
        told = self.cells.told
        told[np.isin(self.cells.cls, forgotten) & (told == ROOM)] = UNTOLD
        for line in self.lines.values():
            if line.reason is not None and line.reason.code in NEVER:
                told[line.cell] = UNTOLD

    def _renew_turns(self) -> None:
        """Receive jobs of arrays anew that could never start, and so have given up their turn. They may now, and
        need one first."""
        for request in list(self.hopeless):
            self.refresh(request)

    def look_at_all(self) -> None:
        """The policy, flavors or reservations are others: nothing that was found is known to hold."""
        self._renew_turns()
        for found in self.classes:
            if found is not None:
                found.reason = None
        self.failed.clear()
        self.cells.told[:] = UNTOLD
        self.stir()
        self.changed = True

    def look_at_pods(self, kinds: Iterable[PodKind]) -> None:
        """Note that pods of those kinds came or went: classes that heed them may fit now."""
        changed = list(kinds)
        for number in list(self.failed):
            found = self.classes[number]
            if found is not None and found.heeds and self._heeds(found, changed):
                del self.failed[number]
                self.changed = True

    def _heeds(self, found: PendingClass, kinds: Sequence[PodKind]) -> bool:
        for demand in found.combination.gang.demands:
            for kind in kinds:
                known = self._concerned.get((demand, kind))
                if known is None:
                    if len(self._concerned) >= REMEMBERED:
                        self._concerned.clear()
                    known = self._concerned[demand, kind] = change_may_help(demand.shape, demand.kind, kind)
                if known:
                    return True
        return False

    def look_at_hopeless(self) -> None:
        """The cluster has more, or less, or the queue tree is another: who could never start may be able to."""
        self._look_at_never()
        self.stir()
        self.changed = True

    def arrange(self, tree: QueueTree) -> None:
        """The queue tree is another."""
        self.headroom.build(tree)
        self.heads.clear()
        for line in self.lines.values():
            self.loose -= line.arena is None
            self._place_in_tree(line, tree.branches[line.key.queue])
            self.loose += line.arena is None
            self._lead(line, line.first())
        self.look_at_hopeless()

    def copy(self, tree: QueueTree) -> Pending:
        """Return a copy whose headroom is that of a copy of the tree. What nodes hold is counted anew."""
        other = Pending()
        other.headroom.build(tree)
        other.version, other.changes, other.changed = self.version, self.changes, True
        other.fresh, other.untold, other.hopeless = dict(self.fresh), dict(self.untold), dict(self.hopeless)
        other.timers, other.searched, other.reserved = self.timers.copy(), dict(self.searched), self.reserved
        for key, line in self.lines.items():
            copied = other._open(key, tree)
            copied.take(line)
            other._lead(copied, copied.first())
            other.cells.told[copied.cell] = self.cells.told[line.cell]
            other._line_of.update(dict.fromkeys(copied.requests(), copied))
        classes = [found for found in self.classes if found is not None]
        for found in sorted(classes, key=lambda found: not found.ways):  # who has ways makes their classes pending
            number = other.number_of(found.combination)
            if number is None or (same := other.classes[number]) is None:
                continue
            same.reason, same.stale = found.reason, found.stale
            other.give_ways(same, [each.combination for way in found.ways if (each := self.classes[way]) is not None])
            if found.number in self.failed:
                other.failed[number] = None
        other.capacity.settle()  # that demands are new to the copy mends nothing for who failed
        other.grown = dict(self.grown)
        return other


def cost_of(combination: Combination, keys: dict[str, int]) -> tuple[float, ...]:
    """Return what such a request costs its queue at least, by key of the headroom: nothing that it may do without."""
    gang, found = combination.gang, [0.0] * len(keys)
    if RUNNING in keys:
        found[keys[RUNNING]] = float(combination.counts)
    if combination.whole and not gang.optional:
        due: Iterable[tuple[Key, object]] = gang.due()
        for (_, resource), amount in due:
            if resource in keys:
                found[keys[resource]] = upward(amount)  # type: ignore[arg-type]  # amounts are numbers
    return tuple(found)
