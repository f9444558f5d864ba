"""`core/preemption/candidates.py`: the pods and gangs that a search for victims may evict, evict and restore."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from phalanx.core.cycle.intake import receive
from phalanx.core.cycle.steps import Cycle
from phalanx.core.preemption.candidates import LAST, SURPLUS, Victim, VictimCandidates, growth_of
from phalanx.core.preemption.search import VictimSearch
from phalanx.model.event import Adopted, QueueSeen
from phalanx.model.job import GangSize, Job, Phase, Placement, Slot
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota, ReclaimWithinCohort, WithinQueue
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Candidate, RequestClass
from tests.core.builders import cluster, job, node, role

NOW_S = 100.0


def queue(name: str = "default", guaranteed: int = 0, **preemption: Any) -> QueueSeen:
    rights = QueuePreemption(**{"within": WithinQueue.LOWER, **preemption})
    quotas = (Quota(guaranteed=(("cpu", guaranteed),)),) if guaranteed else ()
    return QueueSeen(Queue(name=name, preemption=rights, quotas=quotas))


def asks(name: str, cpu: int = 1, *, pods: int = 1, minimum: int | None = None, **fields: Any) -> Job:
    return replace(job(name, role(count=pods, minimum=minimum, cpu=cpu), at=fields.pop("at", 0.0)), **fields)


def runs(asked: Job, *nodes: str, started_s: float = 0.0, open: tuple[Slot, ...] = ()) -> Adopted:
    placed = tuple(Placement(0, at, name) for at, name in enumerate(nodes))
    return Adopted(asked, 1, Phase.RUNNING, placed, open=open, started_s=started_s)


class Searched:
    """The candidates of a search for the waiting job `urgent`. `names`: candidate -> its job, and its slot if it is a
    single pod."""

    def __init__(
        self, *news: Any, before: Callable[[Cycle], None] = lambda cycle: None, without_growth: bool = False
    ) -> None:
        self.book: Cluster = cluster(*news)
        cycle = self.cycle = Cycle(self.book, Policy(), NOW_S)
        for request in receive.newcomers(cycle.state):
            receive.receive(cycle.state, request)
        cycle.field.refresh()
        before(cycle)
        [waiting] = [each for each in cycle.pending.request_classes.values() if each.first.request.job == "urgent"]
        context = cycle.preempting.context
        if without_growth:
            context = replace(context, without_growth=True)
        found = VictimSearch(context, self.book.jobs["urgent"].job, self._offer(waiting))
        self.rights, self.draft, self.ledger = found.rights, found.draft, found.ledger
        self.all: VictimCandidates = found.candidates

    def _offer(self, waiting: RequestClass) -> Any:
        return self.cycle.state.offers(Candidate(waiting, waiting.first))[0]

    @property
    def names(self) -> list[str]:
        return [self.name(each) for each in range(len(self.all.field.job))]

    def name(self, candidate: int) -> str:
        found = self.all.record(candidate).job.id
        return found if self.all.is_gang(candidate) else f"{found}/{self.all.slot_of(candidate).ordinal}"

    def number(self, name: str) -> int:
        return self.names.index(name)

    def free(self, on: str = "a") -> int:
        row = self.book.columns.row_of[on]
        return int(self.draft.free["cpu"][[*self.draft.rows].index(row)])

    def snapshot(self) -> tuple[Any, ...]:
        """What an eviction changes, and `restore` must undo."""
        free = {name: column.tolist() for name, column in self.draft.free.items()}
        used = {name: self.ledger.share(branch) for name, branch in self.book.tree.branches.items()}
        spent, given = (
            {key: pods for key, pods in each.items() if pods} for each in (self.rights.spent, self.all.field.given)
        )
        return free, used, spent, self.all.field.gone.tolist(), given


URGENT = asks("urgent", 4, priority=9)


# --- who is a candidate -----------------------------------------------------------------------------------------------


def test_single_pods_come_before_gangs() -> None:
    book = Searched(
        queue(),
        node("a", cpu=6),
        runs(asks("elastic", pods=3, minimum=1), "a", "a", "a"),
        runs(asks("rigid"), "a"),
        URGENT,
    )
    assert (book.all.above, book.names[:2]) == (2, ["elastic/2", "elastic/1"])
    assert sorted(book.names[2:]) == ["elastic", "rigid"]
    tiers = book.all.field.tier.tolist()
    assert tiers[:2] == [SURPLUS, SURPLUS]
    assert all(tier > SURPLUS for tier in tiers[2:])


def test_on_a_node_the_pods_with_the_highest_ordinals_go_first() -> None:
    """Rule R18."""
    spread = runs(asks("elastic", pods=4, minimum=2), "a", "b", "a", "b")
    book = Searched(queue(), node("a", cpu=2), node("b", cpu=2), spread, URGENT)
    assert {book.name(each) for each in range(book.all.above)} >= {"elastic/2", "elastic/3"}


@pytest.mark.parametrize(
    "protected",
    [
        {"priority": 9},  # not lower
        {"preemptible": False},
        {"queue": "other"},  # no right over other queues
    ],
    ids=lambda one: next(iter(one)),
)
def test_jobs_that_the_policy_protects_are_no_candidates(protected: dict[str, Any]) -> None:
    book = Searched(
        queue(),
        QueueSeen(Queue(name="other")),
        node("a", cpu=4),
        runs(asks("low"), "a"),
        runs(asks("kept", **protected), "a"),
        URGENT,
    )
    assert book.names == ["low"]


def test_jobs_that_already_stop_are_no_candidates_but_their_capacity_is_free() -> None:
    stopping = replace(runs(asks("stops", 3), "a"), phase=Phase.STOPPING, leaving=(Slot(0, 0),))
    book = Searched(queue(), node("a", cpu=4), runs(asks("low"), "a"), stopping, URGENT)
    assert book.names == ["low"]
    assert book.free() == 3


def test_last_victims_come_after_all_others() -> None:
    book = Searched(
        queue(),
        node("a", cpu=4),
        runs(asks("spared", last_victim=True), "a"),
        runs(asks("low", priority=5), "a"),
        URGENT,
    )
    spared, low = (int(book.all.field.tier[book.number(name)]) for name in ("spared", "low"))
    assert spared == low + LAST


def test_slots_and_jobs_that_this_cycle_has_evicted_are_left_out() -> None:
    def evicted(cycle: Cycle) -> None:
        cycle.state.victims["elastic"] = (Slot(0, 2),)
        cycle.state.victims["gone"] = ()

    jobs = (runs(asks("elastic", pods=3, minimum=1), "a", "a", "a"), runs(asks("gone"), "a"), runs(asks("low"), "a"))
    book = Searched(queue(), node("a", cpu=5), *jobs, URGENT, before=evicted)
    assert not {"elastic/2", "gone"} & {*book.names}
    singles = range(book.all.above)
    assert [book.name(each) for each in singles if book.all.evict(each)] == ["elastic/1"], "one is left to spare"


# --- evicting and restoring -------------------------------------------------------------------------------------------


def elastic(**more: Any) -> Searched:
    return Searched(
        queue(),
        node("a", cpu=6),
        runs(asks("elastic", pods=3, minimum=1), "a", "a", "a"),
        runs(asks("rigid", 2), "a"),
        URGENT,
        **more,
    )


def test_an_eviction_frees_the_capacity_and_is_undone_exactly() -> None:
    book = elastic()
    before = book.snapshot()
    assert book.free() == 1
    assert book.all.evict(book.number("rigid"))
    assert book.free() == 3
    assert [*book.all.going] == [book.number("rigid")]
    book.all.restore(book.number("rigid"))
    assert book.snapshot() == before
    assert book.all.going == {}


def test_a_gang_takes_the_pods_that_did_not_go_before() -> None:
    book = elastic()
    assert book.all.evict(book.number("elastic/2"))
    assert book.free() == 2
    assert book.all.evict(book.number("elastic"))
    assert book.free() == 4
    assert book.all.goes_with_its_gang(book.number("elastic/2"))
    assert not book.all.evict(book.number("elastic/1")), "it went with its gang"


def test_a_gang_keeps_its_minimum_while_it_runs() -> None:
    book = Searched(queue(), node("a", cpu=6), runs(asks("elastic", pods=3, minimum=2), "a", "a", "a"), URGENT)
    assert [book.all.evict(each) for each in range(book.all.above)].count(True) == 1
    assert book.free() == 4


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_evictions_and_returns_leaves_nothing_behind(seed: int) -> None:
    random = Random(seed)
    jobs = [
        runs(
            asks(f"j{at}", random.randint(1, 2), pods=3, minimum=random.randint(1, 3), priority=random.randint(0, 3)),
            *random.choices("ab", k=3),
        )
        for at in range(4)
    ]
    book = Searched(queue(), node("a", cpu=30), node("b", cpu=30), *jobs, asks("urgent", 40, priority=9))
    before = book.snapshot()
    for _ in range(30):
        candidate = random.randrange(len(book.names))
        if candidate in book.all.going:
            if book.all.is_gang(candidate) or not book.all.goes_with_its_gang(candidate):
                book.all.restore(candidate)
        elif not book.all.field.gone[candidate]:
            book.all.evict(candidate)
    for candidate in sorted(book.all.going, reverse=True):  # gangs first, as their pods count in them
        book.all.restore(candidate)
    assert book.snapshot() == before


def test_a_right_to_preempt_does_not_come_from_earlier_victims() -> None:
    """Rule R18: the queue `rich` is judged with its surplus, so it stays above its guarantee for the second gang."""
    rich = queue("rich", guaranteed=4)
    owner = queue(guaranteed=8, within=WithinQueue.NEVER, reclaim=ReclaimWithinCohort.ANY)
    gangs = [runs(replace(asks(f"g{at}", 2), queue="rich"), "a") for at in range(4)]
    book = Searched(owner, rich, node("a", cpu=12), *gangs, asks("urgent", 8))
    evicted = [name for name in book.names if book.all.evict(book.number(name))]
    assert len(evicted) == 2, "with two gangs gone the queue is within its guarantee"


# --- the outcome ------------------------------------------------------------------------------------------------------


def test_the_most_precious_are_named_first_and_leave_last() -> None:
    jobs = (
        runs(asks("old", priority=1), "a", started_s=0.0),
        runs(asks("new", priority=1), "a", started_s=90.0),
        runs(asks("important", priority=5), "a", started_s=90.0),
        runs(asks("elastic", pods=2, minimum=1, priority=8), "a", "a"),
    )
    book = Searched(queue(), node("a", cpu=5), *jobs, URGENT)
    for name in ("elastic/1", "new", "important", "old"):
        assert book.all.evict(book.number(name))
    assert [book.name(each) for each in book.all.most_precious_first()] == ["important", "old", "new", "elastic/1"]
    assert [victim.job for victim in book.all.victims()] == ["new", "old", "important", "elastic"], "single pods last"


def test_victims_name_their_slots_their_rule_and_their_charge() -> None:
    book = elastic()
    for name in ("elastic/2", "elastic/1", "rigid"):
        book.all.evict(book.number(name))
    rigid, shrunk = book.all.victims()
    assert (rigid.job, rigid.slots, shrunk.job, set(shrunk.slots)) == ("rigid", (), "elastic", {Slot(0, 1), Slot(0, 2)})
    assert cpu_of(rigid) == cpu_of(shrunk) == 2
    assert shrunk.charge is not None
    assert shrunk.charge.jobs == 0, "the job itself goes on"


def cpu_of(victim: Victim) -> int:
    assert victim.charge is not None
    return sum(amount for key, amount in victim.charge.cost if "cpu" in str(key))


def test_single_pods_of_an_evicted_gang_are_not_named() -> None:
    book = elastic()
    for name in ("elastic/2", "elastic"):
        book.all.evict(book.number(name))
    [victim] = book.all.victims()
    assert (victim.job, victim.slots, cpu_of(victim)) == ("elastic", (), 3), "with the charge of all of its pods"


# --- growth of this cycle ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "running", "placed", "above"),
    [
        (GangSize.ELASTIC, 2, (2, 3), (2, 3)),
        (GangSize.ELASTIC, 1, (1, 2, 3), (2, 3)),  # the first fills the minimum
        (GangSize.IN_TURN, 2, (2,), (2,)),
        (GangSize.FIXED_AT_START, 2, (2,), ()),
    ],
)
def test_growth_is_what_this_cycle_has_placed_above_the_minimum(
    size: GangSize, running: int, placed: tuple[int, ...], above: tuple[int, ...]
) -> None:
    grows = replace(asks("grows", pods=4, minimum=2), size=size)
    missing = tuple(Slot(0, at) for at in range(running, 4))
    book = cluster(node("a", cpu=9), runs(grows, *["a"] * running, open=missing))
    given = [Placement(0, at, "a") for at in placed]
    assert [each.ordinal for each in growth_of(book.jobs["grows"], given)] == [*above]
