"""Workloads and clusters of our own, as YAML or JSON.

A cluster: `nodes`, a list of `{name, count, allocatable: {cpu: 64, …}, labels}`; with `count` the names are numbered.
A workload: `jobs`, each `{id, submit, run, limit, queue, user, priority, deadline, after, pods, minimum, requests}` or
with `roles` instead of the last three; and, or instead, `generate`, a recipe. Either may have both. Times are seconds
or texts such as `1h30m`; `submit` and `deadline` count from the beginning of the workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from phalanx.cli.placed_file import read_placed
from phalanx.dialects.fields import Fields, Misread, duration_s
from phalanx.model.job import After, Dependency, Job, Role
from phalanx.model.node import Device, Node
from phalanx.model.shape import CPU, PODS, Amounts, Shape, amounts
from phalanx.simulator.draw import AN_HOUR, ONE, Choice, Distribution, Exponential, LogNormal, LogUniform, Uniform
from phalanx.simulator.generate import Recipe, generated_name
from phalanx.simulator.workload import GPU, MILLI_CPU, Task, Workload, in_order

MOST_NODES, MOST_PODS, MOST_JOBS = 1_000_000, 1_000_000, 100_000_000
DEFAULT_PODS = 110  # that a node takes, as a kubelet does
KINDS = "exponential: MEAN, lognormal: [MEDIAN, SIGMA], uniform: [LOW, HIGH], loguniform: [LOW, HIGH] or values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a file says: jobs, nodes, and how to make more jobs. `like`: the trace to draw them from."""

    tasks: list[Task]
    nodes: tuple[Node, ...]
    recipe: Recipe | None = None
    like: str = ""


def read_workload(file: Path) -> Written:
    return read_placed(file, _written)


def read_cluster(file: Path) -> tuple[Node, ...]:
    return read_placed(file, _written).nodes


def assembled(name: str, tasks: list[Task], nodes: tuple[Node, ...]) -> Workload:
    """Counted in GPUs if the jobs ask any, else in cpu."""
    asks_gpus = any(resource == GPU for task in tasks for role in task.job.roles for resource, _ in role.shape.requests)
    counted, unit = (GPU, 1) if asks_gpus else (CPU, MILLI_CPU)
    return Workload(name=name, tasks=in_order(tasks), nodes=nodes, counted=counted, unit=unit)


def _written(said: Fields) -> Written:
    nodes = tuple(node for entry in said.each("nodes") for node in _nodes(entry))
    if twice := [name for name, count in Counter(node.name for node in nodes).items() if count > 1]:
        raise Misread(("nodes",), f"there are two nodes {twice[0]!r}")
    tasks = [_task(entry, at) for at, entry in enumerate(said.each("jobs"))]
    ids = [task.job.id for task in tasks]
    if len(set(ids)) < len(ids):
        first = {job: at for at, job in reversed(list(enumerate(ids)))}
        at = next(at for at, job in enumerate(ids) if first[job] < at)
        raise Misread(("jobs", at, "id"), f"there is a job {ids[at]!r} above already")
    recipe, like = (None, "")
    if "generate" in said.values:
        recipe, like = _recipe(said.fields("generate"))
    _require_known(tasks, {generated_name(index) for index in range(recipe.jobs)} if recipe is not None else set())
    said.done()
    return Written(tasks=tasks, nodes=nodes, recipe=recipe, like=like)


def _require_known(tasks: Sequence[Task], made: Set[str]) -> None:
    """`made`: the names of the jobs that are generated. Nobody has one of them, or waits for what never comes."""
    known = {task.job.id for task in tasks} | made
    for at, task in enumerate(tasks):
        if task.job.id in made:
            raise Misread(("jobs", at, "id"), f"{task.job.id!r} is the name of a job that is generated")
        for nth, after in enumerate(task.job.after):
            if after.job not in known:
                raise Misread(("jobs", at, "after", nth, "job"), f"there is no job {after.job!r} to wait for")


def _nodes(said: Fields) -> Iterator[Node]:
    name, count = said.text("name", "node"), said.whole_or_none("count", least=1, most=MOST_NODES)
    room = {PODS: DEFAULT_PODS, **dict(said.amounts("allocatable"))}
    labels = said.pairs("labels")
    said.done()
    devices = tuple(Device(name=f"gpu-{index}", resource=GPU) for index in range(min(room.get(GPU, 0), 1024)))
    width = len(str((count or 1) - 1))
    for index in range(count or 1):
        named = name if count is None else f"{name}-{index:0{width}}"
        yield Node(name=named, allocatable=amounts(room), labels=labels, devices=devices)


