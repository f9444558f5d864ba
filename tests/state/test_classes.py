"""`state/classes.py`: equal demands and gangs are one object, and what follows from their fields."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from phalanx.model.job import MAX_ROLES, Role
from phalanx.model.pod import HostPort, PodAffinityTerm, Shape, amounts
from phalanx.state.classes import InternTable
from tests.core.builders import job, role


def test_equal_jobs_have_one_gang_and_equal_pods_one_demand() -> None:
    table = InternTable()
    first, second = table.of(job("a", role(count=2, gpu=1))), table.of(job("b", role(count=2, gpu=1)))
    other = table.of(job("c", role(count=3, gpu=1)))
    assert first is second
    assert first is not other
    assert first.demands[0] is other.demands[0]


def test_a_gang_that_no_job_has_is_forgotten() -> None:
    table = InternTable()
    table.of(job("a", role(count=2, gpu=1)))
    kept = table.of(job("b", role(count=3, gpu=2)))
    gc.collect()
    assert list(table._gangs.values()) == [kept]


def test_a_gang_asks_for_its_minimum_and_a_pod_counts_as_one() -> None:
    gang = InternTable().of(job("a", role("w", 5, 2, cpu=3), role("ps", 1, cpu=1)))
    assert gang.asked == {"cpu": 7, "pods": 3}
    assert dict(gang.due) == {("", "cpu"): 7, ("", "pods"): 3}
    assert not gang.rigid
    assert (gang.enough((2, 1)), gang.enough((5, 0))) == (True, False)


def test_a_queue_may_be_charged_otherwise_than_a_node() -> None:
    shape = Shape(requests=amounts({"cpu": 4}), charged=amounts({"cpu": 1}))
    demand = InternTable().demand(shape)
    assert (demand.amounts["cpu"], dict(demand.costs)["cpu"]) == (4, 1)


@pytest.mark.parametrize(
    ("change", "unconstrained", "tracked"),
    [
        ({}, True, False),
        ({"selector": (("zone", "a"),)}, True, False),
        ({"ports": (HostPort(80),)}, False, True),
        ({"labels": (("app", "x"),)}, True, True),
        ({"away": (PodAffinityTerm(topology="host", selector=()),)}, False, True),
    ],
)
def test_which_pods_need_more_than_a_sum(change: dict[str, object], unconstrained: bool, tracked: bool) -> None:
    """Pods with labels are counted by node, because terms of other pods may select them."""
    demand = InternTable().demand(replace(Shape(requests=amounts({"cpu": 1})), **change))
    assert (demand.unconstrained, demand.tracked) == (unconstrained, tracked)


def test_of_too_many_roles_only_the_first_is_read() -> None:
    table = InternTable()
    roles = tuple(Role(name=f"r{at}", count=1, minimum=1, shape=Shape(requests=())) for at in range(MAX_ROLES + 1))
    gang = table.gang(roles)
    assert gang.error
    assert len({*gang.demands}) == 1
