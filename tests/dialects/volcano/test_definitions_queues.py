"""What Volcano's Queues say, in our nouns."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.volcano.definitions.queues import define, fault_of, read_queue
from phalanx.dialects.volcano.kinds import QUEUES
from phalanx.model.queue import Queue, QueueState, Quota, ReclaimWithinCohort


def test_a_queue() -> None:
    spec = {
        "weight": 4,
        "priority": 2,
        "parent": "lab",
        "dequeueStrategy": "fifo",
        "capability": {"cpu": 10},
        "deserved": {"cpu": 6},
        "guarantee": {"resource": {"cpu": 2}},
    }
    queue = read_queue("vision", spec)
    assert (queue.weight, queue.priority, queue.parent, queue.strict) == (4.0, 2, "lab", True)
    assert queue.quotas == (Quota(guaranteed=(("cpu", 6000),), limit=(("cpu", 10_000),), lend=(("cpu", 4000),)),)
    assert queue.preemption.reclaim is ReclaimWithinCohort.ANY


@pytest.mark.parametrize(
    ("spec", "state", "expected"),
    [
        ({"parent": "root"}, "Open", Queue(name="q", parent="root")),
        ({}, "Closed", Queue(name="q", parent="root", state=QueueState.CLOSED)),
        ({}, "Closing", Queue(name="q", parent="root", state=QueueState.CLOSED)),
    ],
)
def test_a_queue_that_says_little(spec: Any, state: str, expected: Queue) -> None:
    assert read_queue("q", spec, state) == expected


def test_a_queue_from_which_nothing_is_reclaimed() -> None:
    assert not read_queue("q", {"reclaimable": False}).preemption.reclaimable


def test_one_that_cannot_be_read_is_held_and_says_so() -> None:
    odd = {"metadata": {"name": "odd"}, "spec": {"weight": "much"}}
    queue, root = define({QUEUES: {"odd": odd, "root": {"metadata": {"name": "root"}}}}).queues
    assert (queue.name, queue.state, root.name) == ("odd", QueueState.HELD, "root")
    assert fault_of(odd) == "spec.weight: 'much' is not a whole number from 0 to 2147483647"
