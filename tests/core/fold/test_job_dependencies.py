"""Arrays: which of their jobs may be tried."""

from __future__ import annotations

from dataclasses import replace

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold_plan
from phalanx.model.plan import Plan, Wait
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.pending.request_class import Request
from tests.core.builders import cluster, job, node, role
from tests.invariants import check_invariants


def test_a_job_of_an_array_that_can_start_after_all_needs_a_turn() -> None:
    task = replace(job("a", role(cpu=9000)), array="sweep", array_cap=1)
    book = cluster(node("n", cpu=4000), task)
    decision = decide(book, Policy(), 0.0)
    fold_plan(book, decision)
    assert [each.reason.code for each in decision.actions if isinstance(each, Wait)] == [ReasonCode.NEVER_FITS]
    assert not book.dependencies.contends(task)
    short = Reason(code=ReasonCode.QUEUE_QUOTA, text="quota lacks", numbers={})
    fold_plan(book, Plan((Wait("a", short),)))
    assert Request("a") in book.pending.fresh
    fold_plan(book, decide(book, Policy(), 1.0))
    check_invariants(book)
