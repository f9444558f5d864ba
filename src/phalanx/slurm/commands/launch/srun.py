"""srun: run the tasks of a step, in an existing allocation or in a new one.

If the job has only one pod and srun runs in it, the tasks are child processes of srun (`srun_in_pod`). This needs
neither the network nor the API server. Otherwise the step daemons of the allocation's pods run the tasks
(`srun_in_allocation`). This module reads the command line, and gets the allocation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.launch.srun_in_allocation import StepPart, group_parts, run_in_allocation
from phalanx.slurm.commands.launch.srun_in_pod import run_in_pod
from phalanx.slurm.commands.launch.srun_options import Said, require_file, with_variables
from phalanx.slurm.jobs.ask import STEP
from phalanx.slurm.jobs.steps.pods.place import Allocation, Gone, Waits, allocation
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
_MPI = ("none", "list", "openmpi")  # supported values of --mpi; openmpi is Slurm's older name for none
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
        return run_in_allocation(group_parts(parts, around, job), job)
    alone = around.get("SLURM_JOB_NUM_NODES", "1") == "1" and "SLURMD_NODENAME" in around and "jobid" not in said
    if alone and "pty" not in said:
        return run_in_pod(said, command, around, job)
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
    """Return the number of a debug level of --slurmd-debug. As in Slurm, an unknown name counts as a level above all
    others."""
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
            code = run_in_allocation(
                [StepPart(said=said, command=command, place=first, around=around)], str(first.number)
            )
        else:
            code = run_in_allocation(group_parts(parts, around, str(first.number)), str(first.number))
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
        return run_in_allocation(group_parts([({**said, "het-group": "0"}, list(command))], os.environ, job), job)
    return run_in_allocation([StepPart(said=said, command=command, place=place, around=os.environ)], job)
