"""Read workload files and cluster files of Phalanx, in YAML or JSON.

A cluster file has `nodes`, `topologies` and `reservations` (see `workload_nodes`). A workload file has `jobs`, a list
of jobs, or `generate`, a recipe for generated jobs, or both. A file may describe a cluster and a workload. Times are
seconds or texts such as `1h30m`; points in time count from the beginning of the workload.

The fields of jobs are named after the annotations in Kubernetes (`kube.read.labels`): `phalanx.dev/role-closeness` is
the field `closeness` of a role. Values with their own syntax (slices, groups, parts of a GPU) are parsed by the code
that parses these annotations. A recipe has distributions, and the requests that are equal for all generated jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from phalanx.cli.files.placed_file import read_placed
from phalanx.cli.study.simulation.workload_nodes import WorkloadSite, read_site
from phalanx.dialects.schema.fields import Fields, Misread, duration_s
from phalanx.kube.gang.spec.job_options import group_closeness, slices, subgroup
from phalanx.kube.read.labels import GPU_FRACTION, GPU_MEMORY
from phalanx.kube.read.template.affinity import device_share
from phalanx.model.job import Dependency, DependencyType, GangSize, Group, Job, Role
from phalanx.model.node import TopologyRequest
from phalanx.model.pod import CPU, DeviceShare, Shape, Toleration, amounts
from phalanx.simulator.generate import (
    A_CPU,
    AN_HOUR,
    ONE,
    Distribution,
    DrawChoice,
    Exponential,
    LogNormal,
    LogUniform,
    Recipe,
    Uniform,
    generated_name,
)
from phalanx.simulator.workload import GPU, MILLI_CPU, Task, Workload, Worth, in_order, of_role

Value = TypeVar("Value")
# name of an entry, or of one of its jobs -> the ids of the jobs with this name
Members = Mapping[str, tuple[str, ...]]

MOST_PODS, MOST_WORTH = 1_000_000, 1_000_000_000
MOST_JOBS = 10_000_000  # the maximum number of jobs of one entry; each job needs a kilobyte of memory
PARTS_OF_A_GPU = (("gpuFraction", GPU_FRACTION), ("gpuMemory", GPU_MEMORY))


class Matching(StrEnum):
    """The operator of a toleration (k8s.io/api/core/v1)."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class Aligned(StrEnum):
    """The values of the field `aligned`: whether all resources of a pod must come from one NUMA zone."""

    NO = "no"
    PREFERRED = "preferred"
    REQUIRED = "required"


def read_jobs(said: Fields, made: Set[str]) -> list[Task]:
    """Return the listed jobs. `made`: the names of the generated jobs. Raises Misread if a listed job has one of these
    names, or if a job depends on a job that does not exist."""
    members: dict[str, tuple[str, ...]] = {}
    entries = list[list[Task]]()
    for at, entry in enumerate(said.each("jobs")):
        name, tasks = entry.text("id", f"listed-{at}"), _tasks(entry, at)
        jobs = tuple(task.job.id for task in tasks)
        for each in dict.fromkeys((name, *jobs)):
            if each in made:
                raise Misread((*entry.path, "id"), f"{each!r} is the name of a generated job")
            if each in members:
                raise Misread((*entry.path, "id"), f"an earlier entry is already named {each!r}")
            members[each] = (each,) if each in jobs else jobs
        entries.append(tasks)
    return [_waiting(task, at, members, made) for at, tasks in enumerate(entries) for task in tasks]


def _waiting(task: Task, at: int, members: Members, made: Set[str]) -> Task:
    """Return the task with its dependencies resolved: a dependency on an array becomes one dependency on each job of
    the array. `at`: the position of the task's entry."""
    after = list[Dependency]()
    for nth, each in enumerate(task.job.after):
        jobs = (each.job,) if each.job in made else members.get(each.job, ())
        if not jobs:
            raise Misread(("jobs", at, "after", nth, "job"), f"there is no job {each.job!r} to wait for")
        after += (Dependency(job=job, after=each.after) for job in jobs)
    return replace(task, job=replace(task.job, after=tuple(after))) if after else task


