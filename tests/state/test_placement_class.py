"""`state/pending/placement_class.py`: one column for each demand, one entry for each class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from phalanx.model.pod import HostPort, Shape, amounts
from phalanx.state.classes import Demand, InternTable
from phalanx.state.pending.placement_class import FIRST_COLUMNS, Capacity, PlacementClasses, PlacementClassKey
from phalanx.state.queues.rules import ResourceGroup
from tests.core.builders import role

TABLE = InternTable()


def demand(**asks: int) -> Demand:
    return TABLE.demand(Shape(requests=amounts(asks)))


def test_a_new_demand_has_infinite_room_until_it_is_counted() -> None:
    capacity, one = Capacity(), demand(cpu=2)
    number = capacity.refer(one)
    assert capacity.room[number] == np.inf
    assert not capacity.grown.any()
    assert list(capacity.uncounted) == [number]
    assert capacity.asks[capacity.resources["cpu"], number] == 2


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


def test_a_class_and_its_demand_stay_as_long_as_a_request_class_refers_to_it() -> None:
    classes, key = PlacementClasses(), PlacementClassKey(TABLE.gang((role(count=3, cpu=2),)))
    found = classes.refer(key)
    assert classes.refer(key) is found
    assert classes.need[found.number] == 3
    classes.release(found)
    assert list(classes) == [found]
    classes.release(found)
    assert not list(classes)
    assert classes.by_number == [None]
    assert not classes.capacity.number_of


def test_costs_are_computed_again_when_a_bound_has_a_new_resource() -> None:
    classes = PlacementClasses()
    found = classes.refer(PlacementClassKey(TABLE.gang((role(count=3, gpu=2),))))
    assert classes.costs({}).shape == (0, FIRST_COLUMNS + 1)
    assert classes.costs({"gpu": 0})[:, found.number].tolist() == [6.0]
    assert found.cost == (6.0,)
    assert classes.costs({"gpu": 0})[0, -1] == 0, "a vacant number costs nothing"


def test_only_classes_that_are_tried_depend_on_other_pods() -> None:
    shape = Shape(requests=amounts({"cpu": 2}), ports=(HostPort(number=80),))
    whole = PlacementClassKey(TABLE.gang((replace(role(), shape=shape),)))
    classes, of_flavors = PlacementClasses(), whole._replace(flavors=(ResourceGroup(("a", "b")),))
    assert classes.refer(whole).depends_on_other_pods
    assert not classes.refer(of_flavors).depends_on_other_pods, "its flavor classes are tried instead"
    assert not classes.refer(whole._replace(whole=False)).depends_on_other_pods
