"""Preemption in rounds, by what is left of a job.

A round ends whenever jobs are submitted or over. Then all that runs is saved and stopped, stands in line again by
what is left of it, and the scheduler fills the cluster anew: those with least left run, and the others were preempted.
What is left is known to the world alone (no scheduler is told how long a job runs), so the world says it as an
operator would: by the job's priority.

Saving and starting again costs a job the last seconds of what it did in the round (`Task.restart_s`), whether it goes
on or not. A round costs all that runs, so this is for clusters of some hundred jobs, not for thousands.

The two orders are those of Muri's simulator (Zhao et al., SIGCOMM'22): SRTF and SRSF."""

from __future__ import annotations

from enum import StrEnum

from phalanx.simulator.workload.workload import Task, of_resource

PER_S = 1000  # a priority is a whole number: of milliseconds


class Rounds(StrEnum):
    """Least first."""

    TIME = "remaining-time"  # SRTF: how long it still runs
    SERVICE = "remaining-service"  # SRSF: times how much of the counted resource it holds

    def priority(self, task: Task, left_s: float, counted: str, unit: int) -> int:
        size = of_resource(task.job.roles, counted) / unit if self is Rounds.SERVICE else 1.0
        return -round(left_s * size * PER_S)
