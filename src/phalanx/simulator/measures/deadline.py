"""Deadlines: who was admitted, who was in time, by how much the others were late, and what all of it was worth.

A job is *worth* what its trace says it is worth to be over by some time (Chronus, SoCC'21: a soft deadline is a falling
row of such values). One with a deadline of which nothing is said is worth 1 by then: of such jobs alone, value attained
is ElasticFlow's *deadline satisfactory ratio* (ASPLOS'23). What fails is worth nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from phalanx.model.job import Outcome
from phalanx.simulator.schedule.schedule import Fate
from phalanx.simulator.schedule.statistic import mean
from phalanx.simulator.workload.workload import Task, Worth


def deadlines(fates: Sequence[Fate]) -> dict[str, float]:
    """Of the jobs that have a deadline, or are worth something in time; nothing where none is."""
    due = [(fate, fate.task.job.deadline_s) for fate in fates if fate.task.job.deadline_s is not None]
    return {**(punctuality(due) if due else {}), **value_attained(fates)}


def punctuality(due: Sequence[tuple[Fate, float]]) -> dict[str, float]:
    """`due`: each job with its deadline (seconds, as its end)."""
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
    """Return what jobs were worth, by what they would have been worth had all been over at once."""
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
