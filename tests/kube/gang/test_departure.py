"""Preemption and departure, by themselves: marks before anything ends, budgets, and when it has left."""

from __future__ import annotations

from phalanx.kube.gang.departure import Departure, Preemption, PreemptionRequest
from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.read.records import PreemptionMark
from phalanx.model.event import Adopted
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.gang.recorded_effects import RecordedEffects, a_job, a_pod, started

WHY = Reason(code=ReasonCode.PREEMPTED, text="room for default/b")
BACK = Reason(code=ReasonCode.BACKOFF, text="too late")


def scene(*bare: str, job_runs: bool = False) -> tuple[RecordedEffects, GangStart, Preemption, list[PreemptionRequest]]:
    effects, marked = RecordedEffects(), list[PreemptionRequest]()
    start = started(effects, pods=1, nodes=["n1"])
    start.objects.jobs.clear()
    if job_runs:
        start.objects.see_job(a_job("j", 1, suspend=False))
    for name in bare:
        start.objects.pods[name] = a_pod(name, node="n1")
    return effects, start, Preemption(start, marked.append), marked


def decided(attempt: int = 1, grace_s: float | None = None) -> Preempt:
    return Preempt("default/j", attempt, "default/b", WHY, grace_s)


def test_jobs_need_no_mark_of_their_own() -> None:
    effects, _, preemption, marked = scene(job_runs=True)
    preemption.preempt(decided())
    assert effects.asked == []
    assert [request.mark.by for request in marked] == ["default/b"]


def test_a_decision_on_a_start_of_before_is_passed_over() -> None:
    effects, _, preemption, marked = scene(job_runs=True)
    preemption.preempt(decided(attempt=7))
    assert effects.asked == []
    assert marked == []


def test_budgets_then_all_marks_then_it_goes() -> None:
    effects, _, preemption, marked = scene("a", "b")
    preemption.preempt(decided())
    assert [one.what for one in effects.asked] == ["budgets"]
    effects.asked.pop().answered("")
    assert effects.names("mark") == ["a", "b"]
    effects.asked.pop(0).answered(WriteOutcome.DONE, "")
    assert marked == [], "one of two is marked"
    effects.answer("mark")
    assert len(marked) == 1


def test_what_a_budget_protects_stays_and_is_spared_for_a_while() -> None:
    effects, start, preemption, marked = scene("a")
    preemption.preempt(decided())
    effects.asked.pop().answered("the PodDisruptionBudget b allows 0 of 1 evictions now")
    assert marked == []
    assert effects.asked == []
    assert start.guarded_s == effects.time_s + effects.timeouts.guarded_s
    assert [told.job.preemptible for told in effects.of(Adopted)] == [False]


def test_a_refused_mark_is_tried_again_until_another_decision_comes() -> None:
    effects, _, preemption, marked = scene("a")
    preemption.preempt(decided())
    effects.asked.pop().answered("")
    effects.answer("mark", WriteOutcome.REFUSED, "no")
    effects.try_again()
    assert effects.names("mark") == ["a"]
    effects.answer("mark", WriteOutcome.REFUSED, "no")
    preemption.cancel()
    effects.try_again()
    assert effects.names("mark") == []
    assert marked == []


def test_where_marks_cannot_be_written_nobody_is_preempted() -> None:
    effects, start, preemption, marked = scene("a")
    preemption.preempt(decided())
    effects.asked.pop().answered("")
    for _ in range(3):
        effects.answer("mark", WriteOutcome.REFUSED, "a webhook is down")
        effects.try_again()
    assert effects.asked == []
    assert marked == []
    assert start.guarded_s == effects.time_s + effects.timeouts.guarded_s


def test_a_job_that_cannot_be_suspended_is_waited_for_only_while_a_pod_is_on_a_node() -> None:
    effects, start, _, _ = scene(job_runs=True)
    pod = start.objects.pods["p"] = a_pod("p", job="j")
    departure = Departure(start, BACK)
    departure.begin()
    for _ in range(3):
        assert not departure.left
        effects.answer("suspend", WriteOutcome.REFUSED, "a webhook is down")
        effects.try_again()
    assert departure.left
    assert departure.why.text == "too late; Job j could not be suspended: a webhook is down"
    start.objects.pods["p"] = a_pod("p", job="j", node="n1")
    assert not departure.left
    start.objects.end_pod(pod)
    departure.end()
    effects.answer("suspend", WriteOutcome.REFUSED, "a webhook is down")
    effects.try_again()
    assert effects.asked == [], "the next start takes care of it"


def test_bare_pods_are_evicted_once_each_and_again_when_refused() -> None:
    effects, start, _, _ = scene("a", "b")
    departure = Departure(start, WHY, mark=PreemptionMark(by="default/b", start_s=1.0), grace_s=5.0)
    departure.begin()
    departure.evict_bare()
    assert effects.names("evict") == ["a", "b"]
    assert not departure.left
    start.objects.pods.pop("b")
    effects.answer("evict", WriteOutcome.REFUSED, "a budget")
    effects.try_again()
    assert effects.names("evict") == ["a"], "of the other nothing is left"


def test_who_is_taken_back_evicts_nobody() -> None:
    effects, start, _, _ = scene("a")
    Departure(start, BACK).begin()
    assert effects.asked == []


def test_it_has_left_when_its_jobs_are_suspended_and_no_pod_is_left() -> None:
    effects, start, _, _ = scene(job_runs=True)
    pod = start.objects.pods["p"] = a_pod("p", job="j", node="n1")
    departure = Departure(start, BACK)
    departure.begin()
    start.objects.end_pod(pod)
    assert not departure.left, "the answer is not there yet"
    effects.answer("suspend", WriteOutcome.DONE, "exceeded quota")
    assert departure.left
    assert departure.why.text == "too late; the Job controller says: exceeded quota"


def test_a_resume_on_its_way_is_waited_for() -> None:
    _, start, _, _ = scene()
    start.resuming.add("j")
    departure = Departure(start, BACK)
    departure.begin()
    assert not departure.left
    start.resuming.clear()
    assert departure.left


def test_a_refused_suspend_is_sent_again_for_the_job_as_it_is_then() -> None:
    effects, start, _, _ = scene(job_runs=True)
    departure = Departure(start, BACK, hold="3 starts in a row failed")
    departure.begin()
    effects.answer("suspend", WriteOutcome.REFUSED, "a webhook is down")
    assert not departure.left
    start.objects.see_job(a_job("j", 1, suspend=False, parallelism=5))
    effects.try_again()
    assert [one.words[2] for one in effects.asked] == ["3 starts in a row failed"]


def test_a_short_grace_is_given_to_the_pods_of_jobs_by_eviction() -> None:
    effects, start, _, _ = scene(job_runs=True)
    start.objects.pods["p"] = a_pod("p", job="j", node="n1")
    departure = Departure(start, WHY, mark=PreemptionMark(by="default/b", start_s=1.0), grace_s=5.0)
    departure.begin()
    effects.answer("suspend")
    assert [(one.about, one.words) for one in effects.asked if one.what == "evict"] == [("p", (5.0,))]
