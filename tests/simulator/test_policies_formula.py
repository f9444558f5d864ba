"""Queue orders by a formula: the order of jobs, and the use of the scheduler's estimate."""

from __future__ import annotations

from phalanx.model.pod import CPU
from phalanx.simulator.workload import MILLI_CPU, Formula, Task
from tests.simulator.builders import played, starts, task

FULL = task("full", 0, 100, 10, limit_s=100)


def order(policy: str, *tasks: Task, estimates: str = "user") -> list[str]:
    """The jobs in the order of their starts, on a machine that is full when they come."""
    found = starts(played(FULL, *tasks, policy=policy, estimates=estimates))
    return sorted((each.job.id for each in tasks), key=lambda name: found[name] or 0.0)


def test_the_smallest_area_is_first_under_saf() -> None:
    long, wide, small = (
        task("long", 1, 90, 6, limit_s=90),
        task("wide", 2, 20, 10, limit_s=20),
        task("small", 3, 15, 7, limit_s=15),
    )
    assert order("saf", long, wide, small) == ["small", "wide", "long"]
    assert order("easy", long, wide, small) == ["long", "wide", "small"]


def test_the_area_is_of_the_estimate_that_the_scheduler_is_told() -> None:
    said_short, said_long = task("said-short", 1, 20, 10, limit_s=20), task("said-long", 2, 10, 10, limit_s=500)
    assert order("saf", said_short, said_long) == ["said-short", "said-long"]
    assert order("saf", said_short, said_long, estimates="exact") == ["said-long", "said-short"]


def test_under_f1_both_size_and_submission_count() -> None:
    """870 log10(50 / 2) is more than log10(1000) * 9 can make up for, 870 log10(50 / 49) is not."""
    early, late, later = (
        task("early", 2, 1000, 10, limit_s=1000),
        task("late", 49, 1000, 10, limit_s=1000),
        task("later", 50, 1000, 6, limit_s=1000),
    )
    assert order("f1", early, late, later) == ["early", "later", "late"]


def test_f1_is_the_published_formula() -> None:
    job = task("a", 10_000, 1, 4, limit_s=1000).job
    assert Formula.F1.priority(job, CPU, MILLI_CPU) == -(3 * 4 + 870 * 4) * 1_000_000


def test_jobs_without_an_estimate_are_last_in_the_order_of_their_submission() -> None:
    first, second, known = task("first", 1, 10, 10), task("second", 2, 5, 1), task("known", 3, 900, 10, limit_s=900)
    assert order("saf", first, second, known) == ["known", "first", "second"]