def _tasks(said: Fields, at: int) -> list[Task]:
    """Return the task that an entry describes, or all tasks if the entry is an array. `at`: the position of the
    entry."""
    submitted_s, run_s = said.seconds("submit"), said.seconds_or_none("run")
    if run_s is None:
        raise Misread((*said.path, "run"), "the run time of the job is missing")
    name, queue, worth = said.text("id", f"listed-{at}"), said.text("queue"), _worth(said)
    count, cap = _array(said)
    groups = tuple(subgroup(entry) for entry in said.each("groups"))
    job = Job(
        id=name,
        queue="",  # the setup determines the queue of the job
        roles=_roles(said, groups),
        groups=groups,
        submitted_s=submitted_s,
        **_wishes(said),
    )
    said.done()
    if count is None:
        return [Task(job=job, run_s=run_s, queue=queue, worth=worth)]
    jobs = (replace(job, id=f"{name}_{number}", array=name, array_cap=cap) for number in range(count))
    return [Task(job=each, run_s=run_s, queue=queue, worth=worth) for each in jobs]


def _worth(said: Fields) -> Worth:
    """Return the worth of a job as pairs (t, value), sorted by t. A job that ends within t seconds has this value."""
    found = []
    for within, value in said.weights("worth"):
        path = (*said.path, "worth", within)
        if value > MOST_WORTH:
            raise Misread(path, f"{value:g} is more than {MOST_WORTH}")
        found.append((duration_s(within, path), value))
    return tuple(sorted(found))


def _array(said: Fields) -> tuple[int | None, int | None]:
    """Return the number of tasks of the array (None if the entry is not an array), and the number of tasks that may run
    at the same time (None without a limit)."""
    value = said.value("array")
    if value is None:
        return None, None
    if not isinstance(value, Mapping):
        return said.whole("array", least=1, most=MOST_JOBS), None
    entry = said.fields("array")
    jobs, running = entry.whole("jobs", 0, least=1, most=MOST_JOBS), entry.whole_or_none("running", least=1)
    entry.done()
    if not jobs:
        raise Misread((*entry.path, "jobs"), "the number of the array's jobs is missing")
    return jobs, running


def _wishes(said: Fields) -> dict[str, Any]:
    return {
        "user": said.text("user"),
        "group": said.text("group"),
        "priority": said.whole("priority"),
        "nice": said.whole("nice"),
        "qos": said.text("qos"),
        "limit_s": said.seconds_or_none("limit"),
        "estimate_s": said.seconds_or_none("estimate"),
        "begin_s": said.seconds_or_none("begin"),
        "deadline_s": said.seconds_or_none("deadline"),
        "after": tuple(_dependency(entry) for entry in said.each("after")),
        "requires_any": said.flag("afterAny"),
        "singleton": said.text("singleton"),
        "reservation": said.text("reservation"),
        "preemptible": said.flag("preemptible", True),
        "size": said.choice("size", GangSize.ELASTIC),
        "closeness": read_closeness(said),
    }


def _dependency(said: Fields) -> Dependency:
    found = Dependency(job=said.name("job"), after=said.choice("when", DependencyType.OK))
    said.done()
    return found


def read_closeness(said: Fields) -> TopologyRequest | None:
    """Return the topology request of a whole job; None if it has none. Raises Misread."""
    found, balanced = group_closeness(said), said.flag("balanced")
    layers = _of_text(said, "slice", slices) or ()
    if found is None and not layers:
        if balanced:
            raise Misread((*said.path, "balanced"), "balanced needs closeness or preferredCloseness")
        return None
    return replace(found or TopologyRequest(), balanced=balanced, slices=layers)


def _roles(said: Fields, groups: tuple[Group, ...]) -> tuple[Role, ...]:
    entries = list(said.each("roles"))
    if not entries:
        return (_role(said),)
    found = []
    for entry in entries:
        name, group = entry.text("name"), entry.text("group")
        if group and group not in {each.name for each in groups}:
            raise Misread((*entry.path, "group"), f"the job has no group {group!r}")
        found.append(replace(_role(entry), name=name, group=group, closeness=group_closeness(entry)))
        entry.done()
    return tuple(found)


def _role(said: Fields) -> Role:
    pods = said.whole("pods", 1, least=1, most=MOST_PODS)
    return Role(name="", count=pods, minimum=said.whole("minimum", pods, least=0, most=pods), shape=read_shape(said))


def read_shape(said: Fields) -> Shape:
    """Return the requests and the node constraints of one pod. Raises Misread."""
    aligned = said.choice("aligned", Aligned.NO)
    return Shape(
        requests=amounts(dict(said.amounts("requests"))),
        selector=said.pairs("nodeSelector"),
        tolerations=tuple(_toleration(entry) for entry in said.each("tolerations")),
        share=_share(said),
        aligned="" if aligned is Aligned.NO else aligned.value,
    )


