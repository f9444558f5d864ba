"""Nominations: a job waits for nodes that its victims are leaving."""

from __future__ import annotations

from random import Random

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished, Submitted, Ticked
from phalanx.model.plan import Nominate
from phalanx.state.cluster import Cluster
from tests.core.preemption.test_search import POLICY, crowded, job
from tests.invariants import check_invariants


def test_a_promise_that_is_withdrawn_leaves_nothing_behind() -> None:
    cluster = Cluster()
    fold(cluster, [*crowded(Random(5)), Submitted(job("new", "q", 9, 1, 1, 2)), Ticked(100.0)])
    before = {name: column.tolist() for name, column in cluster.columns.free.items()}
    plan = decide(cluster, POLICY, 100.0)
    assert any(isinstance(action, Nominate) for action in plan.actions)
    fold_plan(cluster, plan)
    fold(cluster, [Finished("new")])
    check_invariants(cluster)
    assert {name: column.tolist() for name, column in cluster.columns.free.items()} == before
