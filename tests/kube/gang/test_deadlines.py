"""Deadlines of a start: each is found by the value that `StartDeadlines` returns, before anything is taken back."""

from __future__ import annotations

from phalanx.kube.gang.lifecycle.deadlines import StartDeadlines
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.stages import Running, Starting
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from tests.kube.gang.recorded_effects import DEFAULTS, running, starting


def deadlines(gang: GangLifecycle, defaults: GangDefaults = DEFAULTS) -> StartDeadlines:
    assert isinstance(gang.state, Starting | Running)
    return StartDeadlines(gang.state, gang.history, defaults)


def test_a_start_that_is_not_bound_is_overdue_after_the_time_of_the_barrier() -> None:
    effects, gang = starting()
    now = deadlines(gang)
    assert list(now.overdue()) == []
    assert now.wake_s == effects.time_s + effects.timeouts.barrier_s(2)
    effects.time_s = now.wake_s
    (overdue,) = deadlines(gang).overdue()
    assert overdue.why.text == "its start was taken back: 0 of 2 pods could be bound after 61 s (0 existed)"
    assert (overdue.hold, overdue.evicts) == ("", False)


def test_pods_that_are_not_ready_in_time_have_their_nodes_avoided() -> None:
    defaults = GangDefaults(largest=dict, start_timeout_s=lambda queue: 10.0)
    effects, gang = running(defaults)
    now = deadlines(gang, defaults)
    assert list(now.overdue()) == []
    assert now.wake_s == effects.time_s + 10.0
    effects.time_s = now.wake_s
    (overdue,) = deadlines(gang, defaults).overdue()
    assert overdue.why.numbers == {"late": 2, "node": "n1"}
    assert (gang.history.timeouts, list(gang.history.avoided)) == (1, ["n1"])


def test_a_bound_start_without_a_limit_has_no_deadline() -> None:
    _, gang = running()
    now = deadlines(gang)
    assert list(now.overdue()) == []
    assert now.wake_s == 0.0
