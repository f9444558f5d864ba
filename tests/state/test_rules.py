"""`state/queues/rules.py`: what a queue states itself, and what it has from the queues above."""

from __future__ import annotations

from phalanx.model.queue import (
    Limits,
    Queue,
    QueueOrder,
    QueuePreemption,
    QueueState,
    Quota,
    ReclaimWithinCohort,
)
from phalanx.state.queues.rules import NO_RULES, ResourceGroup, job_limits, queue_rules

FAST = Quota(flavor="fast", limit=(("cpu", 4),))
SLOW = Quota(flavor="slow", limit=(("cpu", 8),))


def test_a_plain_queue_has_the_rules_of_no_queue() -> None:
    assert queue_rules(Queue(name="q"), NO_RULES) == NO_RULES


def test_the_nearest_queue_with_flavors_sets_them() -> None:
    above = queue_rules(Queue(name="up", quotas=(FAST, SLOW)), NO_RULES)
    assert above.flavors == (ResourceGroup(("fast", "slow")),)
    assert queue_rules(Queue(name="q"), above).flavors == above.flavors
    assert queue_rules(Queue(name="q", quotas=(SLOW,)), above).flavors == (ResourceGroup(("slow",)),)


def test_a_closed_queue_above_is_named_after_the_nearest() -> None:
    up, down = (Queue(name=name, state=QueueState.HELD) for name in ("up", "down"))
    found = queue_rules(down, queue_rules(Queue(name="middle"), queue_rules(up, NO_RULES)))
    assert found.states == (down, up)


def test_factors_count_below_the_queue_that_orders_by_them() -> None:
    above = queue_rules(Queue(name="up", order=QueueOrder.MULTIFACTOR), NO_RULES)
    assert queue_rules(Queue(name="q"), above).by_factors


def test_preemption_is_a_rule_of_the_queue_alone() -> None:
    searching = QueuePreemption(reclaim=ReclaimWithinCohort.ANY)
    above = queue_rules(Queue(name="up", preemption=searching), NO_RULES)
    assert (above.preempts, above.reclaims) == (True, True)
    below = queue_rules(Queue(name="q"), above)
    assert (below.preempts, below.reclaims) == (False, False)


def test_the_shortest_time_limit_of_the_path_counts() -> None:
    hour, day = (Queue(name="q", per_job=Limits(wall_s=wall_s)) for wall_s in (3600.0, 86400.0))
    assert job_limits(day, job_limits(hour, NO_RULES.limits)).longest_s == 3600.0
    assert job_limits(hour, job_limits(day, NO_RULES.limits)).longest_s == 3600.0


def test_a_group_of_flavors_covers_the_resources_that_it_names() -> None:
    assert ResourceGroup(("fast",)).covers("cpu")
    assert ResourceGroup(("fast",), frozenset({"gpu"})).covers("gpu")
    assert not ResourceGroup(("fast",), frozenset({"gpu"})).covers("cpu")
