"""The scheduler, simulated, against the rules written down alone (`rules.py`): the same start for every job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx import loop
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.readers import swf
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.workload import Workload
from tests.simulator.builders import KTH, starts
from tests.simulator.rules import Run, backfill

# The log's first 4,000 jobs, decided by an independent reading of the rules.
CASES = [("easy", "user"), ("easy-sjbf", "user"), ("easy", "exact"), ("easy-sjbf", "exact")]


def by_the_rules(workload: Workload, policy: str, estimates: str) -> dict[str, float]:
    runs = []
    for task in workload.tasks:
        job = task.job
        run_s = min(task.run_s, job.limit_s)
        size = dict(job.roles[0].shape.requests)["cpu"] // 1000
        runs.append(Run(job.id, job.submitted_s, run_s, size, run_s if estimates == "exact" else job.limit_s))
    return backfill(runs, 100, policy)


@pytest.mark.parametrize(("policy", "estimates"), [pytest.param(*case, marks=pytest.mark.long) for case in CASES])
def test_every_job_starts_when_the_rules_say(policy: str, estimates: str) -> None:
    workload = swf.read(KTH)
    schedule = play(workload, built_in(policy), loop.step, estimates=estimates)
    found, right = starts(schedule), by_the_rules(workload, policy, estimates)
    different = [job for job in right if found[job] != right[job]]
    assert len(different) <= len(right) // 1000, different[:10]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "estimates"), CASES)
def test_a_busy_month_starts_as_the_rules_say(policy: str, estimates: str) -> None:
    whole = swf.read(KTH)
    workload = replace(whole, tasks=whole.tasks[1000:1400])
    schedule = play(workload, built_in(policy), loop.step, estimates=estimates)
    assert starts(schedule) == by_the_rules(workload, policy, estimates)
    assert measure(schedule)["mean_bounded_slowdown"] > 1.5  # jobs did wait for each other
