"""`model/event.py`: each event is a fact that may be reported twice, and a late event changes nothing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any, get_args

import pytest

from phalanx.core.fold.fold import fold
from phalanx.model import event as module
from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    FlavorGone,
    FlavorSeen,
    NodeGone,
    NodeGroupGone,
    NodeGroupSeen,
    NodesComing,
    NodeSeen,
    NodesFailed,
    NodesKept,
    NodesNoted,
    Occupied,
    Opened,
    OutcomeTold,
    PolicySeen,
    QueueGone,
    QueueSeen,
    Refused,
    Released,
    ReservationGone,
    ReservationSeen,
    RunTold,
    Started,
    Submitted,
    Ticked,
    TopologiesSeen,
    UsageTold,
    Vacated,
)
from phalanx.model.job import Outcome, Phase, Placement, Slot
from phalanx.model.node import Flavor, NodeGroup, Reservation, Topology
from phalanx.model.plan import Start
from phalanx.model.pod import amounts
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role
from tests.invariants import check_invariants

WHY = Reason(code=ReasonCode.BACKOFF, text="no")
TWO = role(count=2, minimum=1, cpu=2)
ON_N1 = (Placement(0, 0, "n1"), Placement(0, 1, "n1"))
GROUP = NodeGroup(name="g", template=node("t", cpu=8), max_nodes=3)
# one event of each kind, which changes the state of `populated`
EVENTS: tuple[Event, ...] = (
    NodeSeen(node("n1", cpu=16)),
    NodeGone("n1"),
    NodeGroupSeen(NodeGroup(name="h", template=node("t", cpu=8))),
    NodeGroupGone("g"),
    NodesComing("g", ("g-1",), 10.0, 20.0, 30.0),
    NodesFailed("g", ("g-0",), "no machines"),
    NodesKept("g", ("n1",)),
    NodesNoted("waits", "machines are on their way", granted=True),
    QueueSeen(Queue(name="other")),
    QueueGone("default"),
    FlavorSeen(Flavor(name="slow")),
    FlavorGone("fast"),
    TopologiesSeen((Topology(levels=("rack", "host")),)),
    ReservationSeen(Reservation(name="s", nodes=("n2",), start_s=100.0, end_s=200.0)),
    ReservationGone("r"),
    Ticked(50.0),
    PolicySeen(Policy(backfill=Backfill.GREEDY)),
    UsageTold("default", "ada", 100.0, 1.0),
    OutcomeTold("gone", Outcome.FAILED),
    RunTold(job("gone", TWO), 60.0),
    Submitted(job("new", TWO)),
    Adopted(job("runs", TWO), 1, Phase.RUNNING, ON_N1[:1], started_s=5.0),
    Opened("runs", (Slot(0, 0),)),
    Released("runs", (Slot(0, 1),)),
    Started("runs", 1),
    Refused("runs", 1, WHY, 99.0),
    Finished("runs"),
    Occupied("other", "n2", amounts({"cpu": 1, "pods": 1})),
    Vacated("foreign"),
)


def populated() -> Cluster:
    """Return a state with two nodes, a starting and a waiting job, and one definition of each kind."""
    state = cluster(
        node("n1", cpu=8),
        node("n2", cpu=8),
        NodeGroupSeen(GROUP),
        NodesComing("g", ("g-0",), 0.0, 20.0, 30.0),
        FlavorSeen(Flavor(name="fast")),
        ReservationSeen(Reservation(name="r", nodes=("n2",), start_s=100.0, end_s=200.0)),
        job("runs", TWO),
        job("waits", TWO),
        Occupied("foreign", "n1", amounts({"cpu": 1, "pods": 1})),
    )
    fold(state, [Start("runs", 1, ON_N1)])
    return state


def picture(state: Cluster) -> Mapping[str, Any]:
    """Return the facts of the state that events change."""
    return {
        "nodes": {name: (state.columns.node(name), state.columns.free_of(row)) for name, row in _rows(state)},
        "groups": (dict(state.columns.groups.known), _plain(vars(state.columns.groups))),
        "jobs": {
            name: (
                *(record.job, record.phase, record.attempt, record.not_before_s, record.refusal, record.started_s),
                *(dict(record.placements), set(record.open), set(record.leaving), list(record.placed)),
            )
            for name, record in state.jobs.items()
        },
        "definitions": (dict(state.queues), dict(state.flavors), state.declared_topologies, dict(state.reservations)),
        "pods": (dict(state.foreign), dict(state.foreign_usage), dict(state.foreign_usage_on)),
        "rest": (state.policy, state.now_s, state.opened, state.latest_s, _plain(vars(state.dependencies))),
        "usage": state.usage.of("default", "ada", 60.0),
    }


def _rows(state: Cluster) -> list[tuple[str, int]]:
    return sorted(state.columns.row_of.items())


def _plain(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in values.items() if isinstance(value, dict | set | tuple | list)}


def test_every_class_of_the_module_is_an_event() -> None:
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    assert set(classes) == set(get_args(Event))
    assert all(is_dataclass(each) for each in classes)
    assert {type(each) for each in EVENTS} == set(classes), "add an example of the new event"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_repeated_event_changes_nothing(event: Event) -> None:
    once, twice = populated(), populated()
    fold(once, [event])
    fold(twice, [event, event])
    assert picture(twice) == picture(once)
    check_invariants(twice)
    fold(twice, [event])
    assert picture(twice) == picture(once)


# `picture` does not show the facts of these events, or no job in it waits for them
SILENT = (RunTold, NodesKept, OutcomeTold)


@pytest.mark.parametrize(
    "event", [each for each in EVENTS if not isinstance(each, SILENT)], ids=lambda event: type(event).__name__
)
def test_an_event_changes_the_state(event: Event) -> None:
    state = populated()
    before = picture(state)
    fold(state, [event])
    assert picture(state) != before


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_facts_that_nobody_changes(event: Event) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(event, fields(event)[0].name, None)
    assert not hasattr(event, "__dict__")


@pytest.mark.parametrize("late", [Started("runs", 1), Refused("runs", 1, WHY)])
def test_a_late_event_about_an_earlier_start_is_ignored(late: Event) -> None:
    state = populated()
    fold(state, [Refused("runs", 1, WHY), Start("runs", 2, ON_N1)])
    before = picture(state)
    fold(state, [late])
    assert picture(state) == before


@pytest.mark.parametrize(
    "event",
    [Opened("none", (Slot(0, 0),)), Released("none", (Slot(0, 0),)), Started("none", 1), Refused("none", 1, WHY),
     Finished("none"), Vacated("none"), NodeGone("none"), QueueGone("none"), FlavorGone("none"),
     ReservationGone("none"), NodeGroupGone("none"), NodesFailed("none", ("x",)), NodesKept("none", ("x",))],
    ids=lambda event: type(event).__name__,
)  # fmt: skip
def test_an_event_about_something_unknown_changes_nothing(event: Event) -> None:
    state = populated()
    before = picture(state)
    fold(state, [event])
    assert picture(state) == before
    check_invariants(state)


def test_a_started_job_keeps_its_spec_when_it_is_submitted_again() -> None:
    state = populated()
    before = picture(state)
    fold(state, [Submitted(job("runs", role(count=9, cpu=1)))])
    assert picture(state) == before
