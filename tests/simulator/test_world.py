"""`simulator/cluster/world.py`: plans and events of whole runs."""

from __future__ import annotations

from phalanx.model.job import Slot
from phalanx.model.plan import Place, Plan, Preempt, Shrink, Wait
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.arrivals import estimator
from phalanx.simulator.cluster.world import SimulatedWorld
from phalanx.simulator.workload import machine
from tests.simulator.builders import played, task


def test_jobs_of_no_queue_share_as_if_they_were_in_one() -> None:
    schedule = played(task("a", 0, 10), task("b", 0, 10), policy="fair")
    assert all(fate.end_s is not None for fate in schedule.fates)


def test_what_is_decided_of_a_job_that_is_over_comes_too_late() -> None:
    """The scheduler has not heard yet that it ended."""
    world = SimulatedWorld([], (machine(4),), (), estimator=estimator("user"))
    why = Reason(code=ReasonCode.NO_ROOM, text="no room")
    late = Wait("a", why), Place("a", ()), Preempt("a", 1, "b", why), Shrink("a", (Slot(0, 0),), "b", why)
    world.apply(Plan(actions=late))
    assert world.jobs.live == {}
