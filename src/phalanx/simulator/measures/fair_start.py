"""Fair start times: how much jobs were delayed by jobs that were submitted later.

The *fair start time* of a job is its start without any later submission (Sabin, Kochhar, Sadayappan, "Job fairness in
non-preemptive job scheduling", ICPP'04). A job that starts after its fair start time has missed it. To find that time,
the trace up to the job is simulated again, under the same policy and with the same faults. This is expensive, so it is
done for a sample that is evenly spread over the trace. A job that started at once cannot have missed it and needs no
simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from phalanx.simulator.schedule import Fate, Schedule, mean
from phalanx.simulator.workload.workload import Task, Workload

LEAST_S = 1e-6  # smaller delays are ignored; schedule hashes round times to the same value


def fair_starts(
    schedule: Schedule,
    again: Callable[[Workload], Schedule],
    count: int,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, float]:
    """Return the measures of a sample of at most `count` jobs. `again`: a function that simulates a workload under the
    policy and faults of `schedule`. `progress`: called with the number of finished jobs of the sample. If a simulation
    is interrupted, only the jobs before it count."""
    delays = list[float]()
    for done, fate in enumerate(sampled(schedule.fates, count), 1):
        missed_s = missed_by_s(schedule, fate, again)
        if missed_s is None:
            break  # later jobs of the sample that did not wait would bias the result
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
    """Return up to `count` of the jobs that started, evenly spaced."""
    started = [fate for fate in fates if fate.start_s is not None]
    count = min(count, len(started))
    return [started[(2 * at + 1) * len(started) // (2 * count)] for at in range(count)]


def missed_by_s(schedule: Schedule, fate: Fate, again: Callable[[Workload], Schedule]) -> float | None:
    """Return the delay of the job's start after its fair start time (0: none); None if the simulation was
    interrupted."""
    assert fate.start_s is not None
    if fate.start_s <= fate.task.job.submitted_s:
        return 0.0
    alike = again(replace(schedule.workload, tasks=until(schedule, fate)))
    if alike.interrupted:
        return None
    fair_s = next(other.start_s for other in alike.fates if other.task.job.id == fate.task.job.id)
    return 0.0 if fair_s is None else max(0.0, fate.start_s - fair_s)


def until(schedule: Schedule, fate: Fate) -> list[Task]:
    """Return the tasks that were submitted before the job or with it; at equal times those before it in the trace."""
    last = fate.task.job.submitted_s, fate.index
    both = zip(schedule.workload.tasks, schedule.fates, strict=True)
    return [task for task, other in both if (other.task.job.submitted_s, other.index) <= last]
