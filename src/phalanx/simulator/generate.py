"""Workloads that are made: drawn from distributions, or from a trace and changed.

Everything depends on a seed and on nothing else. Load is scaled by the time between submissions, never by sizes or run
times: these decide how jobs pack. Shaking (Tsafrir, Ouaknine, Feitelson: "Reducing performance evaluation sensitivity
and variability by input shaking", MASCOTS 2007) moves every submission by a little, so that one log gives many samples
instead of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from phalanx.model.job import Job, Role
from phalanx.model.shape import Amounts, Shape
from phalanx.simulator.draw import AN_HOUR, ONE, Distribution, draw, next_arrival_s, pick
from phalanx.simulator.workload import Task, in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`jobs` jobs, one every `every_s` seconds on average (`swing`, `peak_s`: the day's course, as in
    `next_arrival_s`). `pods` of each, of which each asks `pod`; `run_s`: how long it runs. `limit_factor`: what users
    ask for is the run time times a draw from it; None: they state no limit. `users`: how many there are, the first the
    most active (Zipf); `queues`: with their weights. `like`: jobs are drawn from these instead (sizes, run times,
    limits, users and queues together), `pods`, `pod` and `run_s` then say nothing."""

    jobs: int
    every_s: float
    swing: float = 0.0
    peak_s: float = 14 * 3600.0
    pods: Distribution = ONE
    pod: Amounts = (("cpu", 1000),)
    run_s: Distribution = AN_HOUR
    limit_factor: Distribution | None = None
    users: int = 1
    queues: tuple[tuple[str, float], ...] = ()
    like: Sequence[Task] = ()


def generated(recipe: Recipe, seed: int) -> list[Task]:
    random, tasks, at_s = Random(f"{seed} workload"), list[Task](), 0.0
    activity = [1.0 / (rank + 1) for rank in range(max(1, recipe.users))]
    for index in range(recipe.jobs):
        at_s = next_arrival_s(at_s, recipe.every_s, recipe.swing, recipe.peak_s, random)
        if recipe.like:
            model = recipe.like[int(random.random() * len(recipe.like))]
            job = replace(model.job, id=generated_name(index), submitted_s=at_s, after=())
            tasks.append(replace(model, job=job, follows=""))
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
    job = Job(id=generated_name(index), queue="", roles=roles, submitted_s=at_s, user=user, limit_s=asked)
    return Task(job=job, run_s=run_s, queue=queue)


def generated_name(index: int) -> str:
    return f"job-{index}"


@lru_cache(maxsize=65536)
def roles_of(pods: int, pod: Amounts) -> tuple[Role, ...]:
    return (Role(name="", count=pods, minimum=pods, shape=Shape(requests=pod)),)


def scaled(tasks: Sequence[Task], load: float) -> list[Task]:
    """The same jobs at `load` times the load: the time between submissions divided by it. Deadlines move along."""
    first_s = tasks[0].job.submitted_s if tasks else 0.0
    return [moved(task, first_s + (task.job.submitted_s - first_s) / load) for task in tasks]


def shaken(tasks: Sequence[Task], by_s: float, seed: int) -> list[Task]:
    """Every submission moved by up to `by_s` seconds either way (whole seconds, never before 0)."""
    random = Random(f"{seed} shaking")
    steps = 2 * int(by_s) + 1
    return in_order(
        moved(task, max(0.0, task.job.submitted_s + int(random.random() * steps) - int(by_s))) for task in tasks
    )


def moved(task: Task, at_s: float) -> Task:
    job, later_s = task.job, at_s - task.job.submitted_s
    if not later_s:
        return task
    deadline_s = None if job.deadline_s is None else job.deadline_s + later_s
    return replace(task, job=replace(job, submitted_s=at_s, deadline_s=deadline_s))
