"""srun: start the tasks of a step within the allocation of a batch job of one node.

The script runs in the pod that is the allocation, so a step is processes beside it: no agent and no network are needed.
Steps that need other nodes, and srun without an allocation, are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from phalanx.slurm.jobs.steps.booking import Busy, Steps
from phalanx.slurm.jobs.steps.tasks import Step
from phalanx.slurm.jobs.steps.tasks import run as run_tasks
from phalanx.slurm.notation import amounts
from phalanx.slurm.options import Reader, Usage, declare, say

OPTIONS = declare(
    "chdir,D= cpus-per-task,c= error,e= exact exclusive=? export= help,h immediate,I=? job-name,J= "
    "kill-on-bad-exit,K=? label,l mem= mem-per-cpu= mpi= nodes,N= ntasks,n= ntasks-per-node= output,o= overlap "
    "quiet,Q unbuffered,u usage version,V wait,W="
) + declare(
    "account,A= array,a= bcast=? begin,b= cluster-constraint= comment= constraint,C= container= contiguous "
    "core-spec,S= cpu-bind= cpu-freq= cpus-per-gpu= deadline= dependency,d= disable-status,X distribution,m= "
    "epilog= exclude,x= gpu-bind= gpus,G= gpus-per-node= gpus-per-task= gres= het-group= hint= hold,H input,i= jobid= "
    "licenses,L= mem-bind= mem-per-gpu= multi-prog nice=? no-kill,k nodelist,w= open-mode= overcommit,O "
    "oversubscribe,s partition,p= preserve-env,E prolog= propagate=? pty qos,q= relative,r= reservation= signal= "
    "slurmd-debug= task-epilog= task-prolog= test-only threads= time,t= threads-per-core= tmp= uid= verbose,v wckey= "
    "switches=",
    refused=True,
)
_READER = Reader("srun", OPTIONS, mixed=False)
_PATTERN = re.compile(r"%(\d*)([%a-zA-Z])")


def run(words: Sequence[str]) -> int:
    typed, command = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    if "help" in said or "usage" in said:
        say("Usage: srun [OPTIONS...] executable [args...]")
        return 0
    if not command:
        raise Usage("srun: fatal: No command given to execute.")
    around = os.environ
    job = around.get("SLURM_JOB_ID", "")
    if not job or "SLURM_CPUS_ON_NODE" not in around:
        raise Usage(
            "srun: error: srun without an allocation is not supported by Phalanx: use sbatch (docs/guide/slurm.md)"
        )
    if around.get("SLURM_JOB_NUM_NODES", "1") != "1":
        raise Usage("srun: error: steps on several nodes are not supported by Phalanx (docs/guide/slurm.md)")
    if (said.get("mpi") or "none") != "none":
        raise Usage(f"srun: error: --mpi={said['mpi']} is not supported by Phalanx (docs/guide/slurm.md)")
    return _step(said, command, around, job)


def _number(said: Mapping[str, str | None], name: str, default: str) -> int:
    text = said.get(name) or default
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise Usage(f'srun: error: Invalid numeric value "{text}" for --{name}.')
    return number


def _step(said: Mapping[str, str | None], command: Sequence[str], around: Mapping[str, str], job: str) -> int:
    _one_node(said)
    per_node = said.get("ntasks-per-node") or around.get("SLURM_NTASKS") or "1"
    tasks = _number(said, "ntasks", per_node)
    each = _number(said, "cpus-per-task", around.get("SLURM_CPUS_PER_TASK") or "1")
    cpus = int(around["SLURM_CPUS_ON_NODE"])
    if tasks * each > cpus:
        raise Usage(f"srun: error: Unable to create step for job {job}: More processors requested than permitted")
    shares = "exact" in said or "exclusive" in said or "cpus-per-task" in said
    held = 0 if "overlap" in said else tasks * each if shares else cpus
    steps = Steps.of(job, cpus)
    wait_s = float(said["immediate"] or 1) if "immediate" in said else None
    try:
        number = steps.begin(held, wait_s)
    except Busy:
        raise Usage(f"srun: error: Unable to create step for job {job}: Requested nodes are busy") from None
    try:
        return run_tasks(_described(said, command, around, job, number, tasks))
    finally:
        steps.end()


def _one_node(said: Mapping[str, str | None]) -> None:
    if "nodes" in said:
        try:
            least, _ = amounts.read_range(said["nodes"] or "")
        except amounts.AmountError:
            raise Usage(f"srun: error: invalid node count `{said['nodes']}'") from None
        if least > 1:
            raise Usage(f"srun: error: Only allocated 1 nodes asked for {least}")


def _described(
    said: Mapping[str, str | None], command: Sequence[str], around: Mapping[str, str], job: str, number: int, tasks: int
) -> Step:
    node = around.get("SLURMD_NODENAME", "")
    listed = ",".join(map(str, range(tasks)))
    shared = {
        "SLURM_STEP_ID": str(number),
        "SLURM_STEPID": str(number),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_TASKS_PER_NODE": str(tasks),
        "SLURM_STEP_NODELIST": node,
        "SLURM_TASKS_PER_NODE": str(tasks),
        "SLURM_NTASKS": str(tasks),
        "SLURM_NPROCS": str(tasks),
        "SLURM_NNODES": "1",
        "SLURM_NODEID": "0",
        "SLURM_GTIDS": listed,
    }
    if said.get("cpus-per-task"):
        shared["SLURM_CPUS_PER_TASK"] = said["cpus-per-task"] or ""
    if said.get("job-name"):
        shared["SLURM_JOB_NAME"] = said["job-name"] or ""
    bad = said.get("kill-on-bad-exit")
    return Step(
        command=command,
        environment={**_exported(said.get("export"), around), **shared},
        of_task=[{"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)} for task in range(tasks)],
        directory=said.get("chdir") or os.getcwd(),
        node=node,
        label="label" in said,
        outputs=_outputs(said, around, job, number),
        kill_s=float(said["wait"] or 0) or None if "wait" in said else None,
        kill_on_bad_exit="kill-on-bad-exit" in said and bad != "0",
    )


def _exported(said: str | None, around: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment; with --export=NONE or names, Slurm's own variables and these."""
    words = (said or "ALL").split(",")
    found = (
        dict(around) if "ALL" in words else {name: text for name, text in around.items() if name.startswith("SLURM")}
    )
    found.setdefault("PATH", around.get("PATH", "/usr/local/bin:/usr/bin:/bin"))
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif word in around:
            found[word] = around[word]
    return found


def _outputs(
    said: Mapping[str, str | None], around: Mapping[str, str], job: str, number: int
) -> Callable[[int], tuple[str | None, str | None]]:
    known = {
        "j": job, "A": job, "J": f"{job}.{number}", "s": str(number), "n": "0", "u": around.get("SLURM_JOB_USER", ""),
        "x": around.get("SLURM_JOB_NAME", ""), "N": around.get("SLURMD_NODENAME", ""), "%": "%",
    }  # fmt: skip

    def named(pattern: str | None, task: int) -> str | None:
        if not pattern or pattern == "all":
            return None
        own = {**known, "t": str(task)}
        return _PATTERN.sub(lambda match: own.get(match[2], match[0]).zfill(int(match[1] or 0)), pattern)

    def of(task: int) -> tuple[str | None, str | None]:
        output = named(said.get("output"), task)
        return output, named(said.get("error"), task) or output

    return of
