"""Reasons are reported when they have changed: to the first of a class, and to others within a budget."""

from __future__ import annotations

from phalanx.core.cycle.known import EXPLAINED
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished, NodeGone, Opened, QueueSeen, Started, Submitted
from phalanx.model.job import Job, Slot
from phalanx.model.plan import Plan, Start, Wait
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, Quota
from tests.core.builders import cluster, event, job, node, role
from tests.invariants import check_invariants


def started(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Start)]


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


def test_a_job_with_several_open_slots_does_not_change_its_reason_in_every_cycle() -> None:
    book = cluster(node("a", cpu=4), node("b", memory=4), job("j", role("x", cpu=3), role("y", memory=3)))
    fold_plan(book, decide(book, Policy(), 0.0))
    fold(book, [Started("j", 1), Opened("j", (Slot(0, 0), Slot(1, 0))), NodeGone("a"), NodeGone("b")])
    told = []
    for cycle in range(3):
        fold(book, [event(node("c", labels={"cycle": str(cycle)}, cpu=1, memory=1))])
        plan = decide(book, Policy(), 1.0)
        told += [action.job for action in plan.actions if isinstance(action, Wait)]
        fold_plan(book, plan)
    assert told == ["j"]
