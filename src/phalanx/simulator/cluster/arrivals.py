"""The submissions of a simulated cluster: when each job arrives, and the job that the scheduler is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nextafter
from typing import Any

from phalanx.model.job import Job
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.estimate import Estimator
from phalanx.simulator.schedule.schedule import Fate
from phalanx.simulator.workload.formula import Formula
from phalanx.simulator.workload.rounds import Rounds


class Arrivals:
    """`checkpoint_s`: the interval at which jobs save their work; None: never. `counted`: the resource, and its unit,
    by which rounds and formulas measure the size of a job."""

    def __init__(
        self,
        fates: Sequence[Fate],
        agenda: Agenda[Any],
        estimator: Estimator,
        *,
        checkpoint_s: float | None,
        rounds: Rounds | None,
        formula: Formula | None,
        counted: tuple[str, int],
    ) -> None:
        self._agenda, self._estimator, self._checkpoint_s = agenda, estimator, checkpoint_s
        self._rounds, self._formula, self._counted = rounds, formula, counted
        self._latest_s = -inf
        self._followers: dict[str, list[Fate]] = {}  # job -> jobs that its user submits after its end
        for fate in fates:
            if fate.task.follows:
                self._followers.setdefault(fate.task.follows, []).append(fate)

    def job_of(self, fate: Fate) -> Job:
        """Return the job as it is submitted now."""
        job = self._estimator.told(fate.task)
        if job.submitted_s <= self._latest_s:  # keep the trace's order at equal times; the core would use the names
            job = replace(job, submitted_s=nextafter(self._latest_s, inf))
        self._latest_s = job.submitted_s
        if self._checkpoint_s:
            job = replace(job, checkpoint_s=self._checkpoint_s)
        if self._rounds is not None:
            job = replace(job, priority=self._rounds.priority(fate.task, fate.work_s, *self._counted))
        if self._formula is not None:
            job = replace(job, priority=self._formula.priority(job, *self._counted))
        return job

    def expect_followers(self, job: str) -> None:
        """Schedule the submissions of the jobs that follow this one, which has ended, each after its user's think
        time."""
        now_s = self._agenda.now_s
        for fate in self._followers.pop(job, ()):
            task = fate.task
            at_s = max(now_s, task.job.submitted_s) if task.think_s is None else now_s + task.think_s
            fate.task = replace(task, job=replace(task.job, submitted_s=at_s))
            self._agenda.put(at_s, AgendaKind.SUBMISSION, fate)
