"""srun: run the tasks of a step, in an existing allocation or in a new one.

If the job has only one pod and srun runs in it, the tasks are child processes of srun. This needs neither the network
nor the API server. Otherwise the step daemons of the allocation's pods run the tasks (`jobs.steps.pods.remote`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from signal import SIGKILL

from phalanx.slurm.cluster.api import ApiClient, Unreachable
from phalanx.slurm.commands.launch.srun_options import (
    Said,
    around_step,
    commands,
    named_by,
    outputs_of,
    preserved,
    require_file,
    source_of,
    streams_of,
    with_variables,
)
from phalanx.slurm.jobs.ask import STEP, Ask
from phalanx.slurm.jobs.names import path_of, path_within
from phalanx.slurm.jobs.steps import layout, records
from phalanx.slurm.jobs.steps.booking import Busy, JobSteps
from phalanx.slurm.jobs.steps.pods.channel import Broken
from phalanx.slurm.jobs.steps.pods.place import Allocation, Gone, Waits, allocation
from phalanx.slurm.jobs.steps.pods.remote import ALL, RemoteStep
from phalanx.slurm.jobs.steps.pods.remote import run as run_remote
from phalanx.slurm.jobs.steps.records import OUT_OF_MEMORY, StepRecord
from phalanx.slurm.jobs.steps.tasks import Step, highest
from phalanx.slurm.jobs.steps.tasks import run as run_tasks
from phalanx.slurm.notation import amounts
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.options import OptionReader, Usage, declare, say
from phalanx.slurm.submission.asked.forms import HINTS, check_forms, checking

OPTIONS = declare(
    "accel-bind= account,A= bcast-exclude= bcast=? begin,b= chdir,D= comment= compress=? constraint,C= "
    "container-image= container-mounts= contiguous cpu_bind|cpu-bind= cpus-per-task,c= deadline= debugger-test "
    "dependency,d= disable-status,X epilog= error,e= exact exclude,x= exclusive=? export= gid= gpus,G= gpus-per-node= "
    "gpus-per-task= gres= help,h pack-group|het-group= hold,H immediate,I=? input,i= interactive job-name,J= jobid= "
    "kill-on-bad-exit,K=? label,l licenses,L= mem-per-cpu= mem= mincpus= mpi= msg-timeout= multi-prog nice=? "
    "nodelist,w= nodes,N= ntasks,n= tasks-per-node|ntasks-per-node= open-mode= output,o= overcommit,O overlap "
    "oversubscribe,s "
    "partition,p= preserve-env,E prolog= pty=? qos,q= quiet,Q quit-on-interrupt relative,r= reservation= "
    "resv-ports=? send-libs=? signal= slurmd-debug= task-epilog= task-prolog= test-only threads,T= time,t= tmp= "
    "uid= unbuffered,u usage verbose,v version,V wait,W= whole " + HINTS
) + declare("no-allocate,Z x11=?", refused=True)
_READER = OptionReader("srun", OPTIONS, mixed=False)
_MPI = ("none", "list", "openmpi")  # supported values of --mpi; openmpi is Slurm's older name of none
_MPI_OF_SLURM = (*_MPI, "pmi", "cray_shasta")


def run(words: Sequence[str]) -> int:
    parts = _parts(words)
    for each, its_command in parts:
        with_variables(each, os.environ)
        require_file(each, its_command)
        check_forms("srun", each)
    said, command = parts[0]
    if "help" in said or "usage" in said:
        say("Usage: srun [OPTIONS...] executable [args...]\n" + " ".join(f"--{one.name}" for one in OPTIONS))
        return 0
    if said.get("mpi") == "list":
        say("MPI plugin types are...\n\tnone")
        return 0
    if not command:
        raise Usage("srun: fatal: No command given to execute.")
    if (kind := said.get("mpi")) is not None and not kind.startswith(_MPI_OF_SLURM):
        raise Usage(
            f"srun: error: Couldn't find the specified plugin name for mpi/{kind} looking at all files\n"
            f"srun: error: cannot find mpi plugin for mpi/{kind}\n"
            f"srun: error: MPI: Cannot create context for mpi/{kind}\n"
            "srun: error: MPI: Unable to load any plugin\n"
            f"srun: error: Invalid MPI type '{kind}', --mpi=list for acceptable types"
        )
    if (kind or "none") not in _MPI:
        raise Usage(
            f"srun: error: --mpi={said['mpi']} is not supported by Phalanx, which has no PMI server: in a batch script "
            "or under salloc, start the program with mpirun, which takes its hosts and ranks from the allocation "
            "(docs/guide/slurm.md#mpi)"
        )
    if said.get("gres") == "help":
        say("Valid gres options are:\ngpu[[:type]:count]")
        return 0
    _notice(said)
    if "test-only" in said:
        raise Usage(
            "srun: error: --test-only is not supported by Phalanx: use sbatch --test-only (docs/guide/slurm.md)"
        )
    around = os.environ
    job = said.get("jobid") or around.get("SLURM_JOB_ID", "")
    if not job:
        if any("relative" in each for each, _ in parts):
            raise Usage("srun: fatal: --relative option invalid for job allocation request")
        return _with_own(parts, words)
    if other := next((name for name in ("container-image", "container-mounts") if name in said), None):
        raise Usage(f"srun: error: --{other} of a step is not supported by Phalanx: all steps of a job have its image "
                    "(docs/guide/slurm.md)")  # fmt: skip
    if len(parts) > 1 or "het-group" in said:
        return _on(_of_groups(parts, around, job), job)
    alone = around.get("SLURM_JOB_NUM_NODES", "1") == "1" and "SLURMD_NODENAME" in around and "jobid" not in said
    if alone and "pty" not in said:
        return _beside(said, command, around, job)
    return _within(said, command, job)


def _notice(said: dict[str, str | None]) -> None:
    """Print Slurm's messages about options that srun must ignore or change, and remove or change these options in
    `said`."""
    if (level := said.get("slurmd-debug")) is not None and _debug_level(level) > _MOST_DEBUG:
        say(f"srun: Using srun's max debug increment of {_MOST_DEBUG}")
    if "threads-per-core" in said:
        say("srun: cluster configuration lacks support for cpu binding")
    if "pty" in said and not sys.stdin.isatty():
        say("srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device")
        say("srun: error: Not using a pseudo-terminal, disregarding --pty option")
        del said["pty"]
    try:
        most = amounts.read_range(said.get("nodes") or "")[1]
    except amounts.AmountError:
        return  # another function parses the value and reports the error
    if len(wanted := expand(said.get("nodelist") or "")) > most:
        say(
            "srun: error: Required nodelist includes more nodes than permitted by max-node count "
            f"({len(wanted)} > {most}). Eliminating nodes from the nodelist."
        )
        said["nodelist"] = ",".join(wanted[:most])
    tasks, each = said.get("ntasks"), said.get("ntasks-per-node")
    if tasks and each and int(tasks) > most and int(tasks) != int(each) * most:
        say(
            f"srun: Warning: can't honor --ntasks-per-node set to {each} which doesn't match the requested tasks "
            f"{tasks} with the number of requested nodes {most}. Ignoring --ntasks-per-node."
        )
        del said["ntasks-per-node"]


_MOST_DEBUG = 4
_DEBUG_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")


def _debug_level(text: str) -> int:
    """Return the number of a debug level of --slurmd-debug. As in Slurm, an unknown name counts as above all levels."""
    if text.isdecimal():
        return int(text)
    return _DEBUG_LEVELS.index(text.lower()) if text.lower() in _DEBUG_LEVELS else len(_DEBUG_LEVELS)


def _parts(words: Sequence[str]) -> list[tuple[dict[str, str | None], list[str]]]:
    """Return the options and the command of each part of a command line such as `srun OPTIONS COMMAND : OPTIONS
    COMMAND`. A part without a command has the command of the last part."""
    found: list[tuple[dict[str, str | None], list[str]]] = []
    rest = list(words)
    while True:
        end = rest.index(":") if ":" in rest else len(rest)
        typed, command = _READER.read(rest[:end], checking("srun"))
        found.append((dict(typed), command))
        if end == len(rest):
            break
        rest = rest[end + 1 :]
    last = found[-1][1]
    return [(said, command or last) for said, command in found]


# --- a step in the pod of this process ------------------------------------------------------------------------------


def _beside(said: Said, command: Sequence[str], around: Mapping[str, str], job: str) -> int:
    _require_nodes(said, 1)
    per_node = said.get("ntasks-per-node") or around.get("SLURM_NTASKS") or "1"
    tasks = _number(said, "ntasks", per_node)
    each = _number(said, "cpus-per-task", around.get("SLURM_CPUS_PER_TASK") or "1")
    cpus = int(around.get("SLURM_CPUS_ON_NODE", "1"))
    steps = JobSteps.of(job, cpus)
    node = around.get("SLURMD_NODENAME", "")
    api, path = _api(), path_within(int(job), around)
    record = _record(said, command, tasks, each, cpus, [node])
    number = _begin(said, job, steps, tasks, each, cpus, lambda least: records.claim(api, path, least, record))
    name = said.get("job-name") or ""
    numbers = layout.block([tasks])
    shared = layout.variables(job, number, name, [node], numbers, said.get("cpus-per-task"), said.get("distribution"))
    shared |= layout.of_node(0, node, numbers[0], cpus) | {"SLURM_TASKS_PER_NODE": str(tasks)}
    shared["SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0"] = around.get("SLURM_JOB_CPUS_PER_NODE") or str(cpus)
    of_task = commands(said, command, tasks)
    bad = said.get("kill-on-bad-exit")
    environment = _environment(said, around, shared)
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
        kill_s=_kill_s(said),
        **_around_tasks(said),
        kill_on_bad_exit="kill-on-bad-exit" in said and bad != "0",
    )
    try:
        work = partial(around_step, said, command, {**around, **shared}, lambda: run_tasks(step))
        return _recorded(api, path, number, record, work)
    finally:
        steps.end()


def _api() -> ApiClient | None:
    try:
        return ApiClient.open()
    except Unreachable:
        return None


def _recorded(
    api: ApiClient | None, path: str, number: int, record: StepRecord, work: Callable[[], dict[int, int]]
) -> int:
    """Run the step by calling `work`, record its end, and return its exit code: the highest exit code of its tasks. A
    task that a signal ended counts as 128 plus the signal number."""
    code, signal = highest(work())
    records.write(api, path, number, records.ended(record, code, signal))
    return 128 + (SIGKILL if signal == OUT_OF_MEMORY else signal) if signal else code


def _record(said: Said, command: Sequence[str], tasks: int, each: int, cpus: int, nodes: Sequence[str]) -> StepRecord:
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


# --- steps on the pods of an allocation -----------------------------------------------------------------------------


def _with_own(parts: Sequence[tuple[dict[str, str | None], list[str]]], words: Sequence[str]) -> int:
    from phalanx.slurm.submission.interactive import finish, grant

    for said, _ in parts:
        _fit_nodes(said)
    said, command = parts[0]
    name = said.get("job-name") or os.path.basename(command[0])
    granted = grant("srun", STEP, [one for one, _ in parts], name, " ".join(["srun", *words]))
    first, code = granted.place, 1
    around = {**os.environ, **_of_allocation(first, granted.site.cluster), **granted.groups}
    try:
        if len(parts) == 1:
            code = _on([_Part(said=said, command=command, place=first, around=around)], str(first.number))
        else:
            code = _on(_of_groups(parts, around, str(first.number)), str(first.number))
    finally:
        finish(granted, code)
    return code


def _of_allocation(place: Allocation, cluster: str) -> dict[str, str]:
    from phalanx.slurm.submission.environment import allocated

    return allocated(place.number, place.ask, cluster, place.nodes)


def _fit_nodes(said: dict[str, str | None]) -> None:
    """Reduce the requested number of nodes to the number of tasks if it is larger, and print Slurm's warning."""
    try:
        tasks, (least, _) = int(said.get("ntasks") or 0), amounts.read_range(said.get("nodes") or "1")
    except (ValueError, amounts.AmountError):
        return  # other functions parse the values and report errors
    if 0 < tasks < least:
        say(f"srun: Warning: can't run {tasks} processes on {least} nodes, setting nnodes to {tasks}")
        said["nodes"] = str(tasks)


