"""Thresholds: growth is counted exactly, and lines that it does not reach sleep on."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phalanx.model.plan import Watch
from phalanx.state.classes import InternTable
from phalanx.state.pending.line import LineKey
from phalanx.state.pending.watching import Watches
from tests.core.builders import role

amounts = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6)


def columns(rows: list[tuple[int, int]]) -> dict[str, np.ndarray]:
    cpu, memory = zip(*rows, strict=True)
    return {"cpu": np.array(cpu), "memory": np.array(memory), "pods": np.full(len(rows), 10)}


def pods(rows: list[tuple[int, int]], cpu: int, memory: int) -> int:
    return sum(min(has_cpu // cpu, has_memory // memory, 10) for has_cpu, has_memory in rows)


@given(amounts, st.integers(1, 4), st.integers(1, 4), st.integers(1, 12))
def test_a_line_wakes_exactly_when_enough_has_grown(rows, cpu: int, memory: int, need: int) -> None:
    gang = InternTable().gang((role("w", need, cpu=cpu, memory=memory),))
    key, watches = LineKey(2, 0, gang), Watches()
    watches.sleep(key, (Watch(gang.demands[0], 0, need),))
    woken = watches.grow(columns([(0, 0)] * len(rows)), columns(rows))
    assert (key in woken) is (pods(rows, cpu, memory) >= need)


def test_growth_adds_up_over_several_times() -> None:
    gang = InternTable().gang((role("w", 3, cpu=2, memory=1),))
    key, watches = LineKey(2, 0, gang), Watches()
    watches.sleep(key, (Watch(gang.demands[0], 1, 3),))
    assert not watches.grow(columns([(0, 9)]), columns([(3, 9)]))
    assert list(watches.grow(columns([(3, 9)]), columns([(4, 9)]))) == [key]


def test_a_forgotten_line_leaves_nothing_behind() -> None:
    gang = InternTable().gang((role("w", 3, cpu=2), role("v", 1, memory=1)))
    key, watches = LineKey(2, 0, gang), Watches()
    watches.sleep(key, tuple(Watch(demand, 5, 0) for demand in gang.demands))
    watches.forget(key)
    assert not watches.posts


@given(amounts, st.data())
def test_one_row_counts_as_many_do(asked, data: st.DataObject) -> None:
    """`grow_one` is `grow` of one row."""
    gangs = [InternTable().gang((role("w", 1, cpu=1 + cpu, memory=memory),)) for cpu, memory in asked]
    one, many = Watches(), Watches()
    for at, gang in enumerate(gangs):
        watch = Watch(gang.demands[0], data.draw(st.integers(0, 5)), data.draw(st.integers(0, 6)))
        for watches in (one, many):
            watches.sleep(LineKey(2, at, gang), (watch,))
    before = {"cpu": data.draw(st.integers(-2, 9)), "memory": data.draw(st.integers(0, 9)), "pods": 5}
    after = {name: amount + data.draw(st.integers(0, 4)) for name, amount in before.items()}
    arrays = [{name: np.array([amount]) for name, amount in each.items()} for each in (before, after)]
    assert one.grow_one(before, after) == many.grow(*arrays)
    assert [post.room for post in one.posts.values()] == [post.room for post in many.posts.values()]
