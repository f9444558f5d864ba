"""A live job in the simulated cluster."""

from __future__ import annotations

from dataclasses import replace

from phalanx.model.job import Dependency, GangSize, Outcome, Phase, Placement, Slot
from phalanx.simulator.cluster.listing import UnfinishedJob, everything
from phalanx.simulator.schedule import Fate
from tests.simulator.builders import task


def live(name: str = "a", size: int = 4, gang: GangSize = GangSize.ELASTIC, **more: object) -> UnfinishedJob:
    one = task(name, 0.0, 10.0, size, **more)
    job = replace(one.job, size=gang, roles=(replace(one.job.roles[0], count=size, minimum=size),))
    return UnfinishedJob(job, Fate(0, replace(one, job=job)))


def test_each_pod_is_a_slot() -> None:
    job = live()
    assert (job.pods, job.slots()) == (4, [Slot(0, ordinal) for ordinal in range(4)])


def test_a_job_that_has_a_part_of_its_pods_is_slower() -> None:
    job = live()
    job.placed = tuple(Placement(slot.role, slot.ordinal, "n") for slot in job.slots())
    assert (job.pace(), job.has_minimum()) == (1.0, True)
    job.placed = ()
    assert (job.pace(), job.has_minimum()) == (0.0, False)


def test_only_elastic_jobs_miss_pods() -> None:
    every = UnfinishedJob.slots(live(gang=GangSize.FIXED_AT_START))
    assert live(gang=GangSize.FIXED_AT_START).missing() == ()
    job = live()
    assert job.missing() == tuple(every)
    job.placed = (Placement(every[0].role, every[0].ordinal, "n"),)
    job.open = dict.fromkeys(every[1:2])
    assert job.missing() == tuple(every[2:])
    job.open = dict.fromkeys(every[1:])
    assert job.missing() == ()
    assert Slot(0, 0) in every


def test_an_estimate_is_the_limit_by_which_the_scheduler_plans_and_stops_nobody() -> None:
    job = live()
    job.expect(5.0)
    assert (job.job.limit_s, job.limit_s) == (5.0, 5.0)
    without = live()
    assert without.stop_s() is None


def test_a_scheduler_that_begins_is_told_of_all() -> None:
    runs, waits = live("runs"), live("waits", after=(Dependency(job="done"), Dependency(job="other")))
    runs.phase = Phase.RUNNING
    found = everything((), (), (), [waits, runs], {"done": Outcome.SUCCEEDED})
    assert sorted(type(one).__name__ for one in found) == ["Adopted", "OutcomeTold", "Submitted"]
    assert found[0] == runs.adoption()
