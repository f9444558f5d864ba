"""What run times of the past say of the next."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from phalanx.model.job import Job
from phalanx.state.run_times import KEPT, KINDS, RunTimes, kinds, name_of_kind, next_value
from tests.core.builders import job, role

LEVELS = (0.25, 0.5, 0.75)


def of(name: str, user: str = "ada", cpu: int = 1000, limit_s: float | None = 100.0) -> Job:
    return replace(job(name, role(cpu=cpu)), user=user, limit_s=limit_s)


def learned(*runs: tuple[Job, float]) -> RunTimes:
    found = RunTimes()
    for one, run_s in runs:
        found.learn(one, one.limit_s, run_s)
    return found


def test_the_next_value_is_in_each_gap_with_the_same_probability() -> None:
    """Hill's A(n): with three values there are four gaps."""
    values = [(2.0, 1.0), (4.0, 1.0), (6.0, 1.0)]
    levels = (0.0, 0.25, 0.5, 0.625, 0.75, 1.0)
    assert next_value(values, 0.0, 10.0, levels) == pytest.approx([0, 2, 4, 5, 6, 10])


def test_a_gap_is_as_probable_as_the_value_above_it_weighs() -> None:
    values = [(2.0, 2.0), (4.0, 1.0)]  # and 1 for the gap above them
    assert next_value(values, 0.0, 10.0, (0.25, 0.5, 0.75, 0.875)) == pytest.approx([1, 2, 4, 7])
    assert next_value([(3.0, 1.0)], 0.0, 2.0, (0.9,)) == [3.0]  # it outlived its limit


def test_a_job_is_expected_to_run_as_those_of_its_kind_ran() -> None:
    known = learned(*[(of(f"a/train-{n}"), 10.0 + n / 4) for n in range(28)], *[(of("a/eval"), 90.0)] * 28)
    assert known.expected_s(of("a/train-99"), 100.0, 0.0, (0.3, 0.7)) == pytest.approx([12.25, 15.5], abs=0.1)
    assert known.expected_s(of("a/eval"), 100.0, 0.0, (0.5,)) == pytest.approx([90.0])


def test_a_kind_that_is_well_known_speaks_for_itself_and_two_or_three_do_not() -> None:
    """Ada's jobs of other kinds ran 90 s, everybody else's 50 s; of the kind itself each ran 10 s."""
    others = [*[(of(f"a/k{n}", cpu=n), 90.0) for n in range(1, 17)], *[(of("b/x", "bob"), 50.0)] * 64]
    medians = []
    for count in (0, 2, 6, 20):
        known = learned(*others, *[(of("a/new"), 10.0)] * count)
        medians += known.expected_s(of("a/new"), 100.0, 0.0, (0.5,))
    assert medians == pytest.approx([90.0, 90.0, 10.0, 10.0])


def test_those_of_its_user_weigh_more_than_everybodys() -> None:
    known = learned(*[(of("b/x", "bob"), 90.0)] * 64, *[(of(f"a/k{n}", cpu=n), 10.0) for n in range(1, 17)])
    assert known.expected_s(of("a/new"), 100.0, 0.0, (0.5,)) == pytest.approx([10.0])


def test_what_it_has_run_already_counts() -> None:
    known = learned(*[(of("a/train"), float(run_s)) for run_s in (5, 5, 5, 5, 5, 40, 50, 60, 70)])
    assert known.expected_s(of("a/train"), 100.0, 10.0, (0.2, 0.8)) == pytest.approx([40.0, 70.0])
    assert all(each > 10.0 for each in known.expected_s(of("a/train"), 100.0, 10.0, (0.01, 0.99)))


def test_of_an_unknown_user_everybody_counts() -> None:
    known = learned(
        *[(of(f"a/{name}", "bob", cpu), 20.0) for cpu, name in enumerate("klmn", 1)], (of("a/x", "eve"), 70.0)
    )
    assert known.expected_s(of("a/new", "bob"), 100.0, 0.0, (0.5,)) == pytest.approx([20.0])
    assert 20.0 <= known.expected_s(of("a/new", "zoe"), 100.0, 0.0, (0.5,))[0] < 70.0


def test_run_times_count_as_parts_of_the_limit() -> None:
    known = learned(*[(of(f"a/b{n}", "bob", n), 25.0) for n in range(1, 8)])
    assert known.expected_s(of("a/long", "bob", limit_s=1000.0), 1000.0, 0.0, (0.5,)) == pytest.approx([250.0])


def test_where_nothing_is_known_limits_count() -> None:
    assert RunTimes().expected_s(of("a/b"), 100.0, 30.0, LEVELS) == [100.0] * 3
    assert RunTimes().expected_s(of("a/b", limit_s=None), None, 30.0, LEVELS) == [inf] * 3
    assert learned((of("a/b"), 10.0)).expected_s(of("a/c"), 100.0, 130.0, LEVELS) == [130.0] * 3  # it is overdue


def test_without_a_limit_it_may_run_twice_as_long_as_the_longest() -> None:
    known = learned(*[(of("a/b", limit_s=None), 10.0)] * 4)
    assert known.expected_s(of("a/b", limit_s=None), None, 0.0, (0.5, 1.0)) == pytest.approx([10.0, 20.0])
    assert known.expected_s(of("a/b", limit_s=None), None, 50.0, (0.5,)) == [100.0]


def test_the_last_run_times_count() -> None:
    known = learned(*[(of("a/b"), 90.0)] * KEPT, *[(of("a/b"), 10.0)] * KEPT)
    assert known.expected_s(of("a/b"), 100.0, 0.0, (0.5,)) == pytest.approx([10.0])


@pytest.mark.slow
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