def _within(said: Said, command: Sequence[str], job: str) -> int:
    if not job.isdecimal():
        raise Usage(f"srun: error: Unable to confirm allocation for job {job}: Invalid job id specified")
    try:
        place = allocation(ApiClient.open(), int(job))
    except Gone as error:
        why = "Job is pending execution" if isinstance(error, Waits) else "Invalid job id specified"
        raise Usage(
            f"srun: error: Unable to confirm allocation for job {job}: {why}\n"
            f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job}"
        ) from None
    if place.ask.het is not None:
        return _on(_of_groups([({**said, "het-group": "0"}, list(command))], os.environ, job), job)
    return _on([_Part(said=said, command=command, place=place, around=os.environ)], job)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
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
        return _number(self.said, "cpus-per-task", default)

    def laid(self) -> tuple[list[int], list[list[int]], list[int]]:
        """Return the indexes of the nodes that this part uses, the numbers of the tasks on each of these nodes (counted
        from 0), and the CPUs of each of these nodes. Raises Usage."""
        ask, said = self.place.ask, self.said
        if "cpus-per-gpu" in said and not ask.total_gpus:
            what = f"srun: error: Unable to create step for job {self.place.number}"
            raise Usage(f"{what}: Invalid generic resource (gres) specification")
        chosen, tasks = _sized(said, self.place, self.around)
        cpus = [ask.cpus_of_nodes[min(index, len(ask.cpus_of_nodes) - 1)] for index in chosen]
        per_node = _number(said, "ntasks-per-node", "0", 0) or (ask.tasks_per_node if "ntasks" not in said else 0)
        counts = amounts.spread(tasks, [count // self.each for count in cpus], per_node)
        cyclic = (said.get("distribution") or "").startswith("cyclic")
        return chosen, layout.cyclic(counts) if cyclic else layout.block(counts), cpus


def _of_groups(
    parts: Sequence[tuple[dict[str, str | None], list[str]]], around: Mapping[str, str], job: str
) -> list[_Part]:
    """Return the parts of the step, each on its component of the heterogeneous job. --het-group names the components of
    a part; without it, each part runs on the component at the same position."""
    first, size = int(around.get("SLURM_JOB_ID_HET_GROUP_0") or job), int(around.get("SLURM_HET_SIZE") or 1)
    api, found = ApiClient.open(), list[_Part]()
    for at, (said, command) in enumerate(parts):
        for group in _groups(said.get("het-group") or str(at), size):
            tasks = around.get(f"SLURM_NTASKS_HET_GROUP_{group}", "")
            own = {**around, "SLURM_NTASKS": tasks, "SLURM_CPUS_PER_TASK": ""}
            try:
                place = allocation(api, first + group)
            except Gone:
                raise Usage(f"srun: error: Unable to confirm allocation for job {first}+{group}") from None
            found.append(_Part(said=said, command=command, place=place, around=own, group=group))
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


def _environment(said: Said, around: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that all tasks of a step share. `around`: the environment of srun. `shared`: the
    variables that Slurm sets for the step."""
    found = {**_exported(said.get("export"), around), **shared, **layout.gpu_options(said)}
    return preserved(said, found, os.environ)


def _on(parts: Sequence[_Part], job: str) -> int:
    """Run a step of job number `job`, and return its exit code. The parts share one numbering of their tasks."""
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
    record = _record(said, first.command, tasks, first.each, sum(cpus), nodes)
    record.components = tuple(part.group for part in parts)
    api, path = ApiClient.open(), path_of(int(leader)) if ask.het is not None else path_of(place.number, ask)
    number = _begin(
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
        environment=_environment(said, around, shared),
        directory=said.get("chdir") or os.getcwd(),
        streams=streams_of(said, around, leader, number),
        label="label" in said,
        terminal="pty" in said,
        kill_s=_kill_s(said),
        **_around_tasks(said),
        kill_on_bad_exit="kill-on-bad-exit" in said and said.get("kill-on-bad-exit") != "0",
        first_input=int(said_input) if said_input is not None and said_input.isdecimal() else ALL,
    )

    def work() -> dict[int, int]:
        codes, used = around_step(said, first.command, {**around, **shared}, lambda: run_remote(step, place))
        record.cpu_s, record.peak_kib = used["cpu_s"], used["peak_kib"]
        return codes

    try:
        return _recorded(api, path, number, record, work)
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
    """Return one allocation with the chosen pods of all these allocations. `chosen`: the indexes of the pods in each
    allocation. The step daemons of all components have the same key."""
    pairs = [(place, index) for place, some in zip(places, chosen, strict=True) for index in some]
    return replace(places[0], pods=tuple(place.pods[index] for place, index in pairs))


def _sized(said: Said, place: Allocation, around: Mapping[str, str]) -> tuple[list[int], int]:
    """Return the indexes of the nodes in the allocation that the step uses, and the number of its tasks."""
    given = len(place.nodes)
    _require_nodes(said, given)
    excluded = set(expand(said.get("exclude") or "")) if "jobid" in said or "SLURM_JOB_ID" in around else set()
    wanted = set(expand(said.get("nodelist") or ""))
    free = [index for index, node in enumerate(place.nodes) if node not in excluded]
    first = [index for index in free if place.nodes[index] in wanted]
    order = [*first, *(index for index in free if index not in first)]
    count = amounts.read_range(said["nodes"] or "")[0] if said.get("nodes") else len(first) or len(free)
    per_node = _number(said, "ntasks-per-node", "0", 0)
    default = around.get("SLURM_NTASKS") if "nodes" not in said and not per_node else None
    own = place.ask.tasks if place.ask.kind == STEP else None
    tasks = _number(said, "ntasks", str(own or default or count * max(1, per_node)))
    if tasks < count:
        if "nodes" in said or place.ask.kind != STEP:
            say(f"srun: Warning: can't run {tasks} processes on {count} nodes, setting nnodes to {tasks}")
        count = tasks
    return sorted(order[:count]), tasks


# --- what both have -------------------------------------------------------------------------------------------------


def _number(said: Said, name: str, default: str, least: int = 1) -> int:
    text = said.get(name) or default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= 1_000_000:
        raise Usage(f'srun: error: Invalid numeric value "{text}" for --{name}.')
    return number


def _require_nodes(said: Said, given: int) -> None:
    if "nodes" in said:
        try:
            least, _ = amounts.read_range(said["nodes"] or "")
        except amounts.AmountError:
            raise Usage(f"srun: error: invalid node count `{said['nodes']}'") from None
        if least > given:
            raise Usage(f"srun: error: Only allocated {given} nodes asked for {least}")


def _begin(said: Said, job: str, steps: JobSteps, tasks: int, each: int, cpus: int, claim: Callable[[int], int]) -> int:
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


def _around_tasks(said: Said) -> dict[str, str]:
    """Return the programs of --task-prolog and --task-epilog as the arguments `prolog` and `epilog` of a step."""
    return {part: said.get(f"task-{part}") or "" for part in ("prolog", "epilog")}


def _kill_s(said: Said) -> float | None:
    return float(said["wait"] or 0) or None if "wait" in said else None


def _exported(said: str | None, around: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that the tasks inherit from srun. `said`: the value of --export. With
    --export=NONE or a list of names, these are only the variables of Slurm and the named ones. As in Slurm, PATH is
    missing then, so programs need full paths."""
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
