"""Choose the node of each task of a step (srun(1), --distribution), and set the environment variables of the tasks."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from functools import cache

from phalanx.slurm.notation.amounts import per_node
from phalanx.slurm.notation.hostlist import compress

_PER_TASK, _BIND = "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND"


def block(counts: Sequence[int]) -> list[list[int]]:
    """Return the task numbers of each node. The first node gets the first tasks. `counts`: the number of tasks on each
    node."""
    found, first = [], 0
    for count in counts:
        found.append(list(range(first, first + count)))
        first += count
    return found


def cyclic(counts: Sequence[int]) -> list[list[int]]:
    """Return the task numbers of each node. The nodes get one task after the other in turn; a node with all tasks that
    `counts` allows is skipped."""
    found: list[list[int]] = [[] for _ in counts]
    task = 0
    while task < sum(counts):
        for at, count in enumerate(counts):
            if len(found[at]) < count:
                found[at].append(task)
                task += 1
    return found


def gpu_options(said: Mapping[str, str | None]) -> dict[str, str]:
    """Return the GPU options of a step as the environment variables of Slurm. `gpus_of_task` reads these variables."""
    names = (("gpus-per-task", _PER_TASK), ("gpu-bind", _BIND))
    return {variable: value for option, variable in names if (value := said.get(option))}


def gpus_of_task(given: str, around: Mapping[str, str], local: int) -> dict[str, str]:
    """Return the variables that restrict a task to its own GPUs. As in Slurm, `--gpus-per-task` has the effect of
    `--gpu-bind=per_task`: each task sees only its own GPUs.

    `given`: the GPUs of the node (`0,1,2`). `around`: the environment of the step; if the step has a `--gpu-bind`,
    tasks are not restricted. `local`: the number of the task on its node. The result is empty if the task sees all GPUs
    of the node. Source: srun(1)."""
    gpus, count = given.split(",") if given else [], around.get(_PER_TASK, "").rpartition(":")[2]
    each = int(count) if count.isdecimal() and not around.get(_BIND) else 0
    own = gpus[local * each : (local + 1) * each]
    if not each or len(own) < each:
        return {}
    return dict.fromkeys(("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"), ",".join(own))


def variables(
    job: str,
    step: int,
    name: str,
    nodes: Sequence[str],
    tasks: Sequence[Sequence[int]],
    cpus_per_task: str | None,
    distribution: str | None = None,
) -> dict[str, str]:
    """Return the variables that have the same value for all tasks of a step. `job`, `step`: the numbers of the job and
    the step.
    `name`: the name of the job; empty if it is not set. `tasks`: for each node its task numbers. `distribution`: the
    requested distribution, if any."""
    counts, total = per_node([len(some) for some in tasks]), str(sum(len(some) for some in tasks))
    spread = distribution or ("cyclic" if int(total) <= len(nodes) else "block")
    listed = compress(nodes, ordered=True)
    found = {
        "SLURM_JOB_ID": job, "SLURM_JOBID": job, "SLURM_STEP_ID": str(step), "SLURM_STEPID": str(step),
        "SLURM_STEP_NUM_TASKS": total, "SLURM_STEP_NUM_NODES": str(len(nodes)), "SLURM_STEP_NODELIST": listed,
        "SLURM_STEP_TASKS_PER_NODE": counts, "SLURM_STEP_LAUNCHER_PORT": "0", "SLURM_SRUN_COMM_PORT": "0",
        "SLURM_LAUNCH_NODE_IPADDR": address(), "SLURM_SRUN_COMM_HOST": address(), "SLURM_UMASK": f"{own_umask():04o}",
        "SLURM_DISTRIBUTION": spread, "SLURM_NTASKS": total, "SLURM_NPROCS": total, "SLURM_NNODES": str(len(nodes)),
    }  # fmt: skip
    if cpus_per_task is not None:
        found["SLURM_CPUS_PER_TASK"] = cpus_per_task
    if name:
        found["SLURM_JOB_NAME"] = name
    return found


@cache
def address() -> str:
    """Return the address of the machine on which srun runs, for the environment variables with this address."""
    if own := os.environ.get("PHALANX_POD_IP"):
        return own
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def own_umask() -> int:
    """Return the umask of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def of_node(index: int, node: str, tasks: Sequence[int], cpus: int) -> dict[str, str]:
    """Return the variables that have the same value for all tasks on one node."""
    return {
        "SLURMD_NODENAME": node, "SLURM_NODEID": str(index), "SLURM_GTIDS": ",".join(map(str, tasks)),
        "SLURM_CPUS_ON_NODE": str(cpus), "SLURM_TOPOLOGY_ADDR": node, "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }  # fmt: skip
