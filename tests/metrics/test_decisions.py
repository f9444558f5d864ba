"""Metrics count each cycle's decisions, at a cost that does not depend on the number of pending jobs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from phalanx.loop import step
from phalanx.metrics.decisions import Decisions, Measured
from phalanx.model.event import Event, Finished, NodeSeen, QueueSeen, Refused, Submitted
from phalanx.model.job import Outcome
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role


class Script:
    """A world that returns the given events."""

    def __init__(self) -> None:
        self.news: list[Event] = []

    def events(self) -> Sequence[Event]:
        told, self.news = self.news, []
        return told

    def apply(self, plan: Plan) -> None: ...
    async def wait(self, timeout_s: float | None) -> None: ...


class Scene:
    def __init__(self, book: Cluster | None = None) -> None:
        self.script, self.book, self.decisions = Script(), book or Cluster(), Decisions()
        ticks = count()
        self.world = Measured(self.script, self.book, self.decisions, lambda: float(next(ticks)))
        self.play(QueueSeen(Queue(name="q")), NodeSeen(node("a", cpu=4000)))

    def play(self, *events: Event, now_s: float = 100.0) -> None:
        self.script.news += events
        step(self.book, self.world.events(), Policy(), now_s, self.world)


def test_starts_pods_and_how_long_they_waited() -> None:
    scene = Scene()
    small = [job(f"j{number}", role("w", 2, cpu=1000), queue="q", at=40.0) for number in range(3)]
    scene.play(*map(Submitted, small))
    found = scene.decisions
    assert found.made["start", "q"] == 2
    assert found.pods["q"] == 4
    assert (found.waited_s["q"].count, found.waited_s["q"].total) == (2, 120.0)
    scene.play(Finished("j0", Outcome.SUCCEEDED), Finished("never-seen"))
    assert found.ended == {("succeeded", "q"): 1}
    assert found.made["start", "q"] == 3


def test_a_start_that_came_to_nothing() -> None:
    scene = Scene()
    scene.play(Submitted(job("j", role("w", 1, cpu=1000), queue="q")))
    scene.play(Refused("j", 1, Reason(code=ReasonCode.BACKOFF, text="a webhook"), 900.0))
    assert scene.decisions.refused == {"Backoff": 1}


def test_a_queue_that_is_not_there_makes_no_series_of_its_own() -> None:
    scene = Scene()
    strangers = (job(f"j{number}", role("w", 1, cpu=1000), queue=f"typo-{number}") for number in range(9))
    scene.play(*map(Submitted, strangers))
    assert {queue for _, queue in scene.decisions.made} <= {"", "q"}


def test_every_phase_of_every_cycle_is_timed() -> None:
    scene = Scene()
    for _ in range(4):
        scene.play()
    phases = scene.decisions.cycle_s
    assert {phase: spread.count for phase, spread in phases.items()} == {"observe": 5, "decide": 5, "apply": 5}
    assert all(spread.total == 5.0 for spread in phases.values())


class Guarded(dict[str, Any]):
    """Records that may be looked up by name, and not gone through."""

    guarded = False

    def _refuse(self) -> Any:
        assert not self.guarded, "measuring a cycle went through all jobs"

    def __iter__(self) -> Any:
        self._refuse()
        return super().__iter__()

    def items(self) -> Any:
        self._refuse()
        return super().items()

    def values(self) -> Any:
        self._refuse()
        return super().values()


def test_measuring_a_cycle_never_goes_through_who_waits() -> None:
    scene = Scene()
    scene.play(*(Submitted(job(f"j{number}", role("w", 9, cpu=1000), queue="q")) for number in range(50)))
    guarded = Guarded(scene.book.jobs)
    scene.book.jobs, Guarded.guarded = guarded, True
    try:
        scene.world.events()
        scene.world.apply(Plan(actions=()))
        with pytest.raises(AssertionError):
            list(scene.book.jobs.values())  # the guard does guard
    finally:
        Guarded.guarded = False
