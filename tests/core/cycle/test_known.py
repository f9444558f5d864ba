"""What a cycle knows about the reasons of requests that cannot start."""

from __future__ import annotations

from phalanx.core.cycle.known import EXPLAINED, KnownFailures
from phalanx.core.cycle.state import NO_CHARGE, CycleState
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.event import Started
from phalanx.model.policy import Policy
from phalanx.model.reason import ReasonCode
from phalanx.state.cluster import Cluster
from phalanx.state.pending.placement_class import PlacementClass
from phalanx.state.pending.request_class import RequestClass
from tests.core.builders import cluster, event, job, node, role


def with_a_job_that_waits(cpus: int) -> tuple[Cluster, RequestClass, PlacementClass]:
    """Return a cluster with one node of 4 cpus, of which 3 are taken, and a job that asks `cpus` and has reported."""
    book = cluster(node("n", cpu=4), job("before", role(cpu=3)))
    fold_plan(book, decide(book, Policy(), 0.0))
    fold(book, [Started("before", 1), event(job("waits", role(cpu=cpus)))])
    fold_plan(book, decide(book, Policy(), 1.0))
    (request_class,) = book.pending.request_classes.values()
    return book, request_class, request_class.placement_class


def known_of(book: Cluster) -> KnownFailures:
    """Return the reasons of a cycle that has begun."""
    state = CycleState(book, Policy(), 2.0)
    state.known.begin()
    return state.known


def offer_of(request_class: RequestClass) -> FlavorAssignment:
    """Return the offer of a queue without flavors and limits."""
    return FlavorAssignment((), request_class.key.gang, NO_CHARGE)


def test_the_reason_of_an_earlier_cycle_is_known() -> None:
    book, request_class, found = with_a_job_that_waits(cpus=2)
    reason = known_of(book).known_reason(request_class, offer_of(request_class), searches=False)
    assert reason is not None
    assert reason is found.reason
    assert reason.code is ReasonCode.NO_ROOM


def test_a_class_that_had_capacity_is_explained_again_within_a_budget() -> None:
    book, request_class, found = with_a_job_that_waits(cpus=2)
    known = known_of(book)
    known.had_room[found.number] = 1
    assert known.known_reason(request_class, offer_of(request_class), searches=False) is None
    known.failures = EXPLAINED
    assert known.known_reason(request_class, offer_of(request_class), searches=False) is found.reason


def test_a_reason_is_computed_once_and_leaves_the_draft_as_it_was() -> None:
    book, _, found = with_a_job_that_waits(cpus=2)
    known, found.reason = known_of(book), None
    reason = known.explain_placement_class(found)
    assert reason is not None
    assert known.explain_placement_class(found) is reason
    assert known.draft.untouched


def test_a_stored_reason_that_larger_nodes_disprove_is_forgotten() -> None:
    book, _, found = with_a_job_that_waits(cpus=8)
    assert found.reason is not None
    assert found.reason.code is ReasonCode.NEVER_FITS
    fold(book, [event(node("n", cpu=16))])
    found.reason = book.jobs["waits"].reason
    known = known_of(book)
    assert not known.never_starts(found)
    assert known.reason_of_placement_class(found) is None
