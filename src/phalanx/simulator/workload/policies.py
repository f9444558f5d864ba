"""Queue orders by a formula of a job's estimate, size and submission time.

*r* is the estimate of the run time in seconds (the requested limit, or the estimate of `--estimates`), *n* the size in
processors or GPUs, *s* the submission in seconds since the beginning of the trace. The job with the lowest value comes
first:


    area  r n                        SAF, smallest area first (Carastan-Santos, de Camargo, Trystram, Zrigui, CCGRID'19)
    f1    log10(r) n + 870 log10(s)  F1, found by simulation and regression (Carastan-Santos, de Camargo, SC'17)


Neither value changes while the job waits. So the value becomes the job's priority, and the queue is ordered by
priority. A large job may wait as long as smaller jobs arrive.

Preemption in rounds, by the remaining work of a job.

A round ends whenever a job is submitted or ends. Then all running jobs are saved and stopped, and queued again by their
remaining work. The scheduler fills the cluster again: the jobs with the least remaining work run, the others were
preempted. Only the world knows the remaining work, because no scheduler is given true run times. So the world sets it
as the job's priority, as an operator would.

Saving and restarting costs a job the last seconds of its work in the round (`Task.restart_s`), whether it continues or
not. The cost of a round grows with the running jobs, so this is for clusters with hundreds of jobs, not thousands.

The two orders are those of Muri's simulator (Zhao et al., SIGCOMM'22): SRTF and SRSF."""

from __future__ import annotations

from enum import StrEnum
from math import log10

from phalanx.model.job import Job
from phalanx.simulator.workload.workload import Task, of_resource

PER_UNIT = 1_000_000  # priorities are integers; with this factor F1 distinguishes submissions a second apart for years
LAST = -(2**62)  # the priority of jobs without an estimate


class Formula(StrEnum):
    """A formula; the job with the lowest value comes first."""

    AREA = "area"
    F1 = "f1"

    def priority(self, job: Job, counted: str, unit: int) -> int:
        """Return the priority of a job as it is submitted to the scheduler. `unit`: the amount of the resource
        `counted` in one processor or GPU. Jobs without an estimate come last, in the order of their submission."""
        estimate_s = job.limit_s if job.estimate_s is None else job.estimate_s
        if estimate_s is None:
            return LAST
        size = of_resource(job.roles, counted) / unit
        if self is Formula.AREA:
            return -round(estimate_s * size * PER_UNIT)
        return -round((log10(max(estimate_s, 1.0)) * size + 870 * log10(max(job.submitted_s, 1.0))) * PER_UNIT)


PER_S = 1000  # priorities are integers, in milliseconds


class Rounds(StrEnum):
    """The order of jobs in a round; the lowest value comes first."""

    TIME = "remaining-time"  # SRTF: the remaining run time
    SERVICE = "remaining-service"  # SRSF: the remaining run time times the job's amount of the counted resource

    def priority(self, task: Task, left_s: float, counted: str, unit: int) -> int:
        size = of_resource(task.job.roles, counted) / unit if self is Rounds.SERVICE else 1.0
        return -round(left_s * size * PER_S)
