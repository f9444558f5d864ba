"""`core/cycle/plan.py`: the plan of a cycle, the memory for the next one, and when the next one is due."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nextafter
from typing import Any

from phalanx.core.cycle import plan as conclude
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.fold.memory import Decision
from phalanx.core.preemption.nomination import PATIENCE_S
from phalanx.model.event import Adopted, Finished, NodeSeen, QueueSeen, ReservationSeen, Submitted, Ticked
from phalanx.model.job import Dependency, DependencyType, Job, Phase, Placement, Slot
from phalanx.model.node import Reservation
from phalanx.model.plan import Nominate, Place, Plan, Preempt, Start, Wait
from phalanx.model.pod import Operator, PodAffinityTerm, Requirement, Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Limits, Queue, QueuePreemption, Quota, WithinQueue
from phalanx.model.reason import ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

NOW_S = 10.0
PREEMPTS = QueueSeen(Queue(name="default", preemption=QueuePreemption(within=WithinQueue.LOWER)))


def decided(book: Cluster, now_s: float = NOW_S) -> Plan:
    return decide(book, Policy(), now_s).plan


def carried_out(book: Cluster, now_s: float = NOW_S) -> Plan:
    """Decide, and fold the decision."""
    found = decide(book, Policy(), now_s)
    fold_plan(book, found)
    return found.plan


def asks(name: str, cpu: int = 1, **fields: Any) -> Job:
    return replace(job(name, role(cpu=cpu), at=fields.pop("at", 0.0)), **fields)


def runs(name: str, cpu: int = 4, on: str = "a", **fields: Any) -> Adopted:
    return Adopted(asks(name, cpu, **fields), 1, Phase.RUNNING, (Placement(0, 0, on),), started_s=0.0)


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_lost_pods_come_first_then_starts_then_preemptions_then_reasons() -> None:
    gang = job("gang", role(count=2, cpu=1))
    lost = Adopted(gang, 1, Phase.RUNNING, (Placement(0, 0, "a"),), open=(Slot(0, 1),))
    book = cluster(
        PREEMPTS, node("a", cpu=3), node("b", cpu=4), lost, runs("low", on="b"),
        asks("fits", 1), asks("urgent", 4, priority=9), asks("huge", 99),
    )  # fmt: skip
    actions = [(type(action).__name__, action.job) for action in decided(book).actions]
    assert actions == [
        ("Place", "gang"), ("Start", "fits"), ("Preempt", "low"), ("Nominate", "urgent"), ("Wait", "huge"),
    ]  # fmt: skip


def test_a_reason_is_reported_once() -> None:
    book = cluster(node("a", cpu=1), asks("waits", 2))
    [told] = carried_out(book).actions
    assert isinstance(told, Wait)
    fold(book, [Submitted(asks("other", 3))])
    assert [action.job for action in carried_out(book).actions] == ["other"]


def test_a_preempted_job_gets_no_reason_in_the_same_plan() -> None:
    book = cluster(PREEMPTS, node("a", cpu=4), runs("low"), asks("urgent", 4, priority=9))
    plan = decided(book)
    assert {type(action) for action in plan.actions if action.job == "low"} == {Preempt}
    assert {type(action) for action in plan.actions if action.job == "urgent"} == {Nominate}


# --- when the next cycle is due ---------------------------------------------------------------------------------------


def test_without_anything_to_come_no_cycle_is_due() -> None:
    assert decided(cluster(node("a", cpu=1), asks("waits", 2))).wake_s is None
    book = cluster(node("a", cpu=1))
    assert decided(book) == Plan()


def test_a_cycle_is_due_when_a_job_may_begin() -> None:
    book = cluster(node("a", cpu=1), asks("later", begin_s=50.0), asks("later still", begin_s=70.0))
    assert decided(book).wake_s == 50.0


def test_a_nomination_ends_after_the_patience_and_the_longest_grace() -> None:
    graceful = QueueSeen(Queue(name="default", preemption=QueuePreemption(within=WithinQueue.LOWER, grace_s=30.0)))
    book = cluster(graceful, node("a", cpu=4), runs("low"), asks("urgent", 4, priority=9))
    assert carried_out(book).wake_s == NOW_S + PATIENCE_S + 30.0
    assert decided(book, 20.0).wake_s == NOW_S + PATIENCE_S + 30.0, "the nomination is kept, with its own time"


def test_victims_that_return_quota_wake_those_that_wait_for_it() -> None:
    limited = Queue(
        name="default", quotas=(Quota(limit=(("cpu", 4),)),), preemption=QueuePreemption(within=WithinQueue.LOWER)
    )
    book = cluster(
        QueueSeen(limited),
        node("a", cpu=99),
        runs("low"),
        asks("urgent", 2, priority=9),
        asks("small", 1, at=1, preempts=False),
    )
    plan = carried_out(book)
    assert [action.job for action in plan.actions if isinstance(action, Preempt)] == ["low"]
    assert plan.wake_s == NOW_S
    assert [action.job for action in decided(book).actions if isinstance(action, Start)] == ["small"]


def test_a_start_wakes_the_jobs_that_wait_for_it_right_after() -> None:
    after = (Dependency(job="first", after=DependencyType.START),)
    book = cluster(node("a", cpu=4), asks("first"), asks("second", after=after))
    assert decided(book).wake_s == nextafter(NOW_S, inf)
    ends = (Dependency(job="first", after=DependencyType.ANY),)
    assert decided(cluster(node("a", cpu=4), asks("first"), asks("second", after=ends))).wake_s is None


def test_a_cycle_is_due_at_the_next_boundary_of_a_reservation() -> None:
    reserved = ReservationSeen(Reservation(name="r", start_s=60.0, end_s=90.0, nodes=("a",)))
    book = cluster(reserved, node("a", cpu=1), asks("waits", 2))
    assert decided(book).wake_s == 60.0
    assert decided(book, 70.0).wake_s == 90.0
    assert decided(book, 95.0).wake_s is None


def spread(name: str, **fields: Any) -> Job:
    """A job whose pod must be beside a pod of the app `base`."""
    term = PodAffinityTerm("kubernetes.io/hostname", (Requirement("app", Operator.IN, ("base",)),))
    shape = Shape(requests=amounts({"cpu": 1}), labels=(("app", name),), namespace="n", near=(term,))
    return replace(asks(name), roles=(replace(role(), shape=shape),), **fields)


def test_a_placed_pod_wakes_those_that_must_be_beside_it() -> None:
    base = Shape(requests=amounts({"cpu": 1}), labels=(("app", "base"),), namespace="n")
    host = {"kubernetes.io/hostname": "a"}
    beside = spread("beside", priority=9)
    book = cluster(node("a", cpu=4, labels=host), beside, replace(asks("base"), roles=(replace(role(), shape=base),)))
    plan = carried_out(book)
    assert [action.job for action in plan.actions if isinstance(action, Start)] == ["base"]
    assert plan.wake_s == NOW_S
    assert [action.job for action in decided(book).actions if isinstance(action, Start)] == ["beside"]


def test_a_task_that_can_never_start_gives_its_turn_to_the_next() -> None:
    tasks = [asks(f"t{at}", cpu, array="t", array_cap=1, at=at) for at, cpu in enumerate((99, 1))]
    book = cluster(node("a", cpu=4), *tasks)
    started: list[str] = []
    for _ in range(4):
        plan = carried_out(book)
        started += [action.job for action in plan.actions if isinstance(action, Start)]
        if plan.wake_s != NOW_S:
            break
    assert started == ["t1"]


# --- idle -------------------------------------------------------------------------------------------------------------


def settled(*news: Any) -> Cluster:
    """Return a cluster in which nothing changes any more."""
    book = cluster(*news)
    for _ in range(3):
        carried_out(book)
    return book


def test_without_an_event_there_is_nothing_to_decide() -> None:
    book = settled(node("a", cpu=1), asks("waits", 2))
    assert conclude.is_idle(book, NOW_S)
    assert decide(book, Policy(), NOW_S) == Decision(Plan())


def test_every_event_that_may_help_ends_the_rest() -> None:
    for event in (Submitted(asks("new")), NodeSeen(node("b", cpu=9)), QueueSeen(Queue(name="default", priority=2))):
        book = settled(node("a", cpu=1), asks("waits", 2))
        fold(book, [event])
        assert not conclude.is_idle(book, NOW_S) or event.__class__ is QueueSeen, event


def test_a_timer_that_is_due_ends_the_rest() -> None:
    book = settled(node("a", cpu=1), asks("later", begin_s=50.0))
    assert conclude.is_idle(book, 49.0)
    assert not conclude.is_idle(book, 50.0)


def test_while_a_job_is_nominated_each_cycle_looks_again() -> None:
    book = settled(PREEMPTS, node("a", cpu=4), runs("low"), asks("urgent", 4, priority=9))
    assert book.nominated
    assert not conclude.is_idle(book, NOW_S)


def test_an_idle_cycle_repeats_the_reservation_and_the_next_time() -> None:
    night = ReservationSeen(Reservation(name="r", start_s=60.0, end_s=90.0, nodes=("a",)))
    book = settled(night, node("a", cpu=1), asks("waits", 2))
    fold(book, [Ticked(20.0), Finished("nobody")])
    assert decide(book, Policy(), 20.0).plan.wake_s == 60.0


def test_a_user_limit_is_quota_for_which_others_wait() -> None:
    limited = Queue(name="default", per_user=Limits(resources=(("cpu", 2),)))
    book = cluster(QueueSeen(limited), node("a", cpu=9), asks("a", 2, user="ada"), asks("b", 1, user="ada", at=1))
    plan = carried_out(book)
    [waits] = [action for action in plan.actions if isinstance(action, Wait)]
    assert waits.reason.code is not ReasonCode.NO_ROOM
    assert plan.wake_s is None, "no victim returns quota in this cycle"


def test_replacements_whose_domain_is_decided_by_others_are_tried_again_at_once() -> None:
    gang = job("gang", role(count=3, cpu=1))
    lost = Adopted(gang, 1, Phase.RUNNING, (Placement(0, 0, "a"),), open=(Slot(0, 1), Slot(0, 2)))
    plan = decided(cluster(node("a", cpu=9), lost))
    [place] = [action for action in plan.actions if isinstance(action, Place)]
    assert len(place.placements) == 2
    assert plan.wake_s is None, "a gang without a topology has no domain to wait for"
