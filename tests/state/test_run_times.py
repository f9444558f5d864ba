"""What run times of the past say of the next."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from phalanx.model.job import Job
from phalanx.state.history.run_times import ENOUGH, KEPT, KINDS, RunTimes, kinds, name_of_kind, quantile
from tests.core.builders import job, role

HALVES = (0.25, 0.5, 0.75)


def of(name: str, user: str = "ada", cpu: int = 1000, limit_s: float | None = 100.0) -> Job:
    return replace(job(name, role(cpu=cpu)), user=user, limit_s=limit_s)


def learned(*runs: tuple[Job, float]) -> RunTimes:
    found = RunTimes()
    for one, run_s in runs:
        found.learn(one, one.limit_s, run_s)
    return found


def test_the_next_value_is_in_each_gap_with_the_same_probability() -> None:
    """Hill's A(n): with three values there are four gaps."""
    values = [2.0, 4.0, 6.0]
    assert [quantile(values, 0.0, 10.0, level) for level in (0.0, 0.25, 0.5, 0.625, 0.75, 1.0)] == [0, 2, 4, 5, 6, 10]
    assert quantile(values, 0.0, inf, 0.9) == inf
    assert quantile([], 0.0, 10.0, 0.5) == 5.0


def test_a_job_is_expected_to_run_as_those_of_its_kind_ran() -> None:
    known = learned(*[(of(f"a/train-{n}"), 10.0 + n) for n in range(7)], *[(of("a/eval"), 90.0)] * 7)
    assert known.expected_s(of("a/train-99"), 100.0, 0.0, HALVES) == pytest.approx([11.0, 13.0, 15.0])
    assert known.expected_s(of("a/eval"), 100.0, 0.0, (0.5,)) == pytest.approx([90.0])


def test_what_it_has_run_already_counts() -> None:
    known = learned(*[(of("a/train"), float(run_s)) for run_s in (5, 5, 5, 5, 5, 40, 50, 60, 70)])
    assert known.expected_s(of("a/train"), 100.0, 10.0, (0.2, 0.8)) == pytest.approx([40.0, 70.0])
    assert all(each > 10.0 for each in known.expected_s(of("a/train"), 100.0, 10.0, (0.01, 0.99)))


def test_of_an_unknown_kind_the_user_counts_and_of_an_unknown_user_everybody() -> None:
    of_bob = [(of(f"a/{name}", "bob", cpu), 20.0) for cpu, name in enumerate("klmn", 1)]
    known = learned(*of_bob, (of("a/x", "eve"), 70.0))
    assert known.expected_s(of("a/new", "bob"), 100.0, 0.0, (0.5,)) == pytest.approx([20.0])
    assert 20.0 <= known.expected_s(of("a/new", "zoe"), 100.0, 0.0, (0.5,))[0] < 70.0
    few = learned(*[(of("a/new", "bob"), 20.0)] * (ENOUGH - 1), *[(of(f"a/{n}", "eve", 7), 70.0) for n in range(9)])
    assert few.expected_s(of("a/new", "bob"), 100.0, 0.0, (0.9,))[0] >= 70.0  # three are not enough


def test_run_times_count_as_parts_of_the_limit() -> None:
    known = learned(*[(of(f"a/b{n}", "bob", n), 25.0) for n in range(1, 8)])
    assert known.expected_s(of("a/long", "bob", limit_s=1000.0), 1000.0, 0.0, (0.5,)) == pytest.approx([250.0])


def test_where_nothing_is_known_limits_count() -> None:
    assert RunTimes().expected_s(of("a/b"), 100.0, 30.0, HALVES) == [100.0] * 3
    assert RunTimes().expected_s(of("a/b", limit_s=None), None, 30.0, HALVES) == [inf] * 3
    assert learned((of("a/b"), 10.0)).expected_s(of("a/c"), 100.0, 130.0, HALVES) == [130.0] * 3  # it is overdue


def test_without_a_limit_it_may_run_twice_as_long_as_the_longest() -> None:
    known = learned(*[(of("a/b", limit_s=None), 10.0)] * 4)
    assert known.expected_s(of("a/b", limit_s=None), None, 0.0, (0.5, 1.0)) == pytest.approx([10.0, 20.0])
    assert known.expected_s(of("a/b", limit_s=None), None, 50.0, (0.5,)) == [100.0]


def test_the_last_run_times_count() -> None:
    known = learned(*[(of("a/b"), 90.0)] * KEPT, *[(of("a/b"), 10.0)] * KEPT)
    assert known.expected_s(of("a/b"), 100.0, 0.0, (0.5,)) == pytest.approx([10.0])


def test_memory_is_bounded() -> None:
    known = RunTimes()
    for number in range(2 * KINDS):
        known.learn(of("a/b", f"user-{number}x"), 100.0, 10.0)
    assert len(known) == KINDS


def test_a_copy_learns_for_itself() -> None:
    known = learned(*[(of("a/b"), 10.0)] * 5)
    known.copy().learn(of("a/b"), 100.0, 99.0)
    assert known.expected_s(of("a/b"), 100.0, 0.0, (0.9,))[0] < 99.0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("team/train-17", "team/train"),
        ("team/train", "team/train"),
        ("team/train-7-b4x2z", "team/train"),
        ("team/train-small", "team/train-small"),
        ("team/sweep_3.14", "team/sweep"),
        ("4711", ""),
    ],
)
def test_numbers_at_the_end_of_a_name_do_not_tell_kinds_apart(name: str, kind: str) -> None:
    assert name_of_kind(name) == kind


def test_nobody_shares_a_kind_with_another_user() -> None:
    ours, theirs = kinds(of("a/b", "ada"), 100.0), kinds(of("a/b", "bob"), 100.0)
    assert set(ours) & set(theirs) == {True}
