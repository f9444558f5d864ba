"""`kube/routing/reconciler.py`: the gangs that are reconciled next, and the timers of gangs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.stages import Stage
from phalanx.kube.routing.reconciler import GangReconciler, GangTimers
from phalanx.model.event import OutcomeTold
from phalanx.model.job import Outcome
from tests.kube.gang.recorded_effects import DEFAULTS, RecordedEffects, a_job, starting, waiting


def test_a_timer_that_is_set_again_counts_once() -> None:
    timers = GangTimers()
    timers.set("a", 5.0)
    timers.set("b", 4.0)
    timers.set("a", 3.0)
    assert timers.next_s == 3.0
    assert list(timers.due(3.0)) == ["a"]
    timers.set("b", 0.0)
    assert list(timers.due(10.0)) == ["b"]
    assert list(timers.due(10.0)) == []
    assert timers.next_s is None


def reconciler(effects: RecordedEffects, gang: GangLifecycle) -> tuple[GangReconciler, list[str], list[str]]:
    """Return a reconciler of this gang, and the ids of settled gangs and of gangs that are gone."""
    settled, gone = list[str](), list[str]()
    gangs = {gang.id: gang}
    return (
        GangReconciler(gangs, effects.now_s, None, lambda: DEFAULTS, lambda one: settled.append(one.id), gone.append),
        settled,
        gone,
    )


def test_a_gang_that_is_marked_twice_is_reconciled_once() -> None:
    found, settled, gone = reconciler(*starting())
    found.mark("default/j", "default/other")
    found.mark("default/j")
    assert len(found) == 2
    assert len(list(found.reconcile())) == 2
    assert (settled, gone, len(found)) == (["default/j"], ["default/other"], 0)


def test_a_gang_is_marked_when_its_time_has_come() -> None:
    effects, gang = starting()
    found, settled, _ = reconciler(effects, gang)
    found.mark(gang.id)
    list(found.reconcile())
    assert found.next_s == gang.wake_s
    found.mark_due()
    assert len(found) == 0
    effects.time_s = gang.wake_s
    found.mark_due()
    list(found.reconcile())
    assert settled == [gang.id, gang.id]
    assert gang.state.stage is Stage.LEAVING


def test_an_error_about_one_gang_keeps_no_other_from_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    effects, gang = starting()
    _, other = waiting()
    other.id = "default/other"
    settled: list[str] = []

    def settle(one: GangLifecycle) -> None:
        assert one is not gang
        settled.append(one.id)

    gangs = {one.id: one for one in (gang, other)}
    found = GangReconciler(gangs, effects.now_s, None, lambda: DEFAULTS, settle, settled.append)
    found.mark(gang.id, other.id)
    list(found.reconcile())
    assert settled == [other.id]
    assert gang.id in caplog.text


def test_the_starts_of_an_earlier_process_are_taken_up_once() -> None:
    effects = RecordedEffects()
    gang = GangLifecycle("default/j", effects)
    gang.see_job(replace(a_job("j", 2), outcome=Outcome.SUCCEEDED))
    found, _, _ = reconciler(effects, gang)
    list(found.recover())
    assert effects.of(OutcomeTold) == [OutcomeTold("default/j", Outcome.SUCCEEDED)]
    list(found.recover())
    assert len(effects.told) == 1
