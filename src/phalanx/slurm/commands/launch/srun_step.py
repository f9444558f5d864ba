"""The parts of a step of srun that do not depend on where its tasks run: its number, its record, the environment of its
tasks, and its exit code."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from signal import SIGKILL

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.launch.srun_options import Said, preserved
from phalanx.slurm.jobs.steps import layout, records
from phalanx.slurm.jobs.steps.booking import Busy, JobSteps
from phalanx.slurm.jobs.steps.records import OUT_OF_MEMORY, StepRecord
from phalanx.slurm.jobs.steps.tasks import highest
from phalanx.slurm.notation import amounts
from phalanx.slurm.options import Usage


def run_recorded(
    api: ApiClient | None, path: str, number: int, record: StepRecord, work: Callable[[], dict[int, int]]
) -> int:
    """Run the step by calling `work`, record its end, and return its exit code: the highest exit code of its tasks. A
    task that a signal ended counts as 128 plus the signal number."""
    code, signal = highest(work())
    records.write(api, path, number, records.ended(record, code, signal))
    return 128 + (SIGKILL if signal == OUT_OF_MEMORY else signal) if signal else code


def step_record(
    said: Said, command: Sequence[str], tasks: int, each: int, cpus: int, nodes: Sequence[str]
) -> StepRecord:
    """Return the record of a step. `tasks`: the number of its tasks. `each`: the CPUs of each task. `cpus`: the CPUs of
    its nodes."""
    shares = "exact" in said or "exclusive" in said or "cpus-per-task" in said
    cyclic = (said.get("distribution") or "").startswith("cyclic") or (
        "distribution" not in said and tasks <= len(nodes)
    )
    return StepRecord(
        name=said.get("job-name") or os.path.basename(command[0]),
        tasks=tasks,
        cpus=tasks * each if shares else cpus,
        nodes=list(nodes),
        layout="Cyclic" if cyclic else "Block",
        start_s=time.time(),
        line=" ".join(["srun", *command])[:200],
        pid=os.getpid(),
    )


def step_environment(said: Said, around: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that all tasks of a step share. `around`: the environment of srun. `shared`: the
    variables that Slurm sets for the step."""
    found = {**_exported(said.get("export"), around), **shared, **layout.gpu_options(said)}
    return preserved(said, found, os.environ)


def read_number(said: Said, name: str, default: str, least: int = 1) -> int:
    """Return the value of a numeric option, or its default. Raises Usage if the value is below `least`, or is not a
    number."""
    text = said.get(name) or default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= 1_000_000:
        raise Usage(f'srun: error: Invalid numeric value "{text}" for --{name}.')
    return number


def require_nodes(said: Said, given: int) -> None:
    """Raise Usage if the step requests more nodes than the allocation has. `given`: the nodes of the allocation."""
    if "nodes" in said:
        try:
            least, _ = amounts.read_range(said["nodes"] or "")
        except amounts.AmountError:
            raise Usage(f"srun: error: invalid node count `{said['nodes']}'") from None
        if least > given:
            raise Usage(f"srun: error: Only allocated {given} nodes asked for {least}")


def begin_step(
    said: Said, job: str, steps: JobSteps, tasks: int, each: int, cpus: int, claim: Callable[[int], int]
) -> int:
    """Wait until enough CPUs are free for a new step, and return the number of the step. `tasks`, `each`: the number of
    tasks, and the CPUs of each. `cpus`: the CPUs of the allocation. `claim`: a function that records the step with the
    given number or a later one, and returns this number. Raises Usage."""
    over = "overcommit" in said or "oversubscribe" in said
    if tasks * each > cpus and not over:
        raise Usage(f"srun: error: Unable to create step for job {job}: More processors requested than permitted")
    shares = "exact" in said or "exclusive" in said or "cpus-per-task" in said
    held = 0 if "overlap" in said or over else tasks * each if shares else cpus
    wait_s = float(said["immediate"] or 1) if "immediate" in said else None
    try:
        least = steps.begin(held, wait_s)
    except Busy:
        raise Usage(f"srun: error: Unable to create step for job {job}: Requested nodes are busy") from None
    number = claim(least)
    if number != least:
        steps.reach(number)
    return number


def task_programs(said: Said) -> dict[str, str]:
    """Return the programs of --task-prolog and --task-epilog as the arguments `prolog` and `epilog` of a step."""
    return {part: said.get(f"task-{part}") or "" for part in ("prolog", "epilog")}


def kill_s(said: Said) -> float | None:
    """Return the value of --wait: the time in seconds after the end of the first task at which the other tasks are
    killed; None if they are not killed."""
    return float(said["wait"] or 0) or None if "wait" in said else None


def _exported(said: str | None, around: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that the tasks inherit from srun. `said`: the value of --export. With
    --export=NONE or a list of names, the tasks inherit only the variables of Slurm and the listed variables. As in
    Slurm, PATH is then missing, so programs must be given by full paths."""
    words = ("ALL" if said is None else said).split(",")
    found = (
        dict(around) if "ALL" in words else {name: text for name, text in around.items() if name.startswith("SLURM")}
    )
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif word in around:
            found[word] = around[word]
    return found
