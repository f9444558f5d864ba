"""`core/cycle/intake/receive.py`: a request waits with a reason, or is added to the class of equal requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.core.cycle.intake import receive
from phalanx.core.cycle.intake.receive import DETAILS, terms_of
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold.fold import fold
from phalanx.model.event import Adopted, QueueSeen, ReservationSeen, Submitted
from phalanx.model.job import Dependency, GangSize, Job, Phase, Placement, Slot
from phalanx.model.node import Reservation
from phalanx.model.policy import Policy
from phalanx.model.queue import Limits, Queue, QueueOrder
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import BEHIND_ALL_S, PLAIN, Kind, Request, RequestClass
from tests.core.builders import cluster, job, node, role

NOW_S = 10.0


def received(book: Cluster, now_s: float = NOW_S) -> CycleState:
    state = CycleState(book, Policy(), now_s)
    for request in receive.newcomers(state):
        receive.receive(state, request)
    return state


def classes(book: Cluster) -> list[RequestClass]:
    received(book)
    return [*book.pending.request_classes.values()]


def jobs_of(each: RequestClass) -> list[str]:
    return [entry.request.job for entry in each]


def asks(name: str, cpu: int = 1, **fields: Any) -> Job:
    at = fields.pop("at", 0.0)
    return replace(job(name, role(cpu=cpu), at=at), **fields)


# --- classes ----------------------------------------------------------------------------------------------------------


def test_equal_requests_are_one_class_in_order_of_arrival() -> None:
    [one] = classes(cluster(node("a", cpu=4), *(asks(name, at=at) for name, at in (("c", 3), ("a", 1), ("b", 1)))))
    assert jobs_of(one) == ["a", "b", "c"]
    assert (one.key.kind, one.key.terms) == (Kind.JOB, PLAIN)


@pytest.mark.parametrize(
    "different",
    [
        {"priority": 1},
        {"limit_s": 60.0},
        {"estimate_s": 60.0},
        {"deadline_s": 1e6},
        {"preemptible": False},
        {"preempts": False},
        {"roles": (role(cpu=2),)},
        {"roles": (role(count=2, cpu=1),)},
        {"queue": "other"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_requests_that_differ_in_what_a_decision_depends_on_are_two_classes(different: dict[str, Any]) -> None:
    other = QueueSeen(Queue(name="other", quotas=(), per_job=Limits(wall_s=1e9)))
    assert len(classes(cluster(other, node("a", cpu=4), asks("a"), asks("b", **different)))) == 2


@pytest.mark.parametrize("equal", [{"user": "eve"}, {"group": "g"}, {"account": "x"}, {"nice": 5}, {"qos": "high"}])
def test_users_do_not_divide_a_class_if_no_rule_distinguishes_them(equal: dict[str, Any]) -> None:
    assert len(classes(cluster(node("a", cpu=4), asks("a"), asks("b", **equal)))) == 1


@pytest.mark.parametrize(
    ("queue", "different"),
    [
        (Queue(name="default", per_user=Limits(running=1)), {"user": "eve"}),
        (Queue(name="default", per_group=Limits(running=1)), {"group": "g"}),
        (Queue(name="default", order=QueueOrder.MULTIFACTOR), {"nice": 5}),
        (Queue(name="default", order=QueueOrder.MULTIFACTOR), {"qos": "high"}),
        (Queue(name="default", order=QueueOrder.USAGE), {"account": "x"}),
    ],
)
def test_rules_about_users_divide_classes(queue: Queue, different: dict[str, Any]) -> None:
    assert len(classes(cluster(QueueSeen(queue), node("a", cpu=4), asks("a"), asks("b", **different)))) == 2


@pytest.mark.parametrize("different", [{"user": "eve"}, {"reservation": "r"}], ids=["user", "reservation"])
def test_with_reservations_users_divide_classes(different: dict[str, Any]) -> None:
    """A reservation may be for one user."""
    reserved = ReservationSeen(Reservation(name="r", start_s=0.0, end_s=2e6, nodes=("a",), users=("ada",)))
    jobs = (asks("a", user="ada"), asks("b", **{"user": "ada", **different}))
    assert len(classes(cluster(reserved, node("a", cpu=4), node("b", cpu=4), *jobs))) == 2


def test_terms_name_every_detail_of_a_job() -> None:
    """A detail that the terms left out would let unequal jobs share a decision."""
    book = cluster(node("a", cpu=4), asks("a"))
    [branch] = [book.tree.branches["default"]]
    values = (60.0, 30.0, 1e6, False, False, "r")
    names = ("limit_s", "estimate_s", "deadline_s", "preemptible", "preempts", "reservation")
    for name, value in zip(names, values, strict=True):
        one = asks("x", **{name: value})
        assert value in DETAILS(one)
        assert getattr(terms_of(one, branch, by_person=False), name) == value
    assert terms_of(asks("x"), branch, by_person=False) is PLAIN
    assert terms_of(asks("x", user="eve"), branch, by_person=False) is PLAIN
    assert terms_of(asks("x", user="eve"), branch, by_person=True).user == "eve"


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({"deadline_s": 0.0}, ReasonCode.DEADLINE),
        ({"after": (Dependency(job="gone"),)}, ReasonCode.DEPENDENCY),
        ({"begin_s": NOW_S + 1}, ReasonCode.BEGIN_TIME),
        ({"singleton": "s"}, ReasonCode.DEPENDENCY),
        ({"array": "x", "array_cap": 0}, ReasonCode.ARRAY_LIMIT),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_job_with_a_condition_is_not_eligible_until_it_is_met(condition: dict[str, Any], code: ReasonCode) -> None:
    """A condition that `CONDITIONS` left out would never be checked."""
    first = asks("first", singleton="s")
    assert received(cluster(node("a", cpu=4), first)).waits == {}
    waits = received(cluster(node("a", cpu=4), first, asks("second", at=1.0, **condition))).waits
    assert {name: reason.code for name, reason in waits.items()} == {"second": code}


# --- slots of started jobs --------------------------------------------------------------------------------------------


def started(minimum: int, *open: int, size: GangSize = GangSize.ELASTIC, name: str = "s") -> Adopted:
    """A job of three pods that has the other pods."""
    whole = replace(job(name, role(count=3, minimum=minimum, cpu=1), at=7.0), size=size)
    placed = tuple(Placement(0, at, "a") for at in range(3) if at not in open)
    return Adopted(whole, 1, Phase.RUNNING, placed, open=tuple(Slot(0, at) for at in open))


def test_a_slot_of_the_minimum_is_a_replacement_of_any_queue() -> None:
    [one] = classes(cluster(node("a", cpu=9), started(3, 2)))
    assert (one.key.kind, one.key.queue, jobs_of(one)) == (Kind.REPLACEMENT, "", ["s"])
    assert one.first.request == Request("s", Slot(0, 2))


def test_a_slot_above_the_minimum_is_growth_behind_all_waiting_jobs() -> None:
    [one] = classes(cluster(node("a", cpu=9), started(1, 2)))
    assert (one.key.kind, one.first.arrival_s) == (Kind.GROWTH, BEHIND_ALL_S)
    [in_turn] = classes(cluster(node("a", cpu=9), started(1, 2, size=GangSize.IN_TURN)))
    assert in_turn.first.arrival_s == 7.0, "a job that grows in turn keeps its place"


def test_each_replacement_with_a_time_limit_ends_with_its_own_job() -> None:
    limited = [replace(each, job=replace(each.job, limit_s=60.0)) for each in (started(3, 2), started(3, 2, name="t"))]
    assert len(classes(cluster(node("a", cpu=9), *limited))) == 2
    assert len(classes(cluster(node("a", cpu=9), started(3, 2), started(3, 2, name="t")))) == 1


def test_pods_of_a_queue_without_gangs_are_placed_one_by_one() -> None:
    [one] = classes(cluster(QueueSeen(Queue(name="default", gang=False)), node("a", cpu=9), started(3, 1, 2)))
    assert one.key.kind == Kind.POD
    assert [entry.request.slot for entry in one] == [Slot(0, 1), Slot(0, 2)]


# --- requests that are no candidates ----------------------------------------------------------------------------------


def test_a_job_that_must_wait_for_a_time_says_so_and_comes_back_then() -> None:
    book = cluster(node("a", cpu=4), asks("later", begin_s=50.0))
    state = received(book)
    assert state.waiting_until == [(Request("later"), 50.0)]
    assert state.waits["later"].code is ReasonCode.BEGIN_TIME
    assert book.pending.request_classes == {}


def test_a_job_that_must_wait_for_an_event_says_so() -> None:
    held = asks("held", blocked=Reason(code=ReasonCode.HELD, text="held by its user"))
    state = received(cluster(node("a", cpu=4), held))
    assert [*state.waiting_for_event] == [Request("held")]
    assert state.waits["held"].text == "held by its user"
    assert state.waiting_until == []


def test_a_job_of_a_queue_without_gangs_and_limits_starts_without_pods() -> None:
    state = received(cluster(QueueSeen(Queue(name="default", gang=False)), node("a", cpu=4), asks("a", limit_s=60.0)))
    [start] = state.starts
    assert (start.job, start.placements, start.limit_s, start.at_s) == ("a", (), 60.0, NOW_S)
    assert state.pending.request_classes == {}


def test_only_new_requests_are_received() -> None:
    book = cluster(node("a", cpu=4), asks("a"))
    assert receive.newcomers(CycleState(book, Policy(), NOW_S)) == [Request("a")]
    fold(book, [Submitted(asks("a"))])
    assert receive.newcomers(CycleState(book, Policy(), NOW_S)) == [Request("a")], "it is received once it is folded"
