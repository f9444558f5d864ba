"""Whether intervals hold: a made-up log is played, jobs that wait are forecast, and their starts are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from phalanx import loop
from phalanx.cli.files.policy_file import setup_of
from phalanx.model.event import Event, Submitted
from phalanx.model.job import Job, Phase
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.model.reason import StartForecast
from phalanx.report.forecast import forecast
from phalanx.simulator.run.play import TimedApplier, play
from phalanx.simulator.workload import Task, Workload, machine, processors
from phalanx.state.cluster import Cluster
from tests.seeds import mostly_slow

PROCESSORS, JOBS = 32, 900
HPC_SITE = str(Path(__file__).parents[2] / "examples" / "simulate" / "hpc-site.yaml")


def tasks() -> Iterator[Task]:
    """Yield jobs of eight users, each with a habit: what they ask, how long they may run, and what part of it they do.
    The machine is nine tenths busy, in bursts."""
    random, now_s = Random(1), 0.0
    habits = [
        (random.choice((1, 2, 4, 8, 16)), random.choice((600.0, 3600.0, 14400.0)), random.uniform(-2.5, -0.5))
        for _ in range(8)
    ]
    for number in range(JOBS):
        now_s += random.expovariate(1 / 60.0) if random.random() < 0.7 else random.expovariate(1 / 1900.0)
        user = random.randrange(8)
        count, limit_s, habit = habits[user]
        run_s = max(1.0, min(limit_s, limit_s * 2.0 ** random.gauss(habit, 1.0)))
        job = Job(
            id=str(number),
            queue="",
            roles=(processors(count),),
            submitted_s=1.0 + now_s,
            user=f"user-{user}",
            limit_s=limit_s,
        )
        yield Task(job=job, run_s=run_s)


@dataclass
class Asking:
    """The scheduler, and what is forecast for every other job that waits, once half of the log is over."""

    told: dict[str, tuple[float, StartForecast]] = field(default_factory=dict)
    waited: int = 0

    def step(
        self, cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: TimedApplier
    ) -> Plan:
        plan = loop.step(cluster, events, policy, now_s, world)
        for event in events:
            if isinstance(event, Submitted) and int(event.job.id) >= JOBS // 2:
                record = cluster.jobs.get(event.job.id)
                if record is not None and record.phase is Phase.QUEUED:
                    self.waited += 1
                    if self.waited % 2 == 0:
                        self.told[event.job.id] = now_s, forecast(cluster, policy, now_s, [event.job.id])[event.job.id]
        return plan


@pytest.mark.parametrize("policy", mostly_slow(["easy", HPC_SITE], fast=0, sample=1))
def test_nine_of_ten_starts_are_within_the_interval_that_says_so(policy: str) -> None:
    asking = Asking()
    workload = Workload(name="made-up", nodes=(machine(PROCESSORS),), tasks=tuple(tasks()))
    schedule = play(workload, setup_of(policy), asking.step)
    starts = {fate.task.job.id: fate.start_s for fate in schedule.fates}
    held, half = [], []
    for job, (now_s, each) in asking.told.items():
        start_s = starts[job]
        assert start_s is not None
        if start_s - now_s >= 60.0:
            held.append(each.nearly_sure_s[0] <= start_s <= each.nearly_sure_s[1])
            half.append(each.likely_s[0] <= start_s <= each.likely_s[1])
    assert len(held) >= 40
    assert 0.84 <= sum(held) / len(held) <= 0.97  # of so few, 0.9 is seen within that
    assert 0.4 <= sum(half) / len(half) <= 0.7
