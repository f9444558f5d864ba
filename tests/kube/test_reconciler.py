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


def reconciler(effects: RecordedEffects, *gangs: GangLifecycle) -> tuple[GangReconciler, list[str]]:
    """Return a reconciler of these gangs, and what it reports: `wake`, settled gangs, and gangs that are gone."""
    news = list[str]()

    def settled(name: str, gang: GangLifecycle | None) -> None:
        assert gang is None or gang.id != "default/odd"
        news.append(name if gang is not None else f"no {name}")

    known = {gang.id: gang for gang in gangs}
    return GangReconciler(known, effects.now_s, None, lambda: news.append("wake"), settled), news


def test_a_gang_that_is_marked_twice_is_reconciled_once() -> None:
    found, news = reconciler(*starting())
    for gang in ("default/j", "default/other", "default/j"):
        found.mark(gang)
    assert len(found) == 2
    assert len(list(found.reconcile(DEFAULTS))) == 3, "one step looks for the starts of an earlier process"
    assert (news, len(found)) == (["wake", "wake", "wake", "default/j", "no default/other"], 0)


def test_a_gang_is_marked_when_its_time_has_come() -> None:
    effects, gang = starting()
    found, news = reconciler(effects, gang)
    list(found.reconcile(DEFAULTS, [gang.id]))
    assert found.next_s == gang.wake_s
    list(found.reconcile(DEFAULTS))
    assert news == [gang.id]
    effects.time_s = gang.wake_s
    list(found.reconcile(DEFAULTS))
    assert news == [gang.id, gang.id]
    assert gang.state.stage is Stage.LEAVING


def test_an_error_about_one_gang_keeps_no_other_from_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    effects, gang = starting()
    _, odd = waiting()
    odd.id = "default/odd"
    found, news = reconciler(effects, odd, gang)
    for count in range(1, 4):
        list(found.reconcile(DEFAULTS, [odd.id, gang.id]))
        assert news == [gang.id] * count
    [record] = caplog.records
    assert odd.id in record.getMessage()


def test_the_starts_of_an_earlier_process_are_taken_up_once() -> None:
    effects = RecordedEffects()
    gang = GangLifecycle("default/j", effects)
    gang.see_job(replace(a_job("j", 2), outcome=Outcome.SUCCEEDED))
    found, _ = reconciler(effects, gang)
    list(found.reconcile(DEFAULTS))
    assert effects.of(OutcomeTold) == [OutcomeTold("default/j", Outcome.SUCCEEDED)]
    list(found.reconcile(DEFAULTS))
    assert len(effects.told) == 1


def test_only_a_gang_that_exists_can_be_marked_by_others() -> None:
    effects, gang = starting()
    found, news = reconciler(effects, gang)
    found.mark_known("default/gone")
    assert (news, len(found)) == ([], 0)
    found.mark_known(gang.id)
    assert (news, len(found)) == (["wake"], 1)
