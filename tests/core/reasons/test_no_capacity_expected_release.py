"""When enough of a missing amount comes back: running jobs end at their time limits, in that order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold_plan
from phalanx.core.reasons.no_capacity import consumers_text, expected_release_s, release_text
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from phalanx.state.running import LEAVING_S

from ..builders import cluster, job, node, role

DAY_S = 86_400.0


def running(**limits_s: float | None) -> Cluster:
    """Jobs of one cpu that run since 0 s, by their time limits."""
    jobs = (replace(job(name, role("w", 1, cpu=1)), limit_s=limit) for name, limit in limits_s.items())
    book = cluster(node("n", cpu=8), *jobs)
    fold_plan(book, decide(book, Policy(), 0.0))
    return book


def test_jobs_release_in_the_order_of_their_limits() -> None:
    book = running(late=300.0, early=100.0, middle=200.0)
    assert [expected_release_s(book, missing, lambda _: 1) for missing in (1, 2, 3)] == [100.0, 200.0, 300.0]


def test_a_job_without_a_limit_never_releases() -> None:
    book = running(bounded=100.0, endless=None)
    assert expected_release_s(book, 1, lambda _: 1) == 100.0
    assert expected_release_s(book, 2, lambda _: 1) is None


def test_only_what_a_job_gives_counts() -> None:
    book = running(other=100.0, mine=200.0)
    assert expected_release_s(book, 1, {"other": 0, "mine": 1}.__getitem__) == 200.0


def test_nothing_missing_and_too_many_ends_are_no_time() -> None:
    book = running(a=100.0, b=200.0, c=300.0)
    assert expected_release_s(book, 0, lambda _: 1) is None
    assert expected_release_s(book, 3, lambda _: 1, looked_at=2) is None


def test_a_job_that_this_cycle_starts_is_among_those_that_end() -> None:
    book = running(a=300.0, b=100.0)
    waiting = replace(job("new", role("w", 1, cpu=1)), limit_s=50.0)
    book = cluster(node("n", cpu=8), waiting)
    assert expected_release_s(book, 1, lambda _: 1) is None
    assert expected_release_s(book, 1, lambda _: 1, granted=["new"]) == 50.0


@pytest.mark.parametrize(
    ("end_s", "days", "text"),
    [
        (LEAVING_S, -1, "enough is on its way back"),
        (5.0, -1, "enough is overdue to come back"),
        (3_661.0, 0, "enough is expected back by 01:01:01 UTC"),
        (DAY_S * 1.5, 1, "enough is expected back in about 1 day"),
        (DAY_S * 7, 7, "enough is expected back in about 7 days"),
    ],
)
def test_the_sentence_is_as_exact_as_the_time_is_near(end_s: float, days: int, text: str) -> None:
    assert release_text(end_s, days) == text


def test_consumers_are_grouped_by_queue_the_largest_first() -> None:
    held = [("x", 6, "a"), ("z", 4, "b"), ("y", 2, "a")]
    assert consumers_text(held, "nvidia.com/gpu") == "queue a by x (6), y (2) and in queue b by z (4)"
