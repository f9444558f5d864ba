"""Preemption in rounds, by the remaining work of a job.

A round ends whenever a job is submitted or ends. Then all running jobs are saved and stopped, and queued again by their
remaining work. The scheduler fills the cluster again: the jobs with the least remaining work run, the others were
preempted. Only the world knows the remaining work, because no scheduler is given true run times. So the world sets it
as the job's priority, as an operator would.

Saving and restarting costs a job the last seconds of its work in the round (`Task.restart_s`), whether it continues or
not. The cost of a round grows with the running jobs, so this is for clusters with hundreds of jobs, not thousands.

The two orders are those of Muri's simulator (Zhao et al., SIGCOMM'22): SRTF and SRSF."""

from __future__ import annotations

from enum import StrEnum

from phalanx.simulator.workload.workload import Task, of_resource

PER_S = 1000  # priorities are integers, in milliseconds


class Rounds(StrEnum):
    """The order of jobs in a round; the lowest value comes first."""

    TIME = "remaining-time"  # SRTF: the remaining run time
    SERVICE = "remaining-service"  # SRSF: the remaining run time times the job's amount of the counted resource

    def priority(self, task: Task, left_s: float, counted: str, unit: int) -> int:
        size = of_resource(task.job.roles, counted) / unit if self is Rounds.SERVICE else 1.0
        return -round(left_s * size * PER_S)
