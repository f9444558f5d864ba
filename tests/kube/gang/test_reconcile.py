"""`kube/gang/lifecycle/reconcile.py`: drive a gang through its stages by hand, and read its events for the core."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.lifecycle.stages import Leaving, Stage
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.model.event import Finished, Refused, Started, Submitted
from phalanx.model.job import Outcome
from tests.kube.gang.recorded_effects import DEFAULTS, RecordedEffects, a_job, a_pod, running, starting, waiting


def test_the_way_of_one_gang() -> None:
    effects, gang = running()
    assert [type(event) for event in effects.told] == [Submitted, Started]
    assert gang.state.stage is Stage.RUNNING
    assert gang.record is not None
    assert gang.record.count == 2
    assert ("j", "Scheduled: Bound its 2 pods, together, to n1") in effects.reports
    for name in ("a", "b"):
        gang.see_pod(a_pod(name, job="j", node="n1", phase="Succeeded"))
    gang.see_job(a_job("j", 2, suspend=False, completions=0))
    gang.lose_job("j")
    advance(gang, DEFAULTS)
    assert isinstance(effects.told[-1], Finished)
    assert gang.state.stage is Stage.WAITING
    assert gang.done


def test_one_of_its_name_that_was_over_before_is_no_part_of_how_it_ends() -> None:
    """The two objects have the same name and different kinds, and do not belong together."""
    effects = RecordedEffects()
    gang = GangLifecycle("default/j", effects)
    gang.see_job(replace(a_job("j", 2, uid="before"), outcome=Outcome.FAILED, created_s=1.0))
    gang.see_job(replace(a_job("j", 2), created_s=2.0))
    advance(gang, DEFAULTS)
    assert isinstance(effects.told[-1], Submitted)
    gang.see_job(replace(a_job("j", 2), created_s=2.0, outcome=Outcome.SUCCEEDED))
    advance(gang, DEFAULTS)
    assert effects.told[-1] == Finished("default/j", Outcome.SUCCEEDED)


def test_the_barrier_has_a_time() -> None:
    effects, gang = starting()
    assert gang.wake_s == effects.time_s + effects.timeouts.barrier_s(2)
    effects.time_s = gang.wake_s
    advance(gang, DEFAULTS)
    assert gang.state.stage is Stage.LEAVING
    assert effects.names("suspend") == ["j"]
    gang.see_job(a_job("j", 2))
    effects.answer("suspend")
    advance(gang, DEFAULTS)
    assert gang.state.stage is Stage.WAITING
    assert effects.of(Refused)[-1].reason.numbers["needed"] == 2


def test_after_three_starts_whose_pods_were_not_ready_it_is_held() -> None:
    defaults = GangDefaults(largest=dict, start_timeout_s=lambda queue: 10.0)
    effects, gang = running(defaults)
    gang.history.timeouts = 2
    effects.time_s += 10.0
    advance(gang, defaults)
    assert isinstance(gang.state, Leaving)
    assert [one.words[2] for one in effects.asked if one.what == "suspend"] == ["3 starts in a row failed"]
    assert gang.history.timeouts == 0
    assert gang.history.avoided == {"n1": inf}


def test_how_it_ended() -> None:
    effects, gang = waiting()
    gang.see_job(a_job("j", 2))
    gang.lose_job("j")
    advance(gang, DEFAULTS)
    assert effects.of(Finished) == [Finished("default/j", Outcome.DELETED)]
