"""`core/backfill/ends.py`: the expected ends of running jobs and of the cycle's grants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from phalanx.core.backfill.ends import CycleEnds, Grant, nominated_gangs
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold.fold import fold_plan
from phalanx.model.event import Adopted, Event, QueueSeen, ReservationSeen
from phalanx.model.job import Job, Phase, Placement, Slot
from phalanx.model.node import Reservation
from phalanx.model.plan import Nominate, Plan
from phalanx.model.policy import Policy
from phalanx.model.queue import Limits, Queue
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Request
from phalanx.state.running import LEAVING_S
from tests.core.builders import cluster, job, node, role

NOW_S = 100.0


def runs(
    name: str, *, limit_s: float | None = None, at_s: float = 90.0, pods: int = 1, cpu: int = 2, **more: Sequence[Slot]
) -> Adopted:
    """A job that runs on node a."""
    limited = replace(job(name, role(count=pods, minimum=1, cpu=cpu)), limit_s=limit_s)
    placed = tuple(Placement(0, ordinal, "a") for ordinal in range(pods))
    return Adopted(limited, 1, Phase.RUNNING, placed, started_s=at_s, **more)  # type: ignore[arg-type]  # as Adopted has them


def waits(name: str, limit_s: float | None = None) -> Job:
    return replace(job(name, role(cpu=2)), limit_s=limit_s)


def ends(book: Cluster, *given: Grant) -> CycleEnds:
    return CycleEnds(book, NOW_S, [*given])


def grant(book: Cluster, name: str, slot: Slot | None = None) -> Grant:
    return Request(name, slot), book.jobs[name].gang, [Placement(0, 0, "a")]


def releases(found: CycleEnds) -> list[tuple[float, int]]:
    """Return (time, released CPUs) in order."""
    return [(at_s, held.in_all.get("cpu", 0)) for at_s, held in found.releases()]


def full(*events: Event | Job) -> Cluster:
    return cluster(node("a", cpu=20), *events)


def test_jobs_end_at_their_time_limits_and_without_one_never() -> None:
    book = full(runs("late", limit_s=60.0), runs("soon", limit_s=20.0, cpu=3), runs("never"))
    assert releases(ends(book)) == [(110.0, 3), (150.0, 2)]


def test_the_limit_of_the_queue_holds_for_jobs_that_have_none() -> None:
    book = full(QueueSeen(Queue(name="default", per_job=Limits(wall_s=30.0))), runs("r"), waits("w"))
    assert releases(ends(book)) == [(120.0, 2)]
    assert ends(book).of(book.jobs["w"], Request("w")) == NOW_S + 30.0


def test_a_request_ends_its_limit_after_its_start() -> None:
    book = full(waits("w", 50.0), waits("never"), runs("r", limit_s=60.0), runs("overdue", limit_s=5.0))
    found = ends(book)
    assert found.of(book.jobs["w"], Request("w")) == 150.0
    assert found.of(book.jobs["never"], Request("never")) == inf
    assert found.of(book.jobs["r"], Request("r", Slot(0, 1))) == 150.0, "a slot of a started job ends with the job"
    assert found.of(book.jobs["overdue"], Request("overdue", Slot(0, 1))) == NOW_S


def test_a_job_that_this_cycle_preempts_ends_at_once() -> None:
    book = full(runs("a", limit_s=20.0), runs("b", limit_s=60.0, cpu=3))
    found = ends(book)
    assert not found.anyone_leaves_now()
    found.leave("b")
    assert found.anyone_leaves_now()
    assert releases(found) == [(LEAVING_S, 3), (110.0, 2)]
    found.leave("a")
    assert releases(found) == [(LEAVING_S, 3), (LEAVING_S, 2)], "in the order in which they are preempted"


def test_slots_that_leave_end_now_and_the_others_with_their_job() -> None:
    book = full(runs("a", limit_s=20.0, pods=3))
    found = ends(book)
    found.leave("a", [Slot(0, 2)])
    found.leave("a", [Slot(0, 1)])
    assert found.partly_leaving() == {"a": {Slot(0, 1), Slot(0, 2)}}
    assert releases(found) == [(LEAVING_S, 4), (110.0, 2)]


def test_terminating_pods_of_a_job_that_goes_on_end_now() -> None:
    """Rule R13."""
    book = full(runs("a", limit_s=20.0, pods=2, leaving=(Slot(0, 1),)))
    found = ends(book)
    assert found.partly_leaving() == {"a": {Slot(0, 1)}}
    assert found.anyone_leaves_now()
    assert releases(found) == [(LEAVING_S, 2), (110.0, 2)]


def test_a_job_that_stops_is_no_job_that_goes_on_without_some_pods() -> None:
    stopping = replace(runs("a", limit_s=20.0, leaving=(Slot(0, 0),)), phase=Phase.STOPPING)
    assert ends(full(stopping)).partly_leaving() == {}


def test_overdue_jobs_leave_now() -> None:
    book = full(runs("overdue", limit_s=5.0))
    assert ends(book).anyone_leaves_now()
    assert not ends(full(runs("r", limit_s=20.0))).anyone_leaves_now()


def test_without_any_known_end_there_is_nothing_to_forecast() -> None:
    book = full(runs("never"), waits("w"), waits("limited", 10.0))
    assert not ends(book).anyone_ends()
    assert not ends(book, grant(book, "w")).anyone_ends()
    assert ends(book, grant(book, "limited")).anyone_ends()
    assert ends(full(runs("r", limit_s=10.0))).anyone_ends()


def test_grants_of_the_cycle_end_like_running_jobs() -> None:
    book = full(waits("w", 50.0), waits("never"), runs("r", limit_s=20.0, cpu=3))
    given = [grant(book, "never")]
    found = CycleEnds(book, NOW_S, given)
    assert releases(found) == [(110.0, 3)]
    given.append(grant(book, "w"))
    assert [end_s for end_s, _, _ in found.granted] == [inf, 150.0]
    assert releases(found) == [(110.0, 3), (150.0, 2)]


def test_a_preempted_job_loses_the_grant_of_this_cycle() -> None:
    book = full(runs("r", limit_s=20.0, pods=2), waits("w", 50.0))
    found = ends(book, grant(book, "r", Slot(0, 2)), grant(book, "w"))
    assert len(found.granted) == 2
    found.leave("r")
    assert [request.job for request, _, _ in found.given] == ["w"]
    assert [end_s for end_s, _, _ in found.granted] == [150.0]


def test_a_boundary_of_a_reservation_is_a_time_that_releases_nothing() -> None:
    reserved = Reservation(name="night", start_s=130.0, end_s=170.0, nodes=("a",))
    book = full(ReservationSeen(reserved), runs("r", limit_s=60.0))
    assert releases(ends(book)) == [(130.0, 0), (150.0, 2), (170.0, 0)]
    assert ends(full(ReservationSeen(reserved))).anyone_ends()


def test_the_capacity_after_all_ends_is_kept_up_to_date() -> None:
    book = full(runs("r", limit_s=20.0, cpu=3), runs("never"), waits("w", 50.0), waits("for ever"))
    draft = CycleState(book, Policy(), NOW_S).draft
    row = book.columns.row_of["a"]
    given: list[Grant] = []
    found = CycleEnds(book, NOW_S, given)

    def free() -> int:
        return int(found.free_at_last(draft)["cpu"][row])

    assert free() == 18, "only the job without a limit holds CPUs"
    given.append(grant(book, "w"))
    assert free() == 18, "it will have ended"
    given.append(grant(book, "for ever"))
    assert free() == 16


def test_a_preemption_counts_in_the_capacity_after_all_ends() -> None:
    book = full(runs("r", limit_s=20.0, cpu=3), runs("never", pods=2))
    draft, row = CycleState(book, Policy(), NOW_S).draft, book.columns.row_of["a"]
    found = ends(book)
    assert found.free_at_last(draft)["cpu"][row] == 16
    found.leave("never", [Slot(0, 1)])
    assert found.free_at_last(draft)["cpu"][row] == 18
    found.leave("never")
    assert found.free_at_last(draft)["cpu"][row] == 20


def test_nominations_count_as_running_jobs() -> None:
    book = full(runs("r", pods=2), waits("w"))
    fold_plan(book, Plan((Nominate("w", (Placement(0, 0, "a"),), (), 500.0),)))
    [(request, gang, placements)] = nominated_gangs(book)
    assert request == Request("w")
    assert gang is book.jobs["w"].gang
    assert [*placements] == [Placement(0, 0, "a")]
