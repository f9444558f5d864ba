"""`simulator/measures/fairness.py`: compute the fair part of each party."""

from __future__ import annotations

import pytest

from phalanx.model.queue import Queue
from phalanx.simulator.measures.fairness import due, lines_of


def test_max_min_parts() -> None:
    assert fair({"a": 1, "b": 5, "c": 9}, 9) == {"a": 1, "b": 4, "c": 4}
    assert fair({"a": 1, "b": 2}, 9) == {"a": 1, "b": 2}
    assert fair({}, 9) == {}


def fair(demand: dict[str, float], has: float, *queues: Queue) -> dict[str, float]:
    return due(lines_of(demand, queues, "a", "cpu"), demand, has)


def test_who_has_three_times_the_weight_is_due_three_times_as_much() -> None:
    queues = Queue(name="a", weight=3), Queue(name="b"), Queue(name="c", weight=0)
    assert fair({"a": 9, "b": 9}, 8, *queues) == {"a": 6, "b": 2}
    assert fair({"a": 3, "b": 9}, 8, *queues) == {"a": 3, "b": 5}
    assert fair({"": 9, "b": 9}, 8, *queues) == {"": 6, "b": 2}  # jobs of no queue are in a
    assert fair({"a": 3, "b": 2, "c": 9}, 8, *queues) == pytest.approx({"a": 3, "b": 2, "c": 3})
    assert fair({"a": 9, "b": 9}, 8, Queue(name="a", weights=(("cpu", 7.0),))) == {"a": 7, "b": 1}


def test_what_a_queue_is_due_is_divided_among_its_children() -> None:
    queues = (
        *(Queue(name="lab"), Queue(name="x", parent="lab", weight=2), Queue(name="y", parent="lab")),
        Queue(name="prod"),
    )
    assert fair({"x": 9, "y": 9, "prod": 9}, 12, *queues) == {"x": 4, "y": 2, "prod": 6}
    assert fair({"x": 1, "y": 9, "prod": 9}, 12, *queues) == {"x": 1, "y": 5, "prod": 6}
    assert fair({"x": 1, "y": 1, "prod": 20}, 12, *queues) == {"x": 1, "y": 1, "prod": 10}
    assert fair({"x": 9, "lab": 9, "prod": 9}, 12, *queues) == {"x": 4, "lab": 2, "prod": 6}
