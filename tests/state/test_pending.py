"""`state/pending/pending.py`: add requests to their classes, remove them, and keep the results of searches for each
request."""

from __future__ import annotations

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Blocker, Request, Search
from tests.core.builders import cluster, event, job, node, role


def with_waiting_jobs(*names: str) -> Cluster:
    """Return a cluster with these equal jobs, for which no node is large enough."""
    book = cluster(node("n", cpu=1), *(job(name, role(cpu=2)) for name in names))
    fold_plan(book, decide(book, Policy(), 0.0))
    return book


def test_equal_requests_share_a_class_until_the_last_one_leaves() -> None:
    pending = with_waiting_jobs("a", "b").pending
    (request_class,) = pending.request_classes.values()
    assert [entry.request.job for entry in request_class] == ["a", "b"]
    pending.leave(Request("a"))
    assert request_class.first.request == Request("b")
    pending.leave(Request("b"))
    assert not pending.request_classes
    assert not list(pending.placement_classes)


def test_a_class_reports_its_own_reason_before_that_of_its_placement_class() -> None:
    pending = with_waiting_jobs("a").pending
    own = Reason(code=ReasonCode.RESERVED, text="own")
    ((key, request_class),) = pending.request_classes.items()
    shared = request_class.placement_class.reason
    assert shared is not None
    assert pending.reason_of(request_class) is shared
    pending.note_report(key, Blocker.RESERVATION, own)
    assert pending.reason_of(request_class) is own


def test_a_search_is_due_when_something_has_changed() -> None:
    pending = with_waiting_jobs("a").pending
    (key,) = pending.request_classes
    pending.remember(key, Search(pending.changes, again_s=60.0, reserved=None))
    assert not pending.has_due_search()
    assert pending.timers.next_s() == 60.0
    pending.allow_new_searches()
    assert pending.has_due_search()


def test_a_copy_shares_no_request_class() -> None:
    book = with_waiting_jobs("a", "b")
    copy = book.pending.copy(book.tree)
    copy.leave(Request("a"))
    fold(book, [event(job("c", role(cpu=2)))])
    assert Request("a") in book.pending.request_class_of
    assert not copy.fresh
