"""Past usage: decayed exactly, whatever the steps in which time passes, and charged to who holds nodes."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isclose, log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.fold.fold import fold
from phalanx.core.order.associations import associations, fair_shares
from phalanx.model.event import Adopted, Finished, PolicySeen, QueueSeen, Released, Submitted, Ticked, UsageTold
from phalanx.model.job import Job, Phase, Placement, Slot
from phalanx.model.plan import Preempt, Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, UsageTerms
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from phalanx.state.usage import DecayedUsage
from tests.core import builders as a
from tests.invariants import check_invariants

HALF_LIFE_S = 100.0
EVER = PolicySeen(Policy(billing=(("cpu", 0.001),), half_life_s=0.0))
PRICED = PolicySeen(Policy(billing=(("cpu", 0.001),), half_life_s=HALF_LIFE_S))


def of_ann(pods: int = 2) -> Job:
    return replace(a.job("j", a.role(count=pods, cpu=1000)), user="ann")


def running(book: Cluster, at_s: float, pods: int = 2) -> Cluster:
    placements = tuple(Placement(0, ordinal, "n") for ordinal in range(pods))
    fold(book, [Ticked(at_s), Start("j", 1, placements, at_s)])
    return book


def anns(book: Cluster) -> float:
    check_invariants(book)
    return book.usage.of("default", "ann", book.now_s)


def test_what_runs_is_charged_by_the_second() -> None:
    book = running(
        a.cluster(a.node("n", cpu=8000), of_ann(), EVER),
        at_s=10,
    )
    fold(book, [Ticked(40)])
    assert anns(book) == 2 * 30
    fold(book, [Released("j", (Slot(0, 1),)), Ticked(50), Finished("j"), Ticked(1000)])
    assert anns(book) == 2 * 30 + 10


def test_a_queue_may_have_its_own_prices_and_half_life() -> None:
    terms = UsageTerms(half_life_s=10.0, billing=(("cpu", 0.002),))
    book = a.cluster(a.node("n", cpu=8000), PRICED, QueueSeen(Queue(name="default", usage=terms)), of_ann(1))
    fold(book, [UsageTold("default", "ann", 8.0, 0.0), UsageTold("other", "ann", 8.0, 0.0), Ticked(10)])
    assert anns(book) == 4.0
    assert book.usage.of("other", "ann", 10) == pytest.approx(8 * 0.5 ** (10 / HALF_LIFE_S))
    running(book, 10, 1)
    fold(book, [Ticked(20)])
    before = anns(book)
    assert before == pytest.approx(2 + 2 * 10 / log(2) * 0.5)
    fold(book, [QueueSeen(Queue(name="default")), Ticked(20 + HALF_LIFE_S)])
    assert anns(book) == pytest.approx(before / 2 + HALF_LIFE_S / log(2) * 0.5)


def test_half_of_it_counts_after_the_half_life() -> None:
    book = running(a.cluster(a.node("n", cpu=8000), of_ann(), PRICED), at_s=0)
    fold(book, [Ticked(50), Finished("j")])
    once = anns(book)
    fold(book, [Ticked(50 + HALF_LIFE_S)])
    assert isclose(anns(book), once / 2)
    assert 2 * 50 * 2 ** (-50 / HALF_LIFE_S) < once < 2 * 50


def test_one_who_always_holds_the_same_comes_to_a_level_usage() -> None:
    book = running(a.cluster(a.node("n", cpu=8000), of_ann(), PRICED), at_s=0)
    fold(book, [Ticked(100 * HALF_LIFE_S)])
    assert isclose(anns(book), 2 * HALF_LIFE_S / 0.6931471805599453)


def test_a_clock_that_goes_back_charges_nothing() -> None:
    book = running(a.cluster(a.node("n", cpu=8000), of_ann(), PRICED), at_s=100)
    fold(book, [Ticked(130)])
    before = anns(book)
    fold(book, [Ticked(20), Released("j", (Slot(0, 1),)), Ticked(90)])
    assert anns(book) == before


def test_a_preempted_job_is_charged_until_its_pods_are_gone() -> None:
    book = running(
        a.cluster(a.node("n", cpu=8000), of_ann(), EVER),
        at_s=0,
    )
    fold(book, [Ticked(10), Preempt("j", 1, "other", Reason(code=ReasonCode.PREEMPTED, text="for other")), Ticked(20)])
    assert anns(book) == 2 * 20
    fold(book, [Finished("j"), Ticked(30)])
    assert anns(book) == 2 * 20


def adopted(started_s: float) -> Adopted:
    return Adopted(of_ann(1), 1, Phase.RUNNING, (Placement(0, 0, "n"),), started_s=started_s)


def test_after_a_restart_all_is_as_if_there_had_been_none() -> None:
    lived = a.cluster(a.node("n", cpu=8000), of_ann(1), PRICED, UsageTold("default", "ann", 70.0, 0.0))
    running(lived, at_s=20, pods=1)
    fold(lived, [Ticked(60)])
    remembered = UsageTold("default", "ann", anns(lived), 60.0)
    fold(lived, [Ticked(90)])
    told = a.cluster(Ticked(90), PRICED, a.node("n", cpu=8000), remembered, adopted(started_s=20))
    assert isclose(anns(told), anns(lived))
    fold(told, [adopted(started_s=20)])  # again: nothing is charged twice
    assert isclose(anns(told), anns(lived))
    never_told = a.cluster(Ticked(90), PRICED, a.node("n", cpu=8000), adopted(started_s=20))
    assert isclose(anns(never_told) + 70 * 2 ** (-90 / HALF_LIFE_S), anns(lived))


def test_a_job_adopted_without_a_start_is_charged_from_now() -> None:
    book = a.cluster(Ticked(1e9), PRICED, a.node("n", cpu=8000), adopted(started_s=0.0))
    assert anns(book) == 0


@pytest.mark.parametrize("absurd", [nan, inf, -inf, -3.0, 1e300])
def test_absurd_numbers_are_none(absurd: float) -> None:
    book = a.cluster(Ticked(50), PRICED, UsageTold("default", "ann", absurd, 0.0))
    assert anns(book) == 0
    fold(book, [UsageTold("default", "ann", 5.0, max(absurd, 1e18))])
    assert anns(book) == 5  # the future is now
    fold(book, [PolicySeen(Policy(billing=(("cpu", absurd),), half_life_s=absurd)), Ticked(1e6)])
    assert 0 <= anns(book) <= 5


def test_new_prices_count_from_now() -> None:
    book = running(
        a.cluster(a.node("n", cpu=8000), of_ann(), EVER),
        at_s=0,
    )
    fold(book, [Ticked(10), PolicySeen(Policy(billing=(("cpu", 0.002), ("pods", 1.0)), half_life_s=0.0)), Ticked(20)])
    assert anns(book) == 2 * 10 + (4 + 2) * 10


def test_a_copy_goes_its_own_way() -> None:
    book = running(a.cluster(a.node("n", cpu=8000), of_ann(), PRICED), at_s=0)
    other = book.copy()
    fold(other, [Ticked(10), Finished("j")])
    fold(book, [Ticked(30)])
    assert anns(book) > anns(other)


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), min_size=1, max_size=20), st.sampled_from([0.0, 50.0])
)
def test_it_is_the_integral_over_what_was_held(steps: list[tuple[int, int]], half_life_s: float) -> None:
    """Held against adding up small steps of time."""
    book = DecayedUsage()
    book.price((("cpu", 1.0),), half_life_s, 0.0)
    expected, now_s, cpus = 0.0, 0.0, 0
    fine = 64
    for seconds, wanted in steps:
        book.hold("q", "u", (("cpu", 1),), wanted - cpus, now_s)
        cpus = wanted
        decay = 2 ** (-1 / fine / half_life_s) if half_life_s else 1.0
        for _ in range(seconds * fine):
            expected = expected * decay + cpus / fine * decay**0.5
        now_s += seconds
    assert isclose(book.of("q", "u", now_s), expected, rel_tol=1e-4, abs_tol=1e-9)


def test_queues_without_a_way_to_the_root_have_no_associations() -> None:
    queues = [Queue(name="a"), Queue(name="b", parent="a"), Queue(name="x", parent="y"), Queue(name="y", parent="x")]
    queues.append(Queue(name="orphan", parent="nowhere"))
    book = a.cluster()
    for queue in queues:
        book.usage.meter(queue.name, "ann")
    root = associations({queue.name: queue for queue in queues}, book.usage, Policy(), 0.0)
    assert root.users == 2
    assert [member.key for member in root.members] == [("a", None)]


def test_a_very_deep_tree_is_ranked() -> None:
    deep = {f"q{number}": Queue(name=f"q{number}", parent=f"q{number - 1}" if number else "") for number in range(3000)}
    book = a.cluster()
    fold(book, [UsageTold("q2999", "ann", 3.0, 0.0), UsageTold("q2", "eve", 4.0, 0.0)])
    book.queues = deep
    found = fair_shares(book, Policy(), 0.0)
    assert (found["q2999", "ann"].factor, found["q2", "eve"].factor) == (1.0, 0.5)


@pytest.mark.slow
def test_who_is_gone_is_forgotten_when_nothing_is_left_of_the_usage() -> None:
    book = a.cluster(a.node("n", cpu=2000))
    fold(book, [PRICED, UsageTold("default", "ann", 50.0, 0.0)])
    for number in range(1000):
        job = replace(a.job(f"j{number}", a.role(cpu=1000)), user=f"user-{number}")
        fold(book, [Submitted(job), Finished(job.id)])
        check_invariants(book)
    meters = book.usage.associations
    assert sum(map(len, meters.values())) < 150
    assert "ann" in meters["default"]
    fold(book, [Ticked(100 * HALF_LIFE_S)])
    for number in range(200):
        job = replace(a.job(f"k{number}", a.role(cpu=1000)), user=f"user-{number}")
        fold(book, [Submitted(job), Finished(job.id)])
    assert "ann" not in meters.get("default", {})
