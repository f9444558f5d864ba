"""Queue orders by a formula of what is known of a job when it is submitted: its estimate, its size, its submission.

*r* is the estimate of the run time in seconds (what the user asked for, or what `--estimates` tells the scheduler), *n*
the size in processors or GPUs, *s* the submission in seconds since the beginning of the trace. The least comes first:

    area  r n                        SAF, smallest area first (Carastan-Santos, de Camargo, Trystram, Zrigui, CCGRID'19)
    f1    log10(r) n + 870 log10(s)  F1, found by simulation and regression (Carastan-Santos, de Camargo, SC'17)

Neither changes while the job waits, so the value is told to the scheduler as the job's priority, which a queue in
order of priority sorts by; nothing keeps a large job from waiting for as long as smaller ones come."""

from __future__ import annotations

from enum import StrEnum
from math import log10

from phalanx.model.job import Job
from phalanx.simulator.workload.workload import of_resource

PER_UNIT = 1_000_000  # a priority is a whole number; at this, F1 tells submissions a second apart for years
LAST = -(2**62)  # of jobs without an estimate


class Formula(StrEnum):
    """Least first."""

    AREA = "area"
    F1 = "f1"

    def priority(self, job: Job, counted: str, unit: int) -> int:
        """Return the priority of a job that is told as this one; `unit`: how many of `counted` one processor (GPU)
        is. Jobs without an estimate come last, in the order of their submission."""
        estimate_s = job.limit_s if job.estimate_s is None else job.estimate_s
        if estimate_s is None:
            return LAST
        size = of_resource(job.roles, counted) / unit
        if self is Formula.AREA:
            return -round(estimate_s * size * PER_UNIT)
        return -round((log10(max(estimate_s, 1.0)) * size + 870 * log10(max(job.submitted_s, 1.0))) * PER_UNIT)