def _task(said: Fields, at: int) -> Task:
    submitted_s, run_s = said.seconds("submit"), said.seconds_or_none("run")
    if run_s is None:
        raise Misread((*said.path, "run"), "a job says how long it runs")
    queue = said.text("queue")
    job = Job(
        id=said.text("id", f"listed-{at}"),
        queue="",  # the setup decides whether the queue that the workload names is one
        roles=_roles(said),
        submitted_s=submitted_s,
        priority=said.whole("priority"),
        user=said.text("user"),
        group=said.text("group"),
        limit_s=said.seconds_or_none("limit"),
        begin_s=said.seconds_or_none("begin"),
        deadline_s=said.seconds_or_none("deadline"),
        after=tuple(_dependency(entry) for entry in said.each("after")),
    )
    said.done()
    return Task(job=job, run_s=run_s, queue=queue)


def _dependency(said: Fields) -> Dependency:
    found = Dependency(job=said.text("job"), after=said.choice("when", After.OK))
    said.done()
    return found


def _roles(said: Fields) -> tuple[Role, ...]:
    entries = list(said.each("roles"))
    if not entries:
        return (_role(said, ""),)
    found = []
    for entry in entries:
        found.append(_role(entry, entry.text("name")))
        entry.done()
    return tuple(found)


def _role(said: Fields, name: str) -> Role:
    pods = said.whole("pods", 1, least=1, most=MOST_PODS)
    minimum = said.whole("minimum", pods, least=0, most=pods)
    return Role(name=name, count=pods, minimum=minimum, shape=Shape(requests=_requests(said)))


def _requests(said: Fields) -> Amounts:
    return amounts(dict(said.amounts("requests")))


def _recipe(said: Fields) -> tuple[Recipe, str]:
    every_s = said.seconds("every", 60.0)
    if every_s <= 0:
        raise Misread((*said.path, "every"), "the mean time between submissions is above 0")
    day = said.fields("day")
    recipe = Recipe(
        jobs=said.whole("jobs", 1000, least=0, most=MOST_JOBS),
        every_s=every_s,
        swing=_part(day, "swing"),
        peak_s=day.seconds("peak", 14 * 3600.0),
        pods=_distribution(said, "pods", ONE),
        pod=_requests(said) or ((CPU, MILLI_CPU),),
        run_s=_distribution(said, "run", AN_HOUR),
        limit_factor=_distribution(said, "limitFactor", ONE) if said.values.get("limitFactor") is not None else None,
        users=said.whole("users", 1, least=1, most=1_000_000),
        queues=said.weights("queues"),
    )
    said.value("limitFactor")
    like = said.text("like")
    day.done()
    said.done()
    return recipe, like


def _part(said: Fields, name: str) -> float:
    value = said.number(name)
    if value > 1.0:
        raise Misread((*said.path, name), f"{value:g} is not from 0 to 1")
    return value


def _distribution(said: Fields, name: str, default: Distribution) -> Distribution:
    value, path = said.value(name), (*said.path, name)
    if value is None:
        return default
    if isinstance(value, int | float | str):
        return Choice(values=((_length(value, path), 1.0),))
    entry = Fields(value, path)
    if len(entry.values) != 1:
        raise Misread(path, f"say one of {KINDS}")
    kind, said_of_it = next(iter(entry.values.items()))
    numbers = _numbers(said_of_it, (*path, str(kind)))
    match kind, numbers:
        case "exponential", [mean] if mean > 0:
            return Exponential(mean=mean)
        case "lognormal", [median, sigma] if median > 0:
            return LogNormal(median=median, sigma=sigma)
        case "uniform", [low, high] if low <= high:
            return Uniform(low=low, high=high)
        case "loguniform", [low, high] if 0 < low <= high:
            return LogUniform(low=low, high=high)
        case "values", _ if isinstance(said_of_it, dict) and said_of_it:
            weights = Fields({str(key): one for key, one in said_of_it.items()}, (*path, "values"))
            found = [(_length(key, weights.path), weights.number(str(key))) for key in weights.values]
            if sum(weight for _, weight in found) > 0:
                return Choice(values=tuple(found))
    raise Misread(path, f"{kind} is not as it should be; say one of {KINDS}")


def _numbers(value: object, path: tuple[str | int, ...]) -> list[float]:
    entries = value if isinstance(value, list) else [] if isinstance(value, dict) else [value]
    return [_length(entry, path) for entry in entries]


def _length(value: object, path: tuple[str | int, ...]) -> float:
    """A number, or a length of time in seconds."""
    return duration_s(value, path)
