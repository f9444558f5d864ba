"""Deadlines: admitted jobs, jobs in time, the lateness of the others, and the attained value.

The trace may give the *worth* of a job's end by certain times (Chronus, SoCC'21: a soft deadline is a falling series of
values). A job with only a deadline is worth 1 until then. With only such jobs, the attained value is ElasticFlow's
*deadline satisfactory ratio* (ASPLOS'23). A failed job is worth nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from phalanx.model.job import Outcome
from phalanx.simulator.schedule import Fate, mean
from phalanx.simulator.workload.workload import Task, Worth


def deadlines(fates: Sequence[Fate]) -> dict[str, float]:
    """Return the measures of the jobs with a deadline or a worth; empty if there are none."""
    due = [(fate, fate.task.job.deadline_s) for fate in fates if fate.task.job.deadline_s is not None]
    return {**(punctuality(due) if due else {}), **value_attained(fates)}


def punctuality(due: Sequence[tuple[Fate, float]]) -> dict[str, float]:
    """Return the measures of lateness. `due`: each job with its deadline, in the same time as its end."""
    late = [fate.end_s - at_s for fate, at_s in due if fate.end_s is not None and fate.end_s > at_s]
    never = sum(fate.end_s is None for fate, _ in due)
    return {
        "jobs_with_deadline": len(due),
        "deadline_admission_ratio": mean([float(fate.start_s is not None) for fate, _ in due]),
        "deadline_miss_ratio": (len(late) + never) / len(due),
        "mean_tardiness_s": mean(late),
        "max_tardiness_s": max(late, default=0.0),
    }


def value_attained(fates: Sequence[Fate]) -> dict[str, float]:
    """Return the attained worth of all jobs, relative to their greatest possible worth."""
    worths = [(fate, worth) for fate in fates if (worth := worth_of(fate.task))]
    most = fsum(max(value for _, value in worth) for _, worth in worths)
    return {"value_attained_ratio": fsum(attained(*each) for each in worths) / most} if most else {}


def worth_of(task: Task) -> Worth:
    if task.worth or task.job.deadline_s is None:
        return task.worth
    return ((task.job.deadline_s - task.job.submitted_s, 1.0),)


def attained(fate: Fate, worth: Worth) -> float:
    if fate.end_s is None or fate.outcome is not Outcome.SUCCEEDED:
        return 0.0
    took_s = fate.end_s - fate.task.job.submitted_s
    return max((value for within_s, value in worth if took_s <= within_s), default=0.0)
