"""`state/pending/capacity.py`: one column for each demand that waits."""

from __future__ import annotations

import numpy as np

from phalanx.model.pod import Shape, amounts
from phalanx.state.classes import Demand, InternTable
from phalanx.state.pending.capacity import FIRST_COLUMNS, Capacity

TABLE = InternTable()


def demand(**asks: int) -> Demand:
    return TABLE.demand(Shape(requests=amounts(asks)))


def test_a_new_demand_has_infinite_room_until_it_is_counted() -> None:
    capacity, one = Capacity(), demand(cpu=2)
    number = capacity.refer(one)
    assert capacity.room[number] == np.inf
    assert capacity.grown[number]
    assert list(capacity.uncounted) == [number]
    assert capacity.asks[capacity.resources["cpu"], number] == 2
    capacity.settle()
    assert not capacity.grown.any()


def test_a_column_is_shared_and_vacated_by_its_last_user() -> None:
    capacity, first, second = Capacity(), demand(cpu=2), demand(gpu=1)
    number = capacity.refer(first)
    assert capacity.refer(first) == number
    capacity.release(number)
    assert capacity.demands[number] is first
    capacity.room[number] = 7
    capacity.release(number)
    assert capacity.refer(second) == number, "the vacant column is taken again"
    assert capacity.room[number] == np.inf
    assert capacity.asks[capacity.resources["cpu"], number] == 0


def test_columns_and_resources_grow() -> None:
    capacity = Capacity()
    demands = [demand(cpu=1 + at, **{f"vendor/{at % 7}": 1}) for at in range(FIRST_COLUMNS + 3)]
    numbers = [capacity.refer(each) for each in demands]
    assert numbers == list(range(len(demands)))
    for number, each in zip(numbers, demands, strict=True):
        asks = {name: capacity.asks[row, number] for name, row in capacity.resources.items()}
        assert {name: amount for name, amount in asks.items() if amount} == each.amounts
