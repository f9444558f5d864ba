"""Fair start times: did jobs that came later delay those that were there before?

The *fair start time* of a job is when it would have started had nobody come after it, all else being the same (Sabin,
Kochhar, Sadayappan, "Job fairness in non-preemptive job scheduling", ICPP'04). Who starts later has missed it. To know
it, the trace is played again up to the job, under the same policy and with the same disturbances; that is dear, so it
is done for a sample, evenly spread over the trace. Who started at once cannot have missed it, and costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from phalanx.simulator.schedule.schedule import Fate, Schedule
from phalanx.simulator.schedule.statistic import mean
from phalanx.simulator.workload.workload import Task, Workload

LEAST_S = 1e-6  # what the hash of a schedule tells apart


def fair_starts(
    schedule: Schedule,
    again: Callable[[Workload], Schedule],
    count: int,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, float]:
    """Of `count` jobs at most. `again` plays a workload as the schedule's was played; `progress` is told how many jobs
    of the sample are looked at. When a run is interrupted, it is of those before it."""
    delays = list[float]()
    for done, fate in enumerate(sampled(schedule.fates, count), 1):
        missed_s = missed_by_s(schedule, fate, again)
        if missed_s is None:
            break  # of the rest only those that did not wait could be told, and that would look too fair
        delays.append(missed_s)
        progress(done)
    if not delays:
        return {}
    return {
        "fair_start_jobs": len(delays),
        "fair_start_miss_ratio": mean([float(delay_s > LEAST_S) for delay_s in delays]),
        "mean_fair_start_miss_s": mean(delays),
        "max_fair_start_miss_s": max(delays),
    }


def sampled(fates: Sequence[Fate], count: int) -> Sequence[Fate]:
    """Of those that started, so many in equal steps."""
    started = [fate for fate in fates if fate.start_s is not None]
    count = min(count, len(started))
    return [started[(2 * at + 1) * len(started) // (2 * count)] for at in range(count)]


def missed_by_s(schedule: Schedule, fate: Fate, again: Callable[[Workload], Schedule]) -> float | None:
    """How much later than its fair start time it started (0: not later); None: that was not found out."""
    assert fate.start_s is not None
    if fate.start_s <= fate.task.job.submitted_s:
        return 0.0
    alike = again(replace(schedule.workload, tasks=until(schedule, fate)))
    if alike.interrupted:
        return None
    fair_s = next(other.start_s for other in alike.fates if other.task.job.id == fate.task.job.id)
    return 0.0 if fair_s is None else max(0.0, fate.start_s - fair_s)


def until(schedule: Schedule, fate: Fate) -> list[Task]:
    """The trace without those that came later (at the same moment: that stand behind it)."""
    last = fate.task.job.submitted_s, fate.index
    both = zip(schedule.workload.tasks, schedule.fates, strict=True)
    return [task for task, other in both if (other.task.job.submitted_s, other.index) <= last]
