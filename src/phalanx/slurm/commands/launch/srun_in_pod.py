"""A step of srun in the pod of this process: its tasks are child processes of srun."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from phalanx.slurm.cluster.api import ApiClient, Unreachable
from phalanx.slurm.commands.launch.srun_options import Said, around_step, commands, named_by, outputs_of, source_of
from phalanx.slurm.commands.launch.srun_step import (
    begin_step,
    kill_s,
    read_number,
    require_nodes,
    run_recorded,
    step_environment,
    step_record,
    task_programs,
)
from phalanx.slurm.jobs.names import path_within
from phalanx.slurm.jobs.steps import layout, records
from phalanx.slurm.jobs.steps.booking import JobSteps
from phalanx.slurm.jobs.steps.tasks import Step
from phalanx.slurm.jobs.steps.tasks import run as run_tasks


def run_in_pod(said: Said, command: Sequence[str], around: Mapping[str, str], job: str) -> int:
    """Run a step of job number `job`, and return its exit code. `around`: the environment of srun."""
    require_nodes(said, 1)
    per_node = said.get("ntasks-per-node") or around.get("SLURM_NTASKS") or "1"
    tasks = read_number(said, "ntasks", per_node)
    each = read_number(said, "cpus-per-task", around.get("SLURM_CPUS_PER_TASK") or "1")
    cpus = int(around.get("SLURM_CPUS_ON_NODE", "1"))
    steps = JobSteps.of(job, cpus)
    node = around.get("SLURMD_NODENAME", "")
    api, path = _api(), path_within(int(job), around)
    record = step_record(said, command, tasks, each, cpus, [node])
    number = begin_step(said, job, steps, tasks, each, cpus, lambda least: records.claim(api, path, least, record))
    name = said.get("job-name") or ""
    numbers = layout.block([tasks])
    shared = layout.variables(job, number, name, [node], numbers, said.get("cpus-per-task"), said.get("distribution"))
    shared |= layout.of_node(0, node, numbers[0], cpus) | {"SLURM_TASKS_PER_NODE": str(tasks)}
    shared["SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0"] = around.get("SLURM_JOB_CPUS_PER_NODE") or str(cpus)
    of_task = commands(said, command, tasks)
    bad = said.get("kill-on-bad-exit")
    environment = step_environment(said, around, shared)
    given = environment.get("CUDA_VISIBLE_DEVICES", "")
    step = Step(
        command=of_task,
        environment=environment,
        of_task=[
            {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task), **layout.gpus_of_task(given, environment, task)}
            for task in range(tasks)
        ],
        directory=said.get("chdir") or os.getcwd(),
        node=node,
        name=f"{job}.{number}",
        label="label" in said,
        source=lambda task: source_of(said, named_by(around, job, number), task),
        outputs=outputs_of(said, around, job, number, tasks),
        kill_s=kill_s(said),
        **task_programs(said),
        kill_on_bad_exit="kill-on-bad-exit" in said and bad != "0",
    )
    try:
        work = partial(around_step, said, command, {**around, **shared}, lambda: run_tasks(step))
        return run_recorded(api, path, number, record, work)
    finally:
        steps.end()


def _api() -> ApiClient | None:
    try:
        return ApiClient.open()
    except Unreachable:
        return None
