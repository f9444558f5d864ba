"""`core/cycle/steps.py`: the order in which requests are tried, and the requests that a failed one blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.core.cycle import steps
from phalanx.core.cycle.intake import receive
from phalanx.core.cycle.steps import Cycle
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold_plan
from phalanx.model.event import Adopted, FlavorSeen, QueueSeen, ReservationSeen
from phalanx.model.job import Job, Phase, Placement, Slot
from phalanx.model.node import Flavor, Reservation
from phalanx.model.plan import Place, Plan, Preempt, Start, Wait
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import (
    FlavorFungibility,
    Limits,
    Queue,
    QueueOrder,
    QueuePreemption,
    Quota,
    ReclaimWithinCohort,
    WithinQueue,
)
from phalanx.model.reason import ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role
from tests.invariants import check_invariants

NOW_S = 10.0


def asks(name: str, cpu: int = 1, *, at: float = 0.0, pods: int = 1, **fields: Any) -> Job:
    return replace(job(name, role(count=pods, cpu=cpu), at=at), **fields)


def runs(asked: Job, *nodes: str, open: tuple[Slot, ...] = ()) -> Adopted:
    placed = tuple(Placement(0, at, name) for at, name in enumerate(nodes))
    return Adopted(asked, 1, Phase.RUNNING, placed, open=open, started_s=0.0)


def queue(name: str = "default", **fields: Any) -> QueueSeen:
    return QueueSeen(Queue(name=name, **fields))


def limited(name: str, cpu: int, **fields: Any) -> QueueSeen:
    return queue(name, quotas=(Quota(limit=(("cpu", cpu),)),), **fields)


def decided(book: Cluster, policy: Policy | None = None) -> Plan:
    made = decide(book, policy or Policy(), NOW_S)
    fold_plan(book, made)
    assert not check_invariants(book)
    return made.plan


def started(*news: Any, policy: Policy | None = None) -> list[str]:
    return [action.job for action in decided(cluster(*news), policy).actions if isinstance(action, Start)]


def reasons(*news: Any, policy: Policy | None = None) -> dict[str, ReasonCode]:
    plan = decided(cluster(*news), policy)
    return {action.job: action.reason.code for action in plan.actions if isinstance(action, Wait)}


def tried(*news: Any) -> list[str]:
    """Return the jobs whose first request the cycle tries, in order; each of them is denied."""
    cycle = Cycle(cluster(*news), Policy(), NOW_S)
    for request in receive.newcomers(cycle.state):
        receive.receive(cycle.state, request)
    found = []
    for candidate in cycle.candidates():
        found.append(candidate.entry.request.job)
        offers = cycle.state.offers(candidate)
        outcomes = [(offer, cycle.place(candidate, offer)) for offer in offers if offer.short is None]
        lacks = [(offer, lack) for offer, lack in outcomes if not isinstance(lack, list)]
        assert len(lacks) == len(outcomes), "this helper is for requests that do not fit"
        cycle.deny(candidate, offers, lacks)
    return found


# --- blocking (R11, R14) ----------------------------------------------------------------------------------------------


def test_a_request_that_cannot_start_blocks_no_other() -> None:
    assert started(node("a", cpu=4), asks("huge", 9), asks("later", 2, at=1), asks("last", 2, at=2)) == [
        "later",
        "last",
    ]


def test_if_the_first_of_a_class_fails_no_other_of_it_is_tried() -> None:
    # a count shows capacity for each of the two roles, but they do not fit together
    jobs = [job(f"j{at}", role("one", cpu=3), role("two", cpu=3), at=at) for at in range(5)]
    assert tried(node("a", cpu=4), *jobs) == ["j0"]


def test_a_class_without_capacity_by_counting_is_not_tried_and_each_job_has_the_reason() -> None:
    news = [node("a", cpu=4), *(asks(f"j{at}", 9, at=at) for at in range(5))]
    assert tried(*news) == []
    assert reasons(*news) == {f"j{at}": ReasonCode.NEVER_FITS for at in range(5)}


def test_a_strict_queue_waits_behind_its_first_request() -> None:
    strict = queue(strict=True)
    first = runs(asks("r", 3), "a")
    jobs = (asks("head", 4), asks("behind", 1, at=1))
    assert started(strict, node("a", cpu=4), first, *jobs, policy=Policy(backfill=Backfill.GREEDY)) == []
    codes = reasons(strict, node("a", cpu=4), first, *jobs, policy=Policy(backfill=Backfill.GREEDY))
    assert codes == {"head": ReasonCode.NO_ROOM, "behind": ReasonCode.BEHIND_HEAD}


@pytest.mark.parametrize(
    "head",
    [asks("head", 99), asks("head", 4, user="eve")],
    ids=["it can never start", "only a limit of its own user is short"],
)
def test_a_head_that_blocks_nobody(head: Job) -> None:
    strict = queue(strict=True, per_user=Limits(named=(("eve", Limits(running=0)),)))
    assert started(strict, node("a", cpu=4), head, asks("behind", 1, at=1)) == ["behind"]


def test_a_strict_queue_blocks_no_other_queue() -> None:
    jobs = (replace(asks("head", 4), queue="strict"), replace(asks("free", 1, at=1), queue="other"))
    busy = runs(asks("r", 2), "a")
    assert started(queue("strict", strict=True), queue("other"), node("a", cpu=4), busy, *jobs) == ["free"]


# --- order (R5, R7, R8) -----------------------------------------------------------------------------------------------


def test_lost_pods_are_replaced_before_urgent_jobs() -> None:
    lost = runs(asks("gang", 2, pods=2), "a", open=(Slot(0, 1),))
    plan = decided(cluster(node("a", cpu=4), lost, asks("urgent", 2, priority=99)))
    assert [type(action).__name__ for action in plan.actions] == ["Place", "Wait"]
    assert isinstance(plan.actions[0], Place)


def test_a_queue_is_ranked_by_the_first_request_that_would_get_something() -> None:
    """Rule R8: the first job of q, which quota does not allow, does not give q the first turn."""
    fair = queue("root", order=QueueOrder.PRIORITY)
    q, other = limited("q", 2, parent="root"), queue("other", parent="root")
    blocked = replace(asks("blocked", 4, priority=9), queue="q")
    small = replace(asks("small", 2, at=5), queue="q")
    older = replace(asks("older", 2, at=1), queue="other")
    assert started(fair, q, other, node("a", cpu=2), blocked, small, older) == ["older"]


def test_a_request_that_an_advance_reservation_keeps_out_does_not_rank_its_queue() -> None:
    """Rule R8: the nodes have enough for the first job of q, but the job would run into the maintenance. So q takes
    part with its second job, and has the lowest share with this job."""
    root, q, other = (
        queue("root", order=QueueOrder.FAIR),
        queue("q", parent="root"),
        queue("other", parent="root", weight=2),
    )
    maintenance = ReservationSeen(Reservation(name="m", start_s=1000.0, end_s=2000.0, nodes=("a",)))
    endless = replace(asks("endless", 4, priority=9), queue="q")
    jobs = [replace(asks("small", 1, limit_s=9.0), queue="q"), replace(asks("large", 4, limit_s=9.0), queue="other")]
    book = cluster(root, q, other, maintenance, node("a", cpu=4), endless, *jobs)
    plan = decided(book, Policy(backfill=Backfill.GREEDY))
    assert [action.job for action in plan.actions if isinstance(action, Start)] == ["small"]


def test_a_child_within_its_guarantee_comes_before_one_that_borrows() -> None:
    owner = queue("owner", quotas=(Quota(guaranteed=(("cpu", 2),)),))
    jobs = (replace(asks("guest", 2, priority=9), queue="guest"), replace(asks("mine", 2, at=1), queue="owner"))
    assert started(owner, queue("guest"), node("a", cpu=2), *jobs) == ["mine"]


# --- all or nothing (R10) ---------------------------------------------------------------------------------------------


def test_a_gang_starts_whole_or_takes_nothing() -> None:
    plan = decided(cluster(node("a", cpu=3), asks("gang", 1, pods=4), asks("small", 3, at=1)))
    assert [action.job for action in plan.actions if isinstance(action, Start)] == ["small"]


def test_minimums_of_all_jobs_come_before_pods_above_minimums() -> None:
    elastic = job("elastic", role(count=4, minimum=1, cpu=1))
    plan = decided(cluster(node("a", cpu=3), elastic, asks("rigid", 2, at=1)))
    pods = {action.job: len(action.placements) for action in plan.actions if isinstance(action, Start)}
    assert pods == {"elastic": 1, "rigid": 1}


def test_what_is_left_goes_to_pods_above_minimums() -> None:
    elastic = job("elastic", role(count=4, minimum=1, cpu=1))
    [start] = decided(cluster(node("a", cpu=3), elastic)).actions
    assert isinstance(start, Start)
    assert len(start.placements) == 3


# --- reservations (R13) -----------------------------------------------------------------------------------------------


def test_a_job_that_would_delay_the_first_waits_and_one_that_ends_in_time_does_not() -> None:
    busy = runs(replace(asks("r", 3), limit_s=100.0), "a")
    head = asks("head", 4)
    short, long = replace(asks("short", 1, at=1), limit_s=50.0), replace(asks("long", 1, at=2), limit_s=500.0)
    news = (node("a", cpu=4), busy, head, short, long)
    assert started(*news) == ["short"]
    assert reasons(*news)["head"] is ReasonCode.NO_ROOM
    greedy = Policy(backfill=Backfill.GREEDY)
    assert started(*news[:3], news[4], policy=greedy) == ["long"], "without a reservation it starts"


def test_a_job_that_only_a_reservation_blocks_says_so() -> None:
    busy = runs(replace(asks("r", 3), limit_s=100.0), "a")
    long = replace(asks("long", 1, at=2), limit_s=500.0)
    assert reasons(node("a", cpu=4), busy, asks("head", 4), long)["long"] is ReasonCode.RESERVED


# --- flavors ----------------------------------------------------------------------------------------------------------


def flavored(*, preempt_before_next: bool) -> list[Any]:
    flavors = [FlavorSeen(Flavor(name=name, labels=(("kind", name),))) for name in ("first", "second")]
    quotas = tuple(Quota(flavor=name, limit=(("cpu", 4),)) for name in ("first", "second"))
    rights = QueuePreemption(within=WithinQueue.LOWER)
    wish = FlavorFungibility(preempt_before_next=preempt_before_next)
    nodes = [node(name, cpu=4, labels={"kind": name}) for name in ("first", "second")]
    low = replace(runs(asks("low", 4), "first"), flavors=("first",))
    return [
        *flavors,
        queue(quotas=quotas, preemption=rights, fungibility=wish),
        *nodes,
        low,
        asks("urgent", 4, priority=9),
    ]


@pytest.mark.parametrize(("preempts", "kinds"), [(False, ["Start"]), (True, ["Preempt", "Nominate"])])
def test_a_queue_may_prefer_to_preempt_before_the_next_flavor(preempts: bool, kinds: list[str]) -> None:
    plan = decided(cluster(*flavored(preempt_before_next=preempts)))
    assert [type(action).__name__ for action in plan.actions if not isinstance(action, Wait)] == kinds


# --- preemption (R17, R21) --------------------------------------------------------------------------------------------


def test_nobody_is_preempted_if_it_would_not_be_enough() -> None:
    rights = queue(preemption=QueuePreemption(within=WithinQueue.LOWER))
    plan = decided(cluster(rights, node("a", cpu=4), runs(asks("low", 2), "a"), asks("urgent", 9, priority=9)))
    assert [action for action in plan.actions if isinstance(action, Preempt)] == []


def test_equal_requests_find_victims_for_each_of_them() -> None:
    rights = queue(preemption=QueuePreemption(within=WithinQueue.LOWER))
    low = [runs(asks(f"low{at}", 4), name) for at, name in enumerate("ab")]
    urgent = [asks(f"u{at}", 4, priority=9, at=at) for at in range(3)]
    plan = decided(cluster(rights, node("a", cpu=4), node("b", cpu=4), *low, *urgent))
    assert sorted(action.job for action in plan.actions if isinstance(action, Preempt)) == ["low0", "low1"]


def test_a_victim_of_this_cycle_gets_nothing_in_it() -> None:
    owner = queue(
        quotas=(Quota(guaranteed=(("cpu", 4),)),), preemption=QueuePreemption(reclaim=ReclaimWithinCohort.ANY)
    )
    guest = replace(asks("guest", 2, pods=2), queue="other")
    grows = Adopted(guest, 1, Phase.RUNNING, (Placement(0, 0, "a"), Placement(0, 1, "a")), started_s=0.0)
    plan = decided(cluster(owner, queue("other"), node("a", cpu=4), grows, asks("mine", 4)))
    assert [action.job for action in plan.actions if isinstance(action, Preempt)] == ["guest"]
    assert [action for action in plan.actions if isinstance(action, Place | Start)] == []


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 64])
def test_with_many_queues_their_first_requests_are_checked_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound saves time; in this cluster it changes no decision."""
    monkeypatch.setattr(steps, "FEW_QUEUES", most)
    queues = [queue(f"q{at}", quotas=(Quota(guaranteed=(("cpu", 1),)),)) for at in range(4)]
    jobs = [replace(asks(f"j{at}", 1, at=at), queue=f"q{at % 4}") for at in range(8)]
    assert started(*queues, node("a", cpu=6), *jobs) == [f"j{at}" for at in range(6)]
