"""The cycle as a whole: what scenarios do not show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.cycle.known import EXPLAINED
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished, NodeSeen, QueueSeen, Started, Submitted
from phalanx.model.job import Job
from phalanx.model.plan import FirstReservation, Plan, Start, Wait
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, Quota
from phalanx.state.cluster import Cluster
from tests.invariants import check_invariants

from .builders import cluster, free, job, node, role


def crowd() -> Cluster:
    jobs = [job(f"j{n}", role("w", 1 + n % 3, cpu=1 + n % 4), at=n) for n in range(30)]
    return cluster(node("a", cpu=8), node("b", cpu=8), *jobs)


def started(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Start)]


def test_deciding_twice_decides_the_same_and_changes_nothing() -> None:
    book = crowd()
    first, second = decide(book, Policy(), 0.0), decide(book, Policy(), 0.0)
    assert first.actions == second.actions
    assert started(first)
    assert free(book, "a") == free(book, "b") == 8
    check_invariants(book)


def test_memory_only_saves_time() -> None:
    """A loop that forgets them decides the same, cycle after cycle."""
    knowing, forgetful = crowd(), crowd()
    for name in ("j0", "j1", "j2", "j3", "j4", "j5"):
        plan, other = decide(knowing, Policy(), 0.0), decide(forgetful, Policy(), 0.0)
        assert started(plan) == started(other)
        fold_plan(knowing, plan)
        fold(forgetful, other.actions)
        for book in (knowing, forgetful):
            fold(book, [Finished(name)])


def test_memory_from_before_an_event_is_not_folded() -> None:
    book = cluster(node("a", cpu=1), job("j", role("w", 2, cpu=1)))
    plan = decide(book, Policy(), 0.0)
    fold(book, [NodeSeen(node("b", cpu=1))])
    fold_plan(book, plan)
    assert started(decide(book, Policy(), 0.0)) == ["j"]


def test_a_class_is_open_as_soon_as_its_pods_are_counted() -> None:
    runs = [job(f"r{n}", role("w", 1, cpu=1), at=n) for n in range(4)]
    book = cluster(node("a", cpu=4), *runs, job("big", role("w", 3, cpu=1), at=9))
    fold_plan(book, decide(book, Policy(), 0.0))
    for name, starts in (("r0", []), ("r1", []), ("r2", ["big"])):
        fold(book, [Finished(name)])
        plan = decide(book, Policy(), 0.0)
        assert started(plan) == starts
        check_invariants(book)
        fold_plan(book, plan)


def test_who_still_lacks_quota_says_what_it_said() -> None:
    limited = QueueSeen(Queue(name="q", quotas=(Quota(limit=(("cpu", 4),)),)))
    runs = [job(f"r{n}", role("w", 1, cpu=2), queue="q", at=n) for n in range(2)]
    waits = [job(f"j{n}", role("w", 1, cpu=2, memory=1 + n), queue="q", at=9 + n) for n in range(20)]
    book = cluster(limited, node("a", cpu=64, memory=1000), *runs, *waits)
    fold_plan(book, decide(book, Policy(), 0.0))
    told = {each.id: book.reason(each.id) for each in waits}
    for ended, starts in (("r0", "j0"), ("r1", "j1")):
        fold(book, [Finished(ended)])
        plan = decide(book, Policy(), 0.0)
        assert started(plan) == [starts]
        assert len([action for action in plan.actions if isinstance(action, Wait)]) == EXPLAINED
        fold_plan(book, plan)
        check_invariants(book)
        assert decide(book, Policy(), 0.0).plan == Plan()
    assert book.reason("j19") == told["j19"]


def test_alike_jobs_cost_one_trial_and_share_the_reason() -> None:
    alike: list[Job] = [job(f"j{n}", role("w", 2, cpu=5), at=n) for n in range(50)]
    book = cluster(node("a", cpu=8), *alike)
    plan = decide(book, Policy(), 0.0)
    waits = [action for action in plan.actions if isinstance(action, Wait)]
    assert len(waits) == 50
    assert len({id(wait.reason) for wait in waits}) == 1


def test_only_the_first_is_told_new_numbers() -> None:
    alike = [job(f"j{n}", role("w", 2, cpu=3), at=n) for n in range(5)]
    book = cluster(node("a", cpu=8), job("r", role("w", 1, cpu=8), at=-1), *alike)
    fold_plan(book, decide(book, Policy(), 0.0))
    fold(book, [Finished("r"), Submitted(job("s", role("w", 1, cpu=4), at=-2))])
    plan = decide(book, Policy(), 0.0)
    assert started(plan) == ["s"]
    assert [action.job for action in plan.actions if isinstance(action, Wait)] == ["j0"]
    fold_plan(book, plan)
    assert book.reason("j3") == book.reason("j0")


def test_who_finds_that_others_were_sooner_is_told_the_new_numbers() -> None:
    waits = [job(f"j{n}", role("w", 1, cpu=7 - n), at=n) for n in range(3)]
    book = cluster(node("a", cpu=8), job("r", role("w", 1, cpu=8), at=-1), *waits)
    fold_plan(book, decide(book, Policy(), 0.0))
    assert book.reason("j2").numbers["free"]["cpu"] == 0
    fold(book, [Finished("r")])
    plan = decide(book, Policy(), 0.0)
    assert started(plan) == ["j0"]
    fold_plan(book, plan)
    check_invariants(book)
    for name in ("j1", "j2"):
        assert book.reason(name).numbers["free"]["cpu"] == 1
        assert book.reason(name).names("j0")
    fold(book, [Finished("j0")])
    assert started(decide(book, Policy(), 0.0)) == ["j1"]


@pytest.mark.slow
def test_a_chain_of_queues_may_be_as_long_as_people_like() -> None:
    chain = [QueueSeen(Queue(name=f"q{n}", parent=f"q{n - 1}" if n else "")) for n in range(1200)]
    book = Cluster()
    fold(book, [*chain, NodeSeen(node("a", cpu=8)), Submitted(job("deep", role("w", 1, cpu=1), queue="q1199"))])
    plan = decide(book, Policy(), 0.0)
    assert started(plan) == ["deep"]
    fold_plan(book, plan)
    check_invariants(book)


def test_the_first_reservation_stands_while_nothing_happens() -> None:
    runs = replace(job("runs", role("w", 1, cpu=3), at=0), limit_s=60.0)
    book = cluster(node("a", cpu=4), runs, replace(job("big", role("w", 1, cpu=4), at=1), limit_s=60.0))
    decision = decide(book, Policy(), 0.0)
    fold_plan(book, decision)
    fold(book, [Started("runs", 1)])
    fold_plan(book, decide(book, Policy(), 0.0))
    idle = decide(book, Policy(), 1.0)
    assert idle.memory is None
    assert idle.plan.reserved == decision.plan.reserved == FirstReservation("big", None, 60.0)
