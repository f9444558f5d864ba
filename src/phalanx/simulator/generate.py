"""Generate workloads: draw jobs from distributions, or change a trace.

The result depends only on the arguments and a seed. To scale the load, the times between submissions are changed. Sizes
and run times stay the same, because they decide how well jobs can be packed on the nodes. *Shaking* moves every
submission by a small random time, so that many similar workloads can be made from one log (Tsafrir, Ouaknine,
Feitelson: "Reducing performance evaluation sensitivity and variability by input shaking", MASCOTS 2007).

Values of all distributions are computed by inversion from `random.Random.random()`, which returns the same numbers in
every Python version.

Times are rounded to milliseconds, because machines may differ in the last bits of a logarithm."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from math import cos, exp, log, pi
from random import Random
from statistics import NormalDist
from typing import TypeAlias

from phalanx.model.job import Job, Role
from phalanx.model.node import TopologyRequest
from phalanx.model.pod import CPU, Shape
from phalanx.simulator.workload import MILLI_CPU, Task, alone, in_order

DAY_S = 86_400.0
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """A log-normal distribution. `sigma`: the standard deviation of the logarithm."""

    median: float
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUniform:
    """A distribution whose logarithm is uniform. In logs, the sizes and run times of jobs roughly have this
    distribution. `low`: the smallest value, above 0."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawChoice:
    """A distribution over a few values. `values`: pairs of a value and its weight."""

    values: tuple[tuple[float, float], ...]


ONE = DrawChoice(values=((1.0, 1.0),))
AN_HOUR = Exponential(mean=3600.0)

Distribution: TypeAlias = Exponential | LogNormal | Uniform | LogUniform | DrawChoice


def draw(distribution: Distribution, random: Random) -> float:
    chance = random.random()
    match distribution:
        case Exponential(mean=mean):
            return round(-mean * log(1.0 - chance), 3)
        case LogNormal(median=median, sigma=sigma):
            return round(median * exp(sigma * _NORMAL.inv_cdf(min(max(chance, 1e-12), 1 - 1e-12))), 3)
        case Uniform(low=low, high=high):
            return round(low + (high - low) * chance, 3)
        case LogUniform(low=low, high=high):
            return round(low * exp(log(high / low) * chance), 3)
        case DrawChoice(values=values):
            return values[pick([weight for _, weight in values], chance)][0]


def pick(weights: Sequence[float], chance: float) -> int:
    """Return a random index, with probabilities in proportion to `weights`. `chance`: a random number in [0, 1), which
    selects the index."""
    sums = list(accumulate(weights))
    return min(bisect_right(sums, chance * sums[-1]), len(weights) - 1)


def next_arrival_s(at_s: float, mean_s: float, swing: float, peak_s: float, random: Random) -> float:
    """Return the time of the next arrival after `at_s` in a Poisson process with a daily cycle, by thinning (Lewis and
    Shedler 1979).

    `mean_s`: the mean time between arrivals. `swing`: how much the rate of arrivals varies over the day, from 0 (a
    constant rate) to 1 (no arrivals at the quietest time). `peak_s`: the time of day with the highest rate."""
    while True:
        at_s = round(at_s - mean_s / (1.0 + swing) * log(1.0 - random.random()), 3)
        rate = (1.0 + swing * cos(2.0 * pi * (at_s - peak_s) / DAY_S)) / (1.0 + swing)
        if not swing or random.random() < rate:
            return at_s


