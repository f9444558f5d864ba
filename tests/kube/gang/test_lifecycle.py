"""Drive a gang through its stages by hand: its events for the core, its requested writes, and the allowed next
stages."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.gang.stages import Leaving, Stage
from phalanx.model.event import Finished, Refused, Released, Started, Submitted
from phalanx.model.job import Outcome, Placement, Slot
from phalanx.model.plan import Start
from tests.kube.gang.recorded_effects import RecordedEffects, a_job, a_pod, nodes

DEFAULTS = GangDefaults(largest={})
PLACED = (Placement(0, 0, "n1"), Placement(0, 1, "n1"))


def waiting() -> tuple[RecordedEffects, GangLifecycle]:
    effects = RecordedEffects()
    nodes(effects, "n1")
    gang = GangLifecycle("default/j", effects)
    gang.see_job(a_job("j", 2))
    gang.advance(DEFAULTS)
    return effects, gang


def starting() -> tuple[RecordedEffects, GangLifecycle]:
    effects, gang = waiting()
    gang.start(Start("default/j", 1, PLACED), gang=True)
    gang.see_job(a_job("j", 2, suspend=False))
    effects.answer("resume")
    gang.advance(DEFAULTS)
    return effects, gang


def running(defaults: GangDefaults = DEFAULTS) -> tuple[RecordedEffects, GangLifecycle]:
    effects, gang = starting()
    for name in ("a", "b"):
        gang.see_pod(a_pod(name, job="j"))
    gang.advance(defaults)
    effects.answer("bind")
    for name in ("a", "b"):
        gang.see_pod(a_pod(name, job="j", node="n1"))
    gang.advance(defaults)
    return effects, gang


def test_the_way_of_one_gang() -> None:
    effects, gang = running()
    assert [type(event) for event in effects.told] == [Submitted, Started]
    assert gang.stage is Stage.RUNNING
    assert gang.record is not None
    assert gang.record.count == 2
    assert ("j", "Scheduled: Bound its 2 pods, together, to n1") in effects.reports
    for name in ("a", "b"):
        gang.see_pod(a_pod(name, job="j", node="n1", phase="Succeeded"))
    gang.see_job(a_job("j", 2, suspend=False, completions=0))
    gang.lose_job("j")
    gang.advance(DEFAULTS)
    assert isinstance(effects.told[-1], Finished)
    assert gang.stage is Stage.WAITING
    assert gang.done


def test_one_of_its_name_that_was_over_before_is_no_part_of_how_it_ends() -> None:
    """The two objects have the same name and different kinds, and do not belong together."""
    effects = RecordedEffects()
    gang = GangLifecycle("default/j", effects)
    gang.see_job(replace(a_job("j", 2, uid="before"), outcome=Outcome.FAILED, created_s=1.0))
    gang.see_job(replace(a_job("j", 2), created_s=2.0))
    gang.advance(DEFAULTS)
    assert isinstance(effects.told[-1], Submitted)
    gang.see_job(replace(a_job("j", 2), created_s=2.0, outcome=Outcome.SUCCEEDED))
    gang.advance(DEFAULTS)
    assert effects.told[-1] == Finished("default/j", Outcome.SUCCEEDED)


def test_what_is_told_while_it_starts_is_not_forgotten_when_it_has_started() -> None:
    """A pod that comes meanwhile and fits nowhere would never be told why: the core does not repeat a reason."""
    effects, _ = starting()
    over = ("default/j", "waits no more")
    assert effects.reports.count(over) == 1
    effects, gang = running()
    assert effects.reports.count(over) == 1
    assert gang.stage is Stage.RUNNING


def test_a_start_that_was_decided_for_what_is_no_more_is_refused() -> None:
    effects, gang = starting()
    gang.start(Start("default/j", 2, PLACED), gang=True)
    assert [event.attempt for event in effects.of(Refused)] == [2]


def test_a_refused_resume_takes_the_start_back_and_rests() -> None:
    effects, gang = waiting()
    gang.start(Start("default/j", 1, PLACED), gang=True)
    effects.answer("resume", WriteOutcome.REFUSED, "a webhook is down")
    gang.advance(DEFAULTS)
    refused = effects.of(Refused)[-1]
    assert gang.stage is Stage.WAITING
    assert "a webhook is down" in refused.reason.text
    assert refused.not_before_s == effects.time_s + effects.timeouts.backoff_s
    assert gang.history.failures == 1


def test_an_answer_to_a_start_of_before_means_nothing_to_the_next() -> None:
    effects, gang = waiting()
    gang.start(Start("default/j", 1, PLACED), gang=True)
    late = effects.asked.pop()
    gang.lose_job("j")
    gang.advance(DEFAULTS)
    gang.see_job(a_job("j", 2))
    gang.advance(DEFAULTS)
    gang.start(Start("default/j", 2, PLACED), gang=True)
    late.answered(WriteOutcome.REFUSED, "too late")
    assert gang.stage is Stage.STARTING


def test_the_barrier_has_a_time() -> None:
    effects, gang = starting()
    assert gang.wake_s == effects.time_s + effects.timeouts.barrier_s(2)
    effects.time_s = gang.wake_s
    gang.advance(DEFAULTS)
    assert gang.stage is Stage.LEAVING
    assert effects.names("suspend") == ["j"]
    gang.see_job(a_job("j", 2))
    effects.answer("suspend")
    gang.advance(DEFAULTS)
    assert gang.stage is Stage.WAITING
    assert effects.of(Refused)[-1].reason.numbers["needed"] == 2


def test_after_three_starts_whose_pods_were_not_ready_it_is_held() -> None:
    defaults = GangDefaults(largest={}, start_timeout_s=lambda queue: 10.0)
    effects, gang = running(defaults)
    gang.history.timeouts = 2
    effects.time_s += 10.0
    gang.advance(defaults)
    assert isinstance(gang.state, Leaving)
    assert [one.words[2] for one in effects.asked if one.what == "suspend"] == ["3 starts in a row came to nothing"]
    assert gang.history.timeouts == 0
    assert gang.history.avoided == {"n1": inf}


def test_placements_for_who_waits_are_given_back() -> None:
    effects, gang = waiting()
    gang.place(PLACED[:1])
    assert effects.of(Released) == [Released("default/j", (Slot(0, 0),))]


def test_how_it_ended() -> None:
    effects, gang = waiting()
    gang.see_job(a_job("j", 2))
    gang.lose_job("j")
    gang.advance(DEFAULTS)
    assert effects.of(Finished) == [Finished("default/j", Outcome.DELETED)]
