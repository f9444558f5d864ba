"""Workloads and clusters of our own, as YAML or JSON.

A cluster: `nodes`, `topologies`, `reservations` (`workload_nodes`). A workload: `jobs` (`workload_jobs`) and, or
instead, `generate`, a recipe (`workload_recipe`). A file may be both. Times are seconds or texts such as `1h30m`;
points in time count from the beginning of the workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from phalanx.cli.files.placed_file import read_placed
from phalanx.cli.study.simulation.workload_jobs import read_jobs
from phalanx.cli.study.simulation.workload_nodes import WorkloadSite, read_site
from phalanx.cli.study.simulation.workload_recipe import read_recipe
from phalanx.dialects.schema.fields import Fields
from phalanx.model.pod import CPU
from phalanx.simulator.workload.generate import Recipe, generated_name
from phalanx.simulator.workload.workload import GPU, MILLI_CPU, Task, Workload, in_order, of_role


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenWorkload:
    """The content of a file: jobs, a cluster, and how to make more jobs. `like`: the trace to draw them from."""

    tasks: list[Task]
    site: WorkloadSite
    recipe: Recipe | None = None
    like: str = ""


def read_workload(file: Path) -> WrittenWorkload:
    return read_placed(file, _written)


def read_cluster(file: Path) -> WorkloadSite:
    return read_placed(file, _written).site


def assembled(name: str, tasks: list[Task], site: WorkloadSite) -> Workload:
    """Return the workload. Its size is counted in GPUs if any job requests one, else in CPUs."""
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
