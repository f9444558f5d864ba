"""`kube/gang/lifecycle/requeue.py`: when a gang that left its nodes is queued again, and when it may start again."""

from __future__ import annotations

from phalanx.kube.gang.departure import TakeBack
from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.lifecycle import decisions
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.lifecycle.requeue import take_back
from phalanx.kube.gang.lifecycle.stages import Stage
from phalanx.model.event import Refused
from phalanx.model.plan import Preempt, Start
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.gang.recorded_effects import DEFAULTS, PLACED, RecordedEffects, a_job, a_pod, nodes, running, waiting


def test_a_refused_resume_takes_the_start_back_and_rests() -> None:
    effects, gang = waiting()
    decisions.start(gang, Start("default/j", 1, PLACED), whole=True)
    effects.answer("resume", WriteOutcome.REFUSED, "a webhook is down")
    advance(gang, DEFAULTS)
    refused = effects.of(Refused)[-1]
    assert gang.state.stage is Stage.WAITING
    assert "a webhook is down" in refused.reason.text
    assert refused.not_before_s == effects.time_s + effects.timeouts.backoff_s
    assert gang.history.failures == 1


def test_a_preempted_gang_is_queued_without_a_pause_when_its_last_pod_is_gone() -> None:
    effects, gang = running()
    why = Reason(code=ReasonCode.PREEMPTED, text="it gives way")
    decisions.preempt(gang, Preempt("default/j", 1, "default/b", why))
    assert effects.names("suspend") == ["j"]
    gang.see_job(a_job("j", 2))
    effects.answer("suspend")
    advance(gang, DEFAULTS)
    assert gang.state.stage is Stage.LEAVING
    for name in ("a", "b"):
        gang.lose_pod(a_pod(name, job="j", node="n1"), gone=True)
    advance(gang, DEFAULTS)
    assert gang.state.stage is Stage.WAITING
    assert [(event.reason.code, event.not_before_s) for event in effects.of(Refused)] == [(ReasonCode.PREEMPTED, 0.0)]
    assert gang.history.failures == 0


def test_a_preemption_of_an_earlier_start_is_passed_over() -> None:
    effects, gang = running()
    why = Reason(code=ReasonCode.PREEMPTED, text="it gives way")
    decisions.preempt(gang, Preempt("default/j", 7, "default/b", why))
    assert gang.state.stage is Stage.RUNNING
    assert effects.names("suspend") == []


def test_bare_pods_on_nodes_leave_only_if_they_are_evicted() -> None:
    effects = RecordedEffects()
    nodes(effects, "n1")
    gang = GangLifecycle("default/p", effects)
    gang.see_pod(a_pod("p"))
    advance(gang, DEFAULTS)
    decisions.start(gang, Start("default/p", 1, PLACED[:1]), whole=True)
    gang.see_pod(a_pod("p", node="n1"))
    advance(gang, DEFAULTS)
    assert gang.state.parts is not None
    why = Reason(code=ReasonCode.HELD, text="it is held")
    effects.time_s += 1.0
    take_back(gang, gang.state.parts, TakeBack(why))
    assert (gang.state.stage, gang.state.parts.start.since_s) == (Stage.RUNNING, effects.time_s)
    take_back(gang, gang.state.parts, TakeBack(why, evicts=True))
    assert gang.state.stage is Stage.LEAVING
    assert effects.names("evict") == ["p"]
