"""`state/running.py`: running pods as columns, expected ends in order, and the jobs that hold most."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from phalanx.model.job import Slot
from phalanx.model.pod import Shape, amounts
from phalanx.state.classes import InternTable
from phalanx.state.running import FIRST, LEAVING_S, ExpectedEnds, LargestConsumers, RunningPods, clamped_priority
from tests.core.builders import job, role

DEMAND = InternTable().demand(Shape(requests=amounts({"gpu": 2})))


def listed(pods: RunningPods, name: str) -> Counter[tuple[int, bool]]:
    """Return the pods of the job by (row, whether they are terminating)."""
    found: Counter[tuple[int, bool]] = Counter()
    for at in pods.entries_of(pods.number_of[name]):
        found[int(pods.entry("row")[at]), bool(pods.entry("leaving")[at])] += int(pods.entry("pods")[at])
    return found


def written(pods: RunningPods, name: str, rows: list[int], leaving: tuple[Slot, ...] = (), priority: int = 0) -> None:
    placed = {Slot(0, ordinal): row for ordinal, row in enumerate(rows)}
    pods.write(job(name, role(gpu=2), priority=priority), "q", (DEMAND,), placed, leaving, 5.0, (1,))
    pods.settle()


def test_equal_pods_of_a_node_are_one_entry_and_terminating_ones_another() -> None:
    pods = RunningPods()
    written(pods, "a", [3, 3, 4, 3], leaving=(Slot(0, 3),), priority=7)
    assert listed(pods, "a") == {(3, False): 2, (4, False): 1, (3, True): 1}
    number = pods.number_of["a"]
    assert (pods.of_jobs("priority")[number], pods.of_jobs("started_s")[number]) == (7, 5.0)
    assert pods.queues[pods.of_jobs("queue")[number]] == "q"
    assert list(pods.movable()) == [number, number]
    assert list(pods.amounts("gpu")) == [2]
    assert list(pods.costs("cpu")) == [0.0]


def test_no_more_pods_are_spare_than_leave_the_gang_whole() -> None:
    pods = RunningPods()
    written(pods, "a", [3, 3, 3], leaving=(Slot(0, 2),))
    entries = {bool(pods.entry("leaving")[at]): at for at in pods.entries_of(pods.number_of["a"])}
    assert pods.entry("spare")[entries[False]] == 1
    assert pods.entry("spare")[entries[True]] == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 3), max_size=4)), max_size=3 * FIRST))
def test_the_columns_have_what_was_written_last(steps: list[tuple[int, list[int]]]) -> None:
    pods, last = RunningPods(), dict[str, list[int]]()
    for number, rows in steps:
        name = f"j{number}"
        if rows:
            written(pods, name, rows)
            last[name] = rows
        elif name in last:
            pods.forget(name)
            del last[name]
    assert set(pods.number_of) == set(last)
    for name, rows in last.items():
        assert listed(pods, name) == Counter((row, False) for row in rows)
    assert pods.entry("pods").sum() == sum(map(len, last.values()))


def test_a_priority_of_any_size_fits_a_column() -> None:
    assert [clamped_priority(each) for each in (-(10**30), -5, 10**30)] == [-(2**62), -5, 2**62]


def test_ends_are_sorted_and_results_about_them_are_dropped() -> None:
    ends = ExpectedEnds()
    for name, end_s in (("b", 20.0), ("a", 10.0), ("c", 30.0)):
        ends.set(name, end_s)
    ends.foreseen, ends.derived["c"], copy = "something", "held", ends.copy()
    ends.set("c", LEAVING_S)
    assert [name for _, name in ends.order] == ["c", "a", "b"]
    assert ends.foreseen is None
    assert not ends.derived
    ends.drop("a")
    ends.drop("unknown")
    assert [name for _, name in ends.order] == ["c", "b"]
    assert [name for _, name in copy.order] == ["a", "b", "c"]


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-3, 5)), max_size=80), st.integers(1, 4))
def test_the_largest_consumers_are_those_counted_one_by_one(changes: list[tuple[str, int]], count: int) -> None:
    consumers, held = LargestConsumers(), Counter[str]()
    for name, pods in changes:
        if held[name] + pods >= 0:
            consumers.change(name, (("gpu", 2),), pods)
            held[name] += pods
        expected = sorted(
            ((name, 2 * pods) for name, pods in held.items() if pods), key=lambda each: (-each[1], each[0])
        )
        assert consumers.largest("gpu", count) == expected[:count]
    assert consumers.copy().largest("gpu", count) == consumers.largest("gpu", count)
