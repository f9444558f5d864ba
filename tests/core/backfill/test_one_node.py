"""Backfill on a cluster of one node."""

from __future__ import annotations

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.loop import step
from phalanx.model.event import Finished, Submitted, Ticked
from phalanx.model.job import Job, Role
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Backfill, Policy
from phalanx.model.reason import ReasonCode
from tests.core.backfill.test_reservation import Exact
from tests.invariants import check_invariants


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_on_one_node_who_is_held_back_is_told_anew_only_when_the_first_is_expected_at_another_time(
    backfill: Backfill,
) -> None:
    world = Exact(Policy(backfill=backfill), nodes=1, cpus=8)
    asked = {"a": (4, 100.0), "b": (2, 80.0), "c": (1, 90.0), "first": (8, 10.0), "behind": (1, 200.0)}
    for at_s, (name, (cpus, limit_s)) in enumerate(asked.items()):
        shape = Shape(requests=amounts({"cpu": 1000 * cpus}))
        job = Job(
            id=name,
            queue="default",
            roles=(Role(name="w", count=1, minimum=1, shape=shape),),
            submitted_s=at_s,
            limit_s=limit_s,
        )
        step(world.cluster, [Submitted(job)], world.policy, 0.0, world)
    assert list(world.starts) == ["a", "b", "c"]
    for ends, start_s, told in (("c", 100.0, False), ("a", 80.0, True)):
        fold(world.cluster, [Ticked(10.0), Finished(ends)])
        memory = decide(world.cluster, world.policy, 10.0).memory
        plan = step(world.cluster, [], world.policy, 10.0, world)
        reason = world.cluster.reason("behind")
        assert reason is not None
        assert (reason.code, reason.numbers["for"], reason.numbers["until_s"]) == (
            ReasonCode.RESERVED,
            "first",
            start_s,
        )
        assert [action.job for action in plan.actions] == ["behind"] * told
        assert memory is not None
        assert [each.reason for _, each in memory.reports] == [reason]
        check_invariants(world.cluster)
