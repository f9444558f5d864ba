"""`kube/gang/lifecycle/interruptions.py`: each reason why a started gang must not go on, found without an effect."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from phalanx.dialects.frame.dialect import Claim
from phalanx.kube.gang.lifecycle import interruptions
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.gang.recorded_effects import DEFAULTS, a_job, a_pod, starting

WHY = Reason(code=ReasonCode.HELD, text="its queue is stopped")


def test_only_a_claim_that_drains_stops_a_start() -> None:
    assert interruptions.drain_reason(None) is None
    assert interruptions.drain_reason(Claim(queue="a/q", blocked=WHY)) is None
    assert interruptions.drain_reason(Claim(queue="a/q", blocked=WHY, drained=True)) is WHY


def test_a_job_that_is_being_resumed_is_not_suspended_by_somebody_else() -> None:
    _, gang = starting()
    assert gang.state.parts is not None
    assert interruptions.interruption(gang.state.parts, None, DEFAULTS) is None
    gang.see_job(a_job("j", 2))
    found = interruptions.interruption(gang.state.parts, None, DEFAULTS)
    assert found is not None
    assert (found.why.code, found.evicts) == (ReasonCode.HELD, False)
    gang.state.parts.start.resuming.add("j")
    assert interruptions.interruption(gang.state.parts, None, DEFAULTS) is None


def test_a_job_whose_size_was_changed_is_queued_again() -> None:
    _, gang = starting()
    assert gang.state.parts is not None
    found = interruptions.interruption(gang.state.parts, WHY, DEFAULTS)
    assert found is not None
    assert (found.why, found.evicts) == (WHY, False)


def test_a_start_loses_a_job_that_asks_for_fewer_pods() -> None:
    _, gang = starting()
    assert gang.state.parts is not None
    assert interruptions.loss(gang.state.parts) is None
    gang.see_job(a_job("j", 1, suspend=False))
    found = interruptions.loss(gang.state.parts)
    assert found is not None
    assert found.why.text == "its start was taken back: its member j now requests 1 pods instead of 2"
    gang.lose_job("j")
    found = interruptions.loss(gang.state.parts)
    assert found is not None
    assert found.why.text == "its start was taken back: its member j was deleted"


def test_a_start_in_a_cluster_that_the_claim_leaves_out_is_forbidden() -> None:
    _, gang = starting()
    assert gang.state.parts is not None
    east = Claim(queue="a/q", clusters=("east",))
    assert interruptions.forbidden_cluster(gang.state.parts, east) is None, "it starts in this cluster"
    start = gang.state.parts.start
    start.record = msgspec.structs.replace(start.record, cluster="west")
    assert interruptions.forbidden_cluster(gang.state.parts, None) is None
    assert interruptions.forbidden_cluster(gang.state.parts, Claim(queue="a/q", clusters=("west",))) is None
    found = interruptions.forbidden_cluster(gang.state.parts, east)
    assert found is not None
    assert found.why.text == "cluster west was not nominated for it"


def test_a_dialect_stops_only_gangs_of_its_own_queues() -> None:
    _, gang = starting()
    assert gang.state.parts is not None
    stopped = Claim(queue="default", blocked=WHY, drained=True)
    defaults = replace(DEFAULTS, dialects=True, claim=lambda said: stopped)
    assert interruptions.interruption(gang.state.parts, None, defaults) is None
    start = gang.state.parts.start
    start.spec = replace(start.spec, job=replace(start.spec.job, queue="kueue/default"))
    assert interruptions.interruption(gang.state.parts, None, DEFAULTS) is None, "no dialect is enabled"
    found = interruptions.interruption(gang.state.parts, None, defaults)
    assert found is not None
    assert found.why is WHY


def test_a_start_of_before_that_needed_more_pods_is_not_continued() -> None:
    _, gang = starting()
    assert gang.state.parts is not None
    assert interruptions.missing_pods(gang.state.parts) is None
    start = gang.state.parts.start
    start.record = msgspec.structs.replace(start.record, count=5)
    found = interruptions.missing_pods(gang.state.parts)
    assert found is not None
    assert found.why.text == "its start was taken back: 3 of its pods will not be created"
    gang.see_pod(a_pod("a", job="j", phase="Succeeded"))
    assert interruptions.missing_pods(gang.state.parts) is None, "a Job with a succeeded pod is complete"
