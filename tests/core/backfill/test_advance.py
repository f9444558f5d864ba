"""`core/backfill/advance.py`: the nodes, times and jobs for which an advance reservation closes nodes."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from phalanx.core.backfill.advance import (
    boundaries_s,
    closed_rows,
    reservation_not_eligible,
    reserved_for,
    rows_closed_now,
    without_closed_nodes,
)
from phalanx.core.placement.draft import Draft
from phalanx.model.event import QueueSeen, ReservationSeen
from phalanx.model.job import Job
from phalanx.model.node import Reservation
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

NIGHT = Reservation(name="night", start_s=100.0, end_s=200.0, nodes=("a", "gone"), users=("ann",), queues=("lab",))


def book(*reservations: Reservation) -> Cluster:
    queues = [QueueSeen(Queue(name="lab")), QueueSeen(Queue(name="team", parent="lab"))]
    return cluster(node("a", cpu=4), node("b", cpu=4), *queues, *map(ReservationSeen, reservations))


def asks(user: str = "eve", *, queue: str = "default", named: str = "", limit_s: float | None = None) -> Job:
    return replace(job("j", role(cpu=1), queue=queue), user=user, reservation=named, limit_s=limit_s)


def closed(found: Cluster, asked: Job, start_s: float, end_s: float) -> list[str]:
    rows = closed_rows(found, asked, start_s, end_s)
    return [] if rows is None else sorted(name for name, row in found.columns.row_of.items() if rows[row])


@pytest.mark.parametrize(
    ("asked", "start_s", "end_s", "nodes"),
    [
        (asks(), 0.0, 100.0, []),
        (asks(), 0.0, 101.0, ["a"]),
        (asks(), 199.0, inf, ["a"]),
        (asks(), 200.0, inf, []),
        (asks("ann"), 0.0, inf, ["a"]),
        (asks("ann", named="night"), 100.0, 200.0, ["b"]),
        (asks(queue="team", named="night"), 100.0, 200.0, ["b"]),
    ],
)
def test_a_job_meets_a_reservation_if_it_runs_into_it(
    asked: Job, start_s: float, end_s: float, nodes: list[str]
) -> None:
    assert closed(book(NIGHT), asked, start_s, end_s) == nodes


def test_a_magnetic_reservation_is_open_to_its_users_beside_all_other_nodes() -> None:
    found = book(replace(NIGHT, magnetic=True))
    assert closed(found, asks("ann"), 0.0, inf) == []
    assert closed(found, asks("eve"), 0.0, inf) == ["a"]


def test_every_reservation_of_a_node_has_to_admit_the_job() -> None:
    maintenance = Reservation(name="repair", start_s=150.0, end_s=160.0, nodes=("a",))
    found = book(replace(NIGHT, magnetic=True), maintenance)
    assert closed(found, asks("ann"), 0.0, inf) == ["a"]
    assert closed(found, asks("ann"), 0.0, 150.0) == []
    assert reserved_for(maintenance) == "nobody, it is maintenance"
    assert reserved_for(NIGHT) == "users ann; queues lab"


def test_the_time_limit_decides_whether_a_job_may_start_before() -> None:
    found = book(NIGHT)
    assert rows_closed_now(found, asks(limit_s=90.0), 10.0) is None
    assert rows_closed_now(found, asks(limit_s=91.0), 10.0) is not None
    assert rows_closed_now(found, asks(), 10.0) is not None
    assert rows_closed_now(book(), asks(), 10.0) is None


@pytest.mark.parametrize(
    ("asked", "now_s", "text", "again_s"),
    [
        (asks("ann", named="other"), 0.0, "there is no reservation 'other'", None),
        (asks("eve", named="night"), 0.0, "the reservation night is for others: users ann; queues lab", None),
        (asks("ann", named="night"), 99.0, "the reservation night begins at 00:01:40 UTC", 100.0),
        (asks("ann", named="night"), 200.0, "the reservation night ended at 00:03:20 UTC", None),
    ],
)
def test_why_a_job_that_names_a_reservation_cannot_start(
    asked: Job, now_s: float, text: str, again_s: float | None
) -> None:
    found = reservation_not_eligible(book(NIGHT), asked, now_s)
    assert found is not None
    assert (found.reason.text, found.again_s) == (text, again_s)


def test_while_it_lasts_the_job_may_start() -> None:
    assert reservation_not_eligible(book(NIGHT), asks("ann", named="night"), 100.0) is None
    assert reservation_not_eligible(book(NIGHT), asks("eve"), 100.0) is None


def test_closed_nodes_have_no_capacity_on_the_draft_and_get_it_back() -> None:
    found = book(NIGHT)
    draft = Draft(found.columns)
    before = draft.free["cpu"].tolist()
    with without_closed_nodes(draft, found, asks(), 0.0):
        assert sorted(amount > 0 for amount in draft.free["cpu"].tolist()) == [False, True]
    assert draft.free["cpu"].tolist() == before


def test_only_times_to_come_are_boundaries() -> None:
    endless = Reservation(name="for-ever", start_s=0.0, end_s=inf, nodes=("b",))
    assert boundaries_s(book(NIGHT, endless), 0.0) == [100.0, 200.0]
    assert boundaries_s(book(NIGHT, endless), 100.0) == [200.0]