A_CPU = Shape(requests=((CPU, MILLI_CPU),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The parameters of a workload whose jobs are drawn at random.

    `jobs`: the number of jobs. `every_s`: the mean time between submissions. `swing`, `peak_s`: the daily cycle, as
    in `next_arrival_s`.
    `pods`: the distribution of the number of pods of a job. `pod`: the shape of each pod. `run_s`: the distribution of
    the run time.
    `limit_factor`: the distribution of the quotient (requested limit / run time); None if jobs have no limit.
    `users`: the number of users. Their numbers of jobs follow Zipf's law; the first user is the most active.
    `queues`: pairs (queue, weight); a job gets a random queue with a probability in proportion to the weight.
    `closeness`: the topology request of each gang.
    `like`: if not empty, each job is a copy of a random task of this list, with its size, run time, limit, user and
    queue. The parameters `pods`, `pod` and `run_s` are then ignored."""

    jobs: int
    every_s: float
    swing: float = 0.0
    peak_s: float = 14 * 3600.0
    pods: Distribution = ONE
    pod: Shape = A_CPU
    run_s: Distribution = AN_HOUR
    limit_factor: Distribution | None = None
    users: int = 1
    queues: tuple[tuple[str, float], ...] = ()
    closeness: TopologyRequest | None = None
    like: Sequence[Task] = ()


def generated(recipe: Recipe, seed: int) -> list[Task]:
    random, tasks, at_s = Random(f"{seed} workload"), list[Task](), 0.0
    activity = [1.0 / (rank + 1) for rank in range(max(1, recipe.users))]
    for index in range(recipe.jobs):
        at_s = next_arrival_s(at_s, recipe.every_s, recipe.swing, recipe.peak_s, random)
        if recipe.like:
            model = moved(recipe.like[int(random.random() * len(recipe.like))], at_s)
            tasks.append(replace(model, job=replace(alone(model.job), id=generated_name(index)), follows=""))
        else:
            tasks.append(fresh(recipe, index, at_s, activity, random))
    return tasks


def fresh(recipe: Recipe, index: int, at_s: float, activity: Sequence[float], random: Random) -> Task:
    pods = max(1, round(draw(recipe.pods, random)))
    run_s = max(0.001, draw(recipe.run_s, random))
    asked = None if recipe.limit_factor is None else round(run_s * max(1.0, draw(recipe.limit_factor, random)), 3)
    user = f"user-{pick(activity, random.random())}"
    weights = [weight for _, weight in recipe.queues]
    queue = recipe.queues[pick(weights, random.random())][0] if recipe.queues else ""
    roles = roles_of(pods, recipe.pod)
    job = Job(
        id=generated_name(index),
        queue="",
        roles=roles,
        submitted_s=at_s,
        user=user,
        limit_s=asked,
        closeness=recipe.closeness if pods > 1 else None,
    )
    return Task(job=job, run_s=run_s, queue=queue)


def generated_name(index: int) -> str:
    return f"job-{index}"


@lru_cache(maxsize=65536)
def roles_of(pods: int, pod: Shape) -> tuple[Role, ...]:
    return (Role(name="", count=pods, minimum=pods, shape=pod),)


def scaled(tasks: Sequence[Task], load: float) -> list[Task]:
    """Return the tasks with the times between their submissions divided by `load`."""
    first_s = tasks[0].job.submitted_s if tasks else 0.0
    return [moved(task, first_s + (task.job.submitted_s - first_s) / load) for task in tasks]


def shaken(tasks: Sequence[Task], by_s: float, seed: int) -> list[Task]:
    """Return the tasks with each submission moved by a random number of whole seconds, at most `by_s` earlier or later,
    but never to a time before 0."""
    random = Random(f"{seed} shaking")
    steps = 2 * int(by_s) + 1
    return in_order(
        moved(task, max(0.0, task.job.submitted_s + int(random.random() * steps) - int(by_s))) for task in tasks
    )


def moved(task: Task, at_s: float) -> Task:
    """Return the task with its submission moved to `at_s`. The begin time and the deadline of the task move by the same
    amount. The wait that the trace states is removed, because it does not apply to the new time."""
    job, later_s = task.job, at_s - task.job.submitted_s
    if not later_s:
        return task
    begin_s, deadline_s = (None if each is None else each + later_s for each in (job.begin_s, job.deadline_s))
    moved_job = replace(job, submitted_s=at_s, begin_s=begin_s, deadline_s=deadline_s)
    return replace(task, job=moved_job, waited_s=None)
