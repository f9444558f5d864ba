"""`kube/routing/watch.py`: when gangs are to draw their conclusions again though nothing of them changes."""

from __future__ import annotations

from phalanx.kube.routing.watch import GangTimers


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
