"""Queue orders by a formula of a job's estimate, size and submission time.

*r* is the estimate of the run time in seconds (the requested limit, or the estimate of `--estimates`), *n* the size in
processors or GPUs, *s* the submission in seconds since the beginning of the trace. The job with the lowest value comes
first:


    area  r n                        SAF, smallest area first (Carastan-Santos, de Camargo, Trystram, Zrigui, CCGRID'19)
    f1    log10(r) n + 870 log10(s)  F1, found by simulation and regression (Carastan-Santos, de Camargo, SC'17)


Neither value changes while the job waits. So the value becomes the job's priority, and the queue is ordered by
priority. A large job may wait as long as smaller jobs arrive."""

from __future__ import annotations

from enum import StrEnum
from math import log10

from phalanx.model.job import Job
from phalanx.simulator.workload.workload import of_resource

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
