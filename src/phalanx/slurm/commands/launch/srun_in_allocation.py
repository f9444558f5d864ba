"""A step of srun on the pods of an allocation, or of several components of a heterogeneous job.

The step daemons of these pods run the tasks (`jobs.steps.pods.remote`)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.launch.srun_options import Said, around_step, commands, streams_of
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
from phalanx.slurm.jobs.ask import STEP, Ask
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.steps import layout, records
from phalanx.slurm.jobs.steps.booking import JobSteps
from phalanx.slurm.jobs.steps.pods.channel import Broken
from phalanx.slurm.jobs.steps.pods.place import Allocation, Gone, allocation
from phalanx.slurm.jobs.steps.pods.remote import ALL, RemoteStep
from phalanx.slurm.jobs.steps.pods.remote import run as run_remote
from phalanx.slurm.notation import amounts
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.options import Usage, say


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """The part of a step that runs on the allocation of a job, or of one component of a heterogeneous job. `said`,
    `command`: the options and the command of this part. `around`: the environment of srun. `group`: the offset of the
    component."""

    said: Said
    command: Sequence[str]
    place: Allocation
    around: Mapping[str, str]
    group: int = 0

    @property
    def each(self) -> int:
        default = self.around.get("SLURM_CPUS_PER_TASK") or str(self.place.ask.cpus_per_task)
        return read_number(self.said, "cpus-per-task", default)

    def laid(self) -> tuple[list[int], list[list[int]], list[int]]:
        """Return the indexes of the nodes that this part uses, the numbers of the tasks on each of these nodes (the
        first task of the part has 0), and the CPUs of each of these nodes. Raises Usage."""
        ask, said = self.place.ask, self.said
        if "cpus-per-gpu" in said and not ask.total_gpus:
            what = f"srun: error: Unable to create step for job {self.place.number}"
            raise Usage(f"{what}: Invalid generic resource (gres) specification")
        chosen, tasks = _sized(said, self.place, self.around)
        cpus = [ask.cpus_of_nodes[min(index, len(ask.cpus_of_nodes) - 1)] for index in chosen]
        per_node = read_number(said, "ntasks-per-node", "0", 0) or (ask.tasks_per_node if "ntasks" not in said else 0)
        counts = amounts.spread(tasks, [count // self.each for count in cpus], per_node)
        cyclic = (said.get("distribution") or "").startswith("cyclic")
        return chosen, layout.cyclic(counts) if cyclic else layout.block(counts), cpus


def group_parts(
    parts: Sequence[tuple[dict[str, str | None], list[str]]], around: Mapping[str, str], job: str
) -> list[StepPart]:
    """Return the parts of the step, each on its component of the heterogeneous job. --het-group names the components of
    a part; without it, each part runs on the component at the same position."""
    first, size = int(around.get("SLURM_JOB_ID_HET_GROUP_0") or job), int(around.get("SLURM_HET_SIZE") or 1)
    api, found = ApiClient.open(), list[StepPart]()
    for at, (said, command) in enumerate(parts):
        for group in _groups(said.get("het-group") or str(at), size):
            tasks = around.get(f"SLURM_NTASKS_HET_GROUP_{group}", "")
            own = {**around, "SLURM_NTASKS": tasks, "SLURM_CPUS_PER_TASK": ""}
            try:
                place = allocation(api, first + group)
            except Gone:
                raise Usage(f"srun: error: Unable to confirm allocation for job {first}+{group}") from None
            found.append(StepPart(said=said, command=command, place=place, around=own, group=group))
    return found


def _groups(text: str, size: int) -> list[int]:
    from phalanx.slurm.notation.arrays import ArrayError, read_array

    try:
        found = list(read_array(text, 1 << 10).tasks)
    except ArrayError:
        found = [size]
    if any(one >= size for one in found):
        raise Usage(f"srun: error: Invalid --het-group specification {text}")
    return found


def run_in_allocation(parts: Sequence[StepPart], job: str) -> int:
    """Run a step of job number `job`, and return its exit code. The tasks of all parts are numbered consecutively."""
    first = parts[0]
    said, ask, around = first.said, first.place.ask, first.around
    laid = [part.laid() for part in parts]
    numbers, cpus, commands_of = list[list[int]](), list[int](), dict[int, tuple[str, ...]]()
    for part, (_, own_numbers, own_cpus) in zip(parts, laid, strict=True):
        offset, count = sum(map(len, numbers)), sum(map(len, own_numbers))
        each = commands(part.said, part.command, count)
        commands_of |= {offset + task: tuple(each(task)) for task in range(count)}
        numbers += [[offset + task for task in some] for some in own_numbers]
        cpus += own_cpus
    place = _joined([part.place for part in parts], [chosen for chosen, _, _ in laid])
    tasks = sum(map(len, numbers))
    total = sum(sum(part.place.ask.cpus_of_nodes) for part in parts)
    leader = str(ask.het or job)
    steps = JobSteps.of(leader, total)
    nodes, name = place.nodes, said.get("job-name") or ""
    record = step_record(said, first.command, tasks, first.each, sum(cpus), nodes)
    record.components = tuple(part.group for part in parts)
    api, path = ApiClient.open(), path_of(int(leader)) if ask.het is not None else path_of(place.number, ask)
    number = begin_step(
        said, leader, steps, tasks, first.each, total, lambda least: records.claim(api, path, least, record)
    )
    shared = layout.variables(leader, number, name, nodes, numbers, said.get("cpus-per-task"), said.get("distribution"))
    _fit_to_kind(shared, ask, said)
    shared |= {"SLURM_JOB_UID": str(ask.uid), "SLURM_JOB_GID": str(ask.gid), "SLURM_JOB_USER": ask.user}
    own = [
        {task: {**layout.of_node(at, node, some, cpus[at]), "SLURM_PROCID": str(task), "SLURM_LOCALID": str(local)}
         for local, task in enumerate(some)}
        for at, (node, some) in enumerate(zip(nodes, numbers, strict=True))
    ]  # fmt: skip
    said_input = said.get("input")
    step = RemoteStep(
        name=f"{leader}.{number}",
        indexes=range(len(nodes)),
        tasks=own,
        command=commands_of.__getitem__,
        environment=step_environment(said, around, shared),
        directory=said.get("chdir") or os.getcwd(),
        streams=streams_of(said, around, leader, number),
        label="label" in said,
        terminal="pty" in said,
        kill_s=kill_s(said),
        **task_programs(said),
        kill_on_bad_exit="kill-on-bad-exit" in said and said.get("kill-on-bad-exit") != "0",
        first_input=int(said_input) if said_input is not None and said_input.isdecimal() else ALL,
    )

    def work() -> dict[int, int]:
        codes, used = around_step(said, first.command, {**around, **shared}, lambda: run_remote(step, place))
        record.cpu_s, record.peak_kib = used["cpu_s"], used["peak_kib"]
        return codes

    try:
        return run_recorded(api, path, number, record, work)
    except Broken as error:
        raise Usage(f"srun: error: Unable to create step for job {job}: {error}") from None
    finally:
        steps.end()


def _fit_to_kind(shared: dict[str, str], ask: Ask, said: Said) -> None:
    """Add or remove the variables that Slurm sets only for steps in an existing allocation, or only for an srun that
    created its allocation."""
    if ask.kind != STEP:
        shared["SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0"] = amounts.per_node(ask.cpus_of_nodes)
    elif "distribution" not in said:
        del shared["SLURM_DISTRIBUTION"]


def _joined(places: Sequence[Allocation], chosen: Sequence[Sequence[int]]) -> Allocation:
    """Return one allocation that consists of the chosen pods of all these allocations. `chosen`: the indexes of the
    pods in each allocation. The step daemons of all components have the same key."""
    pairs = [(place, index) for place, some in zip(places, chosen, strict=True) for index in some]
    return replace(places[0], pods=tuple(place.pods[index] for place, index in pairs))


def _sized(said: Said, place: Allocation, around: Mapping[str, str]) -> tuple[list[int], int]:
    """Return the indexes of the nodes in the allocation that the step uses, and the number of its tasks."""
    given = len(place.nodes)
    require_nodes(said, given)
    excluded = set(expand(said.get("exclude") or "")) if "jobid" in said or "SLURM_JOB_ID" in around else set()
    wanted = set(expand(said.get("nodelist") or ""))
    free = [index for index, node in enumerate(place.nodes) if node not in excluded]
    first = [index for index in free if place.nodes[index] in wanted]
    order = [*first, *(index for index in free if index not in first)]
    count = amounts.read_range(said["nodes"] or "")[0] if said.get("nodes") else len(first) or len(free)
    per_node = read_number(said, "ntasks-per-node", "0", 0)
    default = around.get("SLURM_NTASKS") if "nodes" not in said and not per_node else None
    own = place.ask.tasks if place.ask.kind == STEP else None
    tasks = read_number(said, "ntasks", str(own or default or count * max(1, per_node)))
    if tasks < count:
        if "nodes" in said or place.ask.kind != STEP:
            say(f"srun: Warning: can't run {tasks} processes on {count} nodes, setting nnodes to {tasks}")
        count = tasks
    return sorted(order[:count]), tasks
