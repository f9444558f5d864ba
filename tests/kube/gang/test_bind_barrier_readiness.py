"""The pods of a bound gang become ready one by one, and have until a deadline."""

from __future__ import annotations

from phalanx.kube.gang.seats.bind_barrier import Readiness
from tests.kube.gang.recorded_effects import a_pod

READY = [{"type": "Ready", "status": "True"}]


def test_the_last_pod_that_becomes_ready_ends_the_deadline() -> None:
    readiness = Readiness(100.0, ["a", "b"])
    assert readiness.ends_s(10.0) == 110.0
    assert readiness.ends_s(None) == 0.0, "the queue sets no limit"
    assert not readiness.see(a_pod("a")), "it is not ready"
    assert not readiness.see(a_pod("a", conditions=READY)), "b is not ready yet"
    assert readiness.see(a_pod("b", conditions=READY))
    assert readiness.ends_s(10.0) == 0.0
    assert not readiness.see(a_pod("b", conditions=READY)), "this was reported once"


def test_a_lost_pod_is_not_waited_for() -> None:
    readiness = Readiness(100.0, ["a", "b"])
    readiness.lose("a")
    assert readiness.take_late() == ["b"]
    assert readiness.take_late() == []
