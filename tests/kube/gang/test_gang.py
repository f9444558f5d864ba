"""`kube/gang/lifecycle/gang.py`: what the change of a member means to the gang and to its start."""

from __future__ import annotations

from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.lifecycle.stages import Leaving
from tests.kube.gang.recorded_effects import DEFAULTS, a_pod, running, starting, waiting


def test_a_gang_is_done_when_it_waits_and_has_no_object() -> None:
    _, gang = waiting()
    assert (gang.waits, gang.done) == (True, False)
    gang.lose_job("j")
    assert gang.done


def test_a_gang_that_runs_has_the_spec_and_the_record_of_its_start() -> None:
    _, gang = waiting()
    assert gang.spec is not None
    assert (gang.record, gang.queue) == (None, "default")
    _, gang = running()
    assert gang.state.parts is not None
    assert gang.spec is gang.state.parts.start.spec
    assert gang.record is gang.state.parts.start.record
    assert gang.elsewhere is None, "this cluster runs it"


def test_a_pod_that_has_ended_leaves_its_seat() -> None:
    _, gang = running()
    assert gang.state.parts is not None
    assert gang.state.parts.start.seats.taken == 2
    gang.see_pod(a_pod("a", job="j", node="n1", phase="Succeeded"))
    assert list(gang.objects.pods) == ["b"]
    assert gang.state.parts.start.seats.taken == 1


def test_the_node_of_a_refused_pod_is_avoided_by_the_next() -> None:
    effects, gang = running()
    assert gang.state.parts is not None
    gang.see_pod(a_pod("a", job="j", node="n1", phase="Failed", reason="UnexpectedAdmissionError"))
    assert gang.history.avoided == {"n1": effects.time_s + effects.timeouts.avoid_s}
    [role] = gang.state.parts.start.seats.roles
    assert role.shape.preferences == (gang.history.preference(effects.time_s),)
    assert ("j", "Rejected") in [(about, text.partition(":")[0]) for about, text in effects.reports]


def test_a_job_that_is_lost_while_the_gang_leaves_is_no_longer_awaited() -> None:
    effects, gang = starting()
    effects.time_s = gang.wake_s
    advance(gang, DEFAULTS)
    assert isinstance(gang.state, Leaving)
    assert not gang.state.departure.left, "the suspension of its Job is not answered yet"
    gang.lose_job("j")
    assert gang.state.departure.left
