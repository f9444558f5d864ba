"""`kube/gang/lifecycle/decisions.py`: what a decision does to a gang in each stage."""

from __future__ import annotations

from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.lifecycle import decisions
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.lifecycle.stages import Stage
from phalanx.model.event import Refused, Released
from phalanx.model.job import Slot
from phalanx.model.plan import Start
from tests.kube.gang.recorded_effects import DEFAULTS, PLACED, a_job, running, starting, waiting


def test_what_is_told_while_it_starts_is_not_forgotten_when_it_has_started() -> None:
    """A pod that comes meanwhile and fits nowhere would never be told why: the core does not repeat a reason."""
    effects, _ = starting()
    over = ("default/j", "waits no more")
    assert effects.reports.count(over) == 1
    effects, gang = running()
    assert effects.reports.count(over) == 1
    assert gang.state.stage is Stage.RUNNING


def test_a_start_that_was_decided_for_what_is_no_more_is_refused() -> None:
    effects, gang = starting()
    decisions.start(gang, Start("default/j", 2, PLACED), whole=True)
    assert [event.attempt for event in effects.of(Refused)] == [2]


def test_an_answer_to_a_start_of_before_means_nothing_to_the_next() -> None:
    effects, gang = waiting()
    decisions.start(gang, Start("default/j", 1, PLACED), whole=True)
    late = effects.asked.pop()
    gang.lose_job("j")
    advance(gang, DEFAULTS)
    gang.see_job(a_job("j", 2))
    advance(gang, DEFAULTS)
    decisions.start(gang, Start("default/j", 2, PLACED), whole=True)
    late.answered(WriteOutcome.REFUSED, "too late")
    assert gang.state.stage is Stage.STARTING


def test_placements_for_who_waits_are_given_back() -> None:
    effects, gang = waiting()
    decisions.place(gang, PLACED[:1])
    assert effects.of(Released) == [Released("default/j", (Slot(0, 0),))]