def _toleration(said: Fields) -> Toleration:
    operator = said.choice("operator", Matching.EQUAL)
    key, value, effect = said.text("key"), said.text("value"), said.text("effect")
    said.done()
    if not key and operator is Matching.EQUAL:
        raise Misread(
            (*said.path, "key"),
            "no key; without one, write operator: Exists, which tolerates all taints",
        )
    return Toleration(key=key, operator=operator.value, value=value, effect=effect)


def _share(said: Fields) -> DeviceShare | None:
    values = {word: (name, said.value(name)) for name, word in PARTS_OF_A_GPU}
    words = {word: str(value) for word, (_, value) in values.items() if value is not None}
    try:
        return device_share(words)
    except ValueError as error:
        name = next(name for word, (name, _) in values.items() if word in words)
        raise Misread((*said.path, name), str(error)) from None


def _of_text(said: Fields, name: str, read: Callable[[str], Value]) -> Value | None:
    try:
        return read(text) if (text := said.text(name)) else None
    except ValueError as error:
        raise Misread((*said.path, name), str(error)) from None


KINDS = "exponential: MEAN, lognormal: [MEDIAN, SIGMA], uniform: [LOW, HIGH], loguniform: [LOW, HIGH] or values"


def read_recipe(said: Fields) -> tuple[Recipe, str]:
    """Return the recipe for generated jobs, and the name of the trace from which jobs are drawn ("" if there is none).
    Raises Misread."""
    every_s = said.seconds("every", 60.0)
    if every_s <= 0:
        raise Misread((*said.path, "every"), "the mean time between submissions must be more than 0")
    day, pod = said.fields("day"), read_shape(said)
    recipe = Recipe(
        jobs=said.whole("jobs", 1000, least=0, most=MOST_JOBS),
        every_s=every_s,
        swing=_part(day, "swing"),
        peak_s=day.seconds("peak", 14 * 3600.0),
        pods=_distribution(said, "pods", ONE),
        pod=pod if pod.requests or pod.share else replace(pod, requests=A_CPU.requests),
        closeness=read_closeness(said),
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
        raise Misread((*said.path, name), f"{value:g} is not between 0 and 1")
    return value


def _distribution(said: Fields, name: str, default: Distribution) -> Distribution:
    value, path = said.value(name), (*said.path, name)
    if value is None:
        return default
    if isinstance(value, int | float | str):
        return DrawChoice(values=((_length(value, path), 1.0),))
    entry = Fields(value, path)
    if len(entry.values) != 1:
        raise Misread(path, f"write one of {KINDS}")
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
                return DrawChoice(values=tuple(found))
    raise Misread(path, f"{kind} has invalid values; write one of {KINDS}")


def _numbers(value: object, path: tuple[str | int, ...]) -> list[float]:
    entries = value if isinstance(value, list) else [] if isinstance(value, dict) else [value]
    return [_length(entry, path) for entry in entries]


def _length(value: object, path: tuple[str | int, ...]) -> float:
    """Return a number. If the value is a duration as text, return the number of seconds."""
    return duration_s(value, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenWorkload:
    """The content of a workload file. `tasks`: the listed jobs. `site`: the cluster. `recipe`: the recipe for generated
    jobs. `like`: the trace from which generated jobs are drawn; "" if there is none."""

    tasks: list[Task]
    site: WorkloadSite
    recipe: Recipe | None = None
    like: str = ""


def read_workload(file: Path) -> WrittenWorkload:
    return read_placed(file, _written)


def read_cluster(file: Path) -> WorkloadSite:
    return read_placed(file, _written).site


def assembled(name: str, tasks: list[Task], site: WorkloadSite) -> Workload:
    """Return the workload of these jobs and this cluster. Sizes are counted in GPUs if a job requests GPUs, else in
    CPUs."""
    asks_gpus = any(of_role(role, GPU) for task in tasks for role in task.job.roles)
    counted, unit = (GPU, 1) if asks_gpus else (CPU, MILLI_CPU)
    return Workload(
        name=name,
        tasks=in_order(tasks),
        nodes=site.nodes,
        topologies=site.topologies,
        reservations=site.reservations,
        counted=counted,
        unit=unit,
    )


def _written(said: Fields) -> WrittenWorkload:
    site = read_site(said)
    recipe, like = read_recipe(said.fields("generate")) if "generate" in said.values else (None, "")
    made = {generated_name(index) for index in range(recipe.jobs)} if recipe is not None else set[str]()
    tasks = read_jobs(said, made)
    said.value("generate")
    said.done()
    return WrittenWorkload(tasks=tasks, site=site, recipe=recipe, like=like)
