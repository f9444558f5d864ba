"""What backfill adds to a cycle: who else takes part, and in which order, because reservations are made.

A reservation goes to the first bid in order that finds no room, and most that find none sleep. So besides the awake
lines the best sleeping ones of each queue take part (all up to the depth, if backfill is conservative). As soon as the
first reservation is known, lines that were held back by the last one take part too, if they may start now: those over
by then, and those that ask what now fits beside; of many that ask the same, as many as there is room for. If the one
that held them back has started or is gone, all of them.

With `BackfillOrder.SHORTEST`, those behind the first reservation come in the order of their estimates (EASY-SJBF),
equal ones as the contest had them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge, nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING

from phalanx.core.backfill.reservation import UNFORESEEN, BackfillForecast
from phalanx.core.order import rank
from phalanx.core.order.next_job import Head
from phalanx.lazy import lazy
from phalanx.model.job import Placement
from phalanx.model.policy import Backfill, BackfillOrder
from phalanx.model.queue import QueueOrder
from phalanx.state.classes import Gang
from phalanx.state.pending.line import Bid, Entry, Kind, LineKey
from phalanx.state.pending.sleepers import Place, limit_s

if TYPE_CHECKING:
    from phalanx.core.cycle.steps import Cycle

LIMIT_S = itemgetter(0)
SLEEPERS = UNFORESEEN  # of each arena, in case that the start of the first cannot be foreseen: so many are tried


class Lookahead:
    """Of one cycle. `asleep`: lines that take part though nothing has changed for them. `joining`: lines that join
    before the next head is asked for; `joined`: all that were held back have. `looked`: sleeping lines took part."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle, self.cluster, self.policy = cycle, cycle.cluster, cycle.policy
        self.sleepers = cycle.waiting.sleepers
        self.greedy = self.policy.backfill is Backfill.GREEDY
        self.conservative = self.policy.backfill is Backfill.CONSERVATIVE
        self.by_estimates = not self.greedy and self.policy.backfill_order is BackfillOrder.SHORTEST
        self.asleep: set[LineKey] = set()
        self.others: dict[LineKey, Iterator[Entry]] = {}
        self.reserved: set[Bid] = set()
        self.joining: dict[LineKey, None] = {}
        self.by_estimate = False
        self._arenas: dict[tuple[str, int, bool], str | None] = {}
        self.looked = self.turned = self.joined = self.asked = False

    @lazy
    def horizon(self) -> BackfillForecast:
        return BackfillForecast(self.cluster, self.policy, self.cycle.now_s, self.cycle.draft)

    def first(self) -> tuple[Bid, float] | None:
        """Who has the first reservation, and from when."""
        if "horizon" not in self.__dict__ or not self.horizon.reservations:
            return None
        hold = self.horizon.reservations[0]
        return hold.bid, hold.seat.start_s

    # Who takes part

    def entrants(self) -> dict[LineKey, None]:
        """Sleeping lines that take part from the start."""
        awake, stirred = self.cycle.awake, self.sleepers.stirred
        gone = self.first_is_gone()
        if not (awake or stirred or gone or self.cycle.new):
            return {}
        self.looked = True
        if not self.sleepers:
            return {}
        found: dict[LineKey, None] = {}
        if not self.greedy and (self.cluster.ends.order or self.cluster.reservations):
            found.update(dict.fromkeys(self.best(self.depth())))
        if gone or (stirred and self.sleepers.first is None) or self.conservative:
            self.joined = True
            found.update(dict.fromkeys(self.sleepers.all_held()))
        held, untrue = self.sleepers.is_held, self.cycle.untrue
        self.asleep = {key for key in found if key not in awake and key not in untrue and not held(key)}
        return found

    def best(self, count: int) -> list[LineKey]:
        """The first so many sleepers of each arena, of those that may not be drawn anyway."""
        crowds = self.cycle.crowds
        return self.sleepers.best(self.cycle.awake, count, crowds.is_live, crowds.all_live)

    def depth(self) -> int:
        """How many sleepers of a queue take part from the start."""
        return max(0, self.policy.backfill_depth) if self.conservative else 1

    def ask_more(self) -> None:
        """The start of one that was to have the reservation cannot be foreseen: more sleepers of each queue take
        part."""
        if self.conservative or self.asked:
            return
        self.asked = True
        if self.cluster.ends.order or self.cluster.reservations:
            more = [key for key in self.best(SLEEPERS) if key not in self.cycle.new]
            self.asleep.update(key for key in more if not self.sleepers.is_held(key))
            self.joining.update(dict.fromkeys(more))

    def first_is_gone(self) -> bool:
        """Whether the one that had the first reservation stands in no line any more: it has started, say, or cannot
        meet its deadline."""
        if self.sleepers.first is None:
            return False
        bid, _ = self.sleepers.first
        return not (bid in self.cycle.joined or self.cycle.waiting.stands(bid))

    def may_reserve(self) -> bool:
        """Whether the next bid that finds no room may be given a reservation."""
        return not self.greedy and ("horizon" not in self.__dict__ or self.horizon.open)

    def next_head(self) -> Head | None:
        """The best that contends, after all who are to have joined."""
        contest = self.cycle.contest
        if self.joining or self.by_estimate != contest.by_estimate:
            self.join()
        head = contest.head()
        if head is None and self.sleepers.held and self.looked and not self.joined and not self.reserved:
            self.join_all()  # nobody has a reservation any more
            self.join()
            head = contest.head()
        return head

    def join(self) -> None:
        cycle, joining = self.cycle, [key for key in self.joining if key not in self.cycle.contest.entered]
        self.joining = {}
        cycle.contest.rejoin([(key, cycle.first_of(key)) for key in joining], by_estimate=self.by_estimate)

    def join_all(self) -> None:
        self.joined = True
        self.joining.update(dict.fromkeys(self.sleepers.all_held()))

    # What becomes of them

    def sleeps(self, key: LineKey) -> bool:
        """The line takes part only to be given reservations, or was denied already."""
        return key in self.asleep or key in self.others

    def is_held_still(self, key: LineKey, bid: Bid) -> bool:
        """The line was held back, takes part since another reservation holds it back now, and is sure to be denied for
        that again: so it sleeps on as it is."""
        if not self.sleepers.held or not self.sleepers.is_held(key) or not self.turned:
            return False
        cycle, gang, told = self.cycle, key.gang, self.cycle.waiting.lines[key].reason
        if told is None or key in cycle.awake or key in cycle.new or key in cycle.untrue or key in cycle.rest:
            return False
        plain = key.kind == Kind.JOB and gang.rigid and self.cluster.tree.branches[key.queue].unbounded
        return plain and self.horizon.keeps_out(bid, gang, told)

    def granted(self, bid: Bid, gang: Gang, placements: Sequence[Placement]) -> None:
        if self.greedy or not placements:
            return
        self.horizon.grant(bid, gang, placements)
        if self.sleepers.first is not None and self.sleepers.first[0] == bid and not self.joined:
            self.join_all()

    def lacks(self, key: LineKey, bid: Bid, gang: Gang) -> bool:
        """The bid cannot start for want of room: whether it is given a reservation."""
        if self.greedy or key.kind == Kind.GROWTH or not self.horizon.open:
            return False
        horizon = self.horizon
        if horizon.hold(bid, gang) is None:
            if horizon.open:
                self.ask_more()
            return False
        self.reserved.add(bid)
        if not horizon.open and not self.turned:
            self.turn()
        return True

    def next_of(self, key: LineKey) -> Entry | None:
        """The next of a line whose first was denied, if it is to have a reservation of its own."""
        if not self.conservative or not self.horizon.open:
            return None
        others = self.others.get(key)
        if others is None:
            cycle = self.cycle
            others = self.others[key] = merge(cycle.waiting.lines.get(key, ()), cycle.new.get(key, ()))
        return next(
            (each for each in others if each.bid not in self.reserved and self.cycle.still_waits(each.bid)), None
        )

    def turn(self) -> None:
        """All reservations are made. Those that the last one held back, and that may start now, join."""
        self.turned = True
        self.by_estimate = self.policy.backfill_order is BackfillOrder.SHORTEST
        if self.sleepers.held and not self.joined and (self.sleepers.stirred or self.sleepers.first != self.first()):
            self.joining.update(dict.fromkeys(self.revived()))

    def revived(self) -> Iterator[LineKey]:
        """Lines held back that may start now, as far as one can tell without trying."""
        until_s, entered = self.horizon.reservations[0].seat.start_s - self.cycle.now_s, self.cycle.contest.entered
        for gang, lines in self.sleepers.held.items():
            over = bisect_right(lines, until_s, key=LIMIT_S)
            yield from self.with_room(gang, [key for _, _, key in lines[:over] if key not in entered])
            if over < len(lines) and self.horizon.may_fit_beside(gang):
                yield from self.with_room(gang, [key for _, _, key in lines[over:] if key not in entered])

    def with_room(self, gang: Gang, keys: Collection[LineKey], *, first: bool = False) -> Iterable[LineKey]:
        """Of lines that sleep for want of room and ask the same, and of which none may start that a better one may not,
        those for which there may be some: of each arena as many as find room by counting, the best. Within a cycle room
        only shrinks: what these cannot take none behind them can, and it sleeps on as it is. (Not so where others could
        give way, where it can do without some groups, where quota or a strict queue decides as well, or who is best
        changes. Where estimates decide who is next, the best by these as well as by the queue's order; but if they are
        not the limits, a worse one may be over in time.) `first`: nobody has a reservation yet, so one more in the
        queue's order, as it may be the first that finds no room."""
        minimum = 0 if gang.optional or len(gang.roles) != 1 else gang.minimums[0]
        if not minimum or self.conservative or self.cluster.reservations or self.cluster.tree.stricts:
            return keys
        most = self.cycle.draft.room_up_to(minimum * len(keys), gang.demands[0]) // minimum
        if most >= len(keys):
            return keys
        found, alike = dict[LineKey, None](), dict[str, list[LineKey]]()
        for key in keys:
            arena = self.arena_of(key)
            if arena is None or key not in self.sleepers or (self.by_estimates and key.terms.estimate_s is not None):
                found[key] = None  # (It has no place if it fell asleep under another policy.)
            else:
                alike.setdefault(arena, []).append(key)
        for each in alike.values():
            found.update(dict.fromkeys(nsmallest(most + first, each, key=self.sleepers.place)))
            if self.by_estimates:
                found.update(dict.fromkeys(nsmallest(most, each, key=self.by_limit)))
        return found

    def arena_of(self, key: LineKey) -> str | None:
        """That in which the line's place decides when it comes up, and then room alone whether it starts."""
        asks = key.queue, key.kind, key.terms.preempts
        if asks not in self._arenas:
            branch = self.cluster.tree.branches[key.queue]
            plain = key.kind == Kind.JOB and branch.unbounded and branch.order is not QueueOrder.MULTIFACTOR
            plain = plain and not self.cycle.preempting.preempts(key)
            self._arenas[asks] = branch.arena.name if plain else None
        return self._arenas[asks]

    def by_limit(self, key: LineKey) -> tuple[float, Place]:
        return limit_s(key), self.sleepers.place(key)

    def place_of(self, key: LineKey, entry: Entry, *, held: bool = False) -> Place | None:
        """The place of a line that sleeps for want of room among the others, in its queue's order. `entry`: its first;
        `held`: there is room, but it is kept. (Growth is given no reservation, so it has a place only then.)"""
        if (self.greedy and not self.cluster.reservations) or (key.kind == Kind.GROWTH and not held):
            return None
        branch = self.cluster.tree.branches[key.queue]
        return rank.rank(key, entry, branch.order, self.cycle.contest.factors(branch, entry))
