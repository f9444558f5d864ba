"""`state/cluster.py`: the records of jobs, copies of the state, and pods of other schedulers."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.core.fold.fold import fold
from phalanx.model.event import Occupied, QueueSeen, Started, Submitted
from phalanx.model.job import GangSize, Job, Phase, Placement, Slot
from phalanx.model.node import Flavor, NodeGroup
from phalanx.model.plan import Start
from phalanx.model.pod import MAX_AMOUNT, amounts
from phalanx.model.queue import ENTRY_S, Limits, Queue, QueueOrder
from phalanx.state import cluster as module
from phalanx.state.cluster import EMPTY_DICT, EMPTY_SET, Cluster, JobRecord
from tests.core.builders import cluster, free, job, node, role


@pytest.fixture
def state() -> Cluster:
    """Two nodes with a running job of two pods, a waiting job, and a pod of another scheduler."""
    found = cluster(node("n1", cpu=8), node("n2", cpu=8), job("runs", role(count=2, cpu=2)), job("waits", role(cpu=4)))
    placements = tuple(Placement(0, at, name) for at, name in enumerate(("n1", "n2")))
    start = Start("runs", 1, placements)
    fold(found, [start, Started("runs", 1), Occupied("foreign", "n1", amounts({"cpu": 3, "pods": 1}))])
    return found


def changed(state: Cluster) -> None:
    fold(
        state,
        [
            Occupied("other", "n2", amounts({"cpu": 1, "pods": 1})),
            Submitted(job("new", role(cpu=1), at=5.0)),
            QueueSeen(Queue(name="q")),
        ],
    )
    state.jobs["runs"].leaving.add(Slot(0, 0))
    state.jobs["runs"].placements[Slot(0, 1)] = "n1"
    state.breaches.append("a breach")
    state.preempted_at["q"] = module.deque([1.0])
    state.exceeding["q"] = 1.0


def picture(state: Cluster) -> dict[str, Any]:
    """What a copy must keep."""
    return {
        "jobs": {
            name: {slot: getattr(record, slot) for slot in JobRecord.__slots__ if slot != "charge"}
            | {"leaving": set(record.leaving), "placements": dict(record.placements), "open": dict(record.open)}
            for name, record in state.jobs.items()
        },
        "free": {name: state.columns.free_of(row) for name, row in state.columns.row_of.items()},
        "foreign": dict(state.foreign),
        "usage": {name: dict(held) for name, held in state.foreign_usage_on.items()},
        "all": dict(state.foreign_usage),
        "queues": dict(state.queues),
        "of": {queue: list(jobs) for queue, jobs in state.jobs_of.items()},
        "rest": (list(state.breaches), dict(state.exceeding), sorted(state.preempted_at), state.opened, state.latest_s),
    }


def test_a_copy_is_equal_and_changes_of_one_do_not_reach_the_other(state: Cluster) -> None:
    before, copy = picture(state), state.copy()
    assert picture(copy) == before
    changed(copy)
    assert picture(state) == before
    again = state.copy()
    changed(state)
    assert picture(again) == before
    assert picture(state) != before


def test_a_copy_sets_every_field_of_the_state(state: Cluster) -> None:
    """A new field of `Cluster` must be copied too: all fields get a value that a new state does not have."""
    marks = {name: object() for name in vars(state) if isinstance(getattr(state, name), int | float | tuple)}
    for name, mark in marks.items():
        setattr(state, name, mark)
    copy = state.copy()
    assert {name for name, mark in marks.items() if getattr(copy, name) is not mark} == set()


def test_a_copy_of_a_record_has_every_field(state: Cluster) -> None:
    record = state.jobs["runs"]
    scalars = [slot for slot in JobRecord.__slots__ if slot not in ("job", "gang", "queue")]
    for slot in scalars:
        if isinstance(getattr(record, slot), int | float | tuple) or getattr(record, slot) is None:
            setattr(record, slot, object())
    copy = record.copy()
    for slot in JobRecord.__slots__:
        assert getattr(copy, slot) == getattr(record, slot), slot
    for slot in ("placements", "open", "leaving", "nominated", "devices"):
        assert getattr(copy, slot) is not getattr(record, slot), slot


def test_waiting_jobs_share_collections_that_stay_empty(state: Cluster) -> None:
    record = state.jobs["waits"]
    assert record.placements is EMPTY_DICT
    assert record.leaving is EMPTY_SET
    for write in (
        lambda: record.placements.__setitem__(Slot(0, 0), "n1"),
        lambda: record.open.update({Slot(0, 0): (0.0, 1)}),
        lambda: record.nominated.setdefault(Slot(0, 0), "n1"),
        lambda: record.leaving.add(Slot(0, 0)),
        lambda: record.leaving.update({Slot(0, 0)}),
    ):
        with pytest.raises(TypeError, match="stays empty"):
            write()
    assert not EMPTY_DICT
    assert not EMPTY_SET
    record.make_ready()
    record.placements[Slot(0, 0)] = "n1"
    record.make_ready()  # a second call keeps what was added
    assert record.placements == {Slot(0, 0): "n1"}
    assert state.copy().jobs["waits"].placements == {Slot(0, 0): "n1"}


def test_terminating_pods_are_not_kept(state: Cluster) -> None:
    record = state.jobs["runs"]
    assert list(record.kept()) == [2]
    record.leaving.add(Slot(0, 1))
    assert list(record.kept()) == [1]


# --- pods of other schedulers -----------------------------------------------------------------------------------------


def test_a_foreign_pod_is_charged_once_and_moves_with_its_last_report(state: Cluster) -> None:
    assert (free(state, "n1"), free(state, "n2")) == (3, 6)
    for _ in range(2):
        state.add_foreign_pod("foreign", "n2", amounts({"cpu": 5, "pods": 1}))
        assert (free(state, "n1"), free(state, "n2")) == (6, 1)
        assert (state.foreign_usage["cpu"], state.foreign_usage_on) == (5, {"n2": {"cpu": 5, "pods": 1}})
    for _ in range(2):
        state.remove_foreign_pod("foreign")
        assert (free(state, "n1"), free(state, "n2")) == (6, 6)
        assert (state.foreign_usage["cpu"], state.foreign_usage_on) == (0, {})


def test_a_foreign_pod_that_ends_lets_waiting_jobs_be_tried_there(state: Cluster) -> None:
    state.pending.grown.clear()
    state.remove_foreign_pod("foreign")
    assert list(state.pending.grown) == [state.columns.row_of["n1"]]


def test_a_foreign_pod_stays_charged_to_a_node_that_is_gone(state: Cluster) -> None:
    state.remove_node("n1")
    state.remove_node("n1")  # it is idempotent
    assert state.columns.node("n1") is None
    state.remove_foreign_pod("foreign")
    assert state.foreign == {}


# --- nodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [MAX_AMOUNT + 1, MAX_AMOUNT, 5])
def test_amounts_beyond_all_bounds_are_the_greatest(amount: int) -> None:
    found = cluster()
    found.update_node(node("big", cpu=amount))
    assert free(found, "big") == min(amount, MAX_AMOUNT)


def test_the_pool_has_all_nodes_and_those_that_may_be_requested(state: Cluster) -> None:
    state.flavors["fast"] = Flavor(name="fast", labels=(("speed", "high"),))
    state.update_node(node("n3", labels={"speed": "high"}, cpu=4))
    assert {key: value for key, value in state.pool().items() if key[1] == "cpu"} == {
        ("", "cpu"): 20,
        ("fast", "cpu"): 4,
    }
    state.columns.groups.known["g"] = NodeGroup(
        name="g", template=node("t", labels={"speed": "high"}, cpu=10), max_nodes=2
    )
    assert state.pool()["", "cpu"] == 40
    assert state.pool()["fast", "cpu"] == 24


def test_overcommitment_counts_what_is_given_back(state: Cluster) -> None:
    row = state.columns.row_of["n1"]
    assert not module.is_overcommitted(state, row, {})
    state.add_foreign_pod("large", "n1", amounts({"cpu": 5, "pods": 1}))
    assert module.is_overcommitted(state, row, {})
    assert module.is_overcommitted(state, row, {"cpu": 1})
    assert not module.is_overcommitted(state, row, {"cpu": 2})


# --- queues and jobs --------------------------------------------------------------------------------------------------


def test_a_job_without_a_queue_is_in_the_default_queue() -> None:
    found = cluster()
    assert found.queue_of(job("a", queue="x")) == "x"
    assert found.queue_of(job("a", queue="")) == "default"


@pytest.fixture
def limited() -> Cluster:
    found = cluster()
    parent = Queue(name="parent", order=QueueOrder.USAGE, per_job=Limits(wall_s=100.0))
    fold(found, [QueueSeen(parent), QueueSeen(Queue(name="child", parent="parent")), QueueSeen(Queue(name="own"))])
    return found


def test_the_time_limit_of_a_job_is_its_own_or_that_of_its_queues(limited: Cluster) -> None:
    assert module.time_limit_s(limited, job("a", queue="child")) == 100.0
    own: Job = module.replace(job("a", queue="child"), limit_s=500.0)
    assert module.time_limit_s(limited, own) == 500.0
    assert module.time_limit_s(limited, job("a", queue="own")) is None


def test_a_job_below_a_queue_by_usage_is_charged_when_it_starts(limited: Cluster) -> None:
    assert limited.entry_s(job("a", queue="child")) == ENTRY_S
    assert limited.entry_s(job("a", queue="own")) == 0.0


def test_only_pods_above_the_minimum_of_an_elastic_job_are_spare() -> None:
    for size, spare in ((GangSize.ELASTIC, [1]), (GangSize.FIXED_AT_START, [0])):
        elastic = module.replace(job("e", role(count=3, minimum=1, cpu=1)), size=size)
        found = cluster(node("n", cpu=8))
        fold(found, [Submitted(elastic)])
        record = found.jobs["e"]
        record.make_ready()
        record.phase, record.placed = Phase.RUNNING, [2]
        assert module.spare_pods(record) == spare
        record.phase = Phase.STOPPING
        assert module.spare_pods(record) == [0]
