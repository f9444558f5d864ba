"""`kube/gang/seats/seat_table.py`: the seats of one started gang."""

from __future__ import annotations

from phalanx.kube.gang.seats.seat_table import GangSeats
from phalanx.kube.gang.spec.members import JobPods
from phalanx.model.job import Placement, Role, Slot
from phalanx.model.pod import Shape
from tests.kube.gang.recorded_effects import a_job, a_pod


def table(count: int, minimum: int) -> GangSeats:
    role = Role(name="r", count=count, minimum=minimum, shape=Shape(requests=()))
    return GangSeats((role,), (JobPods("j"),))


def test_an_index_keeps_its_seat() -> None:
    seats = table(3, 3)
    seats.plan(Placement(0, ordinal, f"n{ordinal}") for ordinal in range(3))
    meta = {"annotations": {"batch.kubernetes.io/job-completion-index": "1"}}
    first = a_pod("a", job="j", meta=meta)
    assert seats.take(0, first).slot == Slot(0, 1)
    seats.leave("a", 0.0)
    seats.take(0, a_pod("other", job="j"))
    assert seats.take(0, a_pod("b", job="j", meta=meta)).slot == Slot(0, 1)


def test_of_vacant_seats_those_without_a_node_go_first_and_then_the_highest() -> None:
    seats = table(4, 1)
    seats.plan(Placement(0, ordinal, "n") for ordinal in range(3))
    seats.rows[0].add(3)
    assert seats.surplus(0, 2) == [Slot(0, 3), Slot(0, 2)]
    assert seats.surplus(0, 4) == []


def test_a_pod_that_was_over_before_the_last_was_bound_counts_as_started() -> None:
    seats = table(2, 2)
    seats.plan(Placement(0, ordinal, "n") for ordinal in range(2))
    for name in ("a", "b"):
        seat = seats.take(0, a_pod(name, job="j"))
        seats.mark(seat, ready=True, bound=True)
        seats.leave(name, 0.0)
    assert seats.started()
    assert seats.minimum_bound == 0


def test_a_job_is_one_role() -> None:
    seats = table(1, 1)
    assert seats.role_of(JobPods(a_job().uid)) == 0
    assert seats.role_of(JobPods("other")) is None
