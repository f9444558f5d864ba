"""Set the environment variables that Slurm sets for a batch script (sbatch(1), OUTPUT ENVIRONMENT VARIABLES).

The launcher in the pod sets the variables whose values are known only when the job runs, such as the names of the
nodes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import BATCH, Ask
from phalanx.slurm.jobs.names import file_name
from phalanx.slurm.jobs.steps.layout import own_umask
from phalanx.slurm.notation.amounts import per_node, read_mib
from phalanx.slurm.notation.arrays import Array
from phalanx.slurm.notation.hostlist import compress
from phalanx.slurm.submission.asked.optional import mail_words
from phalanx.slurm.submission.asked.request import Options
from phalanx.slurm.submission.manifest import launcher

GIVEN = {  # option -> the variable that has its value
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
}


def variables(number: int, ask: Ask, site: Site, said: Options, script: str, array: Array | None) -> dict[str, str]:
    """Return the environment variables of a job or of a task of an array. The variable PHALANX_SCRIPT contains
    `script`. `said`: the options. `array`: the array; None for a single job."""
    nodes = ask.node_count
    cpus = per_node(ask.cpus_of_nodes)
    found = {
        "PHALANX_LAUNCHER": launcher(),
        "PHALANX_SCRIPT": script,
        "PHALANX_WORKDIR": ask.workdir,
        "PHALANX_STDOUT": file_name(ask.stdout, ask, number, running=True),
        "PHALANX_STDERR": file_name(ask.stderr, ask, number, running=True) if ask.stderr else "",
        "PHALANX_STDIN": file_name(ask.stdin, ask, number, running=True),
        "PHALANX_MODE": "append" if (said.get("open-mode") or "").lower().startswith("a") else "truncate",
        "PHALANX_LIMIT_S": "" if ask.limit_min is None else str(ask.limit_min * 60),
        "PHALANX_WARNING": ask.warning,
        "PHALANX_UMASK": f"{own_umask():04o}",
        "SLURM_CLUSTER_NAME": site.cluster,
        "SLURM_WORKING_CLUSTER": f"{site.cluster}:phalanx:0:9728:109",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_CPUS_ON_NODE": str(ask.cpus_of_nodes[0]),
        "SLURM_GTIDS": "0",
        "SLURM_JOBID": str(number),
        "SLURM_JOB_ID": str(number),
        "SLURM_JOB_NAME": ask.name,
        "SLURM_JOB_ACCOUNT": ask.account,
        "SLURM_JOB_CPUS_PER_NODE": cpus,
        "SLURM_JOB_UID": str(ask.uid),
        "SLURM_JOB_GID": str(ask.gid),
        "SLURM_JOB_USER": ask.user,
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_JOB_PARTITION": ask.partition,
        "SLURM_JOB_QOS": ask.qos,
        "SLURM_LOCALID": "0",
        "SLURM_NNODES": str(nodes),
        "SLURM_NODEID": "0",
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_PROCID": "0",
        "SLURM_SUBMIT_DIR": ask.workdir,
        "SLURM_SUBMIT_HOST": ask.host,
        "SLURM_TASKS_PER_NODE": per_node(ask.shares),
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }
    if ask.kind != BATCH and "no-shell" not in said and not ask.het_offset:
        found["PHALANX_HELD"] = "1"  # the allocation must end when its salloc or srun ends
    if ask.overcommit:
        found["SLURM_OVERCOMMIT"] = "1"
    if not {"ntasks", "ntasks-per-node"} & said.keys():  # as many as the CPUs allow (measured with 22.05)
        found["SLURM_TASKS_PER_NODE"] = per_node([cpus // ask.cpus_per_task for cpus in ask.cpus_of_nodes])
    found |= mail_words(ask, site)
    found |= {name: text for name, text in (("PHALANX_PROLOG", site.prolog), ("PHALANX_EPILOG", site.epilog)) if text}
    found |= _memory(ask, said)
    if ask.reservation:
        found["SLURM_JOB_RESERVATION"] = ask.reservation
    if "ntasks" in said or "ntasks-per-node" in said:
        found |= {"SLURM_NTASKS": str(ask.tasks), "SLURM_NPROCS": str(ask.tasks)}
    found |= {name: said[option] or "" for option, name in GIVEN.items() if said.get(option)}
    if ask.gpus_per_node:
        found["SLURM_GPUS_ON_NODE"] = str(ask.gpus_per_node)
    return found | (_of_array(ask, array) if array is not None else {})


def _memory(ask: Ask, said: Options) -> dict[str, str]:
    if said.get("mem-per-gpu"):
        return {"SLURM_MEM_PER_GPU": str(read_mib(said["mem-per-gpu"] or ""))}
    if not ask.memory_mib:
        return {}
    return {"SLURM_MEM_PER_CPU" if ask.per_cpu else "SLURM_MEM_PER_NODE": str(ask.memory_mib)}


def allocated(number: int, ask: Ask, cluster: str, nodes: Sequence[str], said: Options | None = None) -> dict[str, str]:
    """Return the environment variables of a command under salloc, or of the tasks of an srun that created its own
    allocation. `said`: the options of salloc; None for srun."""
    listed = compress(nodes, ordered=True)
    found = {
        "SLURM_CLUSTER_NAME": cluster, "SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_JOBID": str(number),
        "SLURM_JOB_ACCOUNT": ask.account, "SLURM_JOB_CPUS_PER_NODE": per_node(ask.cpus_of_nodes),
        "SLURM_JOB_ID": str(number), "SLURM_JOB_NAME": ask.name, "SLURM_JOB_NODELIST": listed,
        "SLURM_JOB_NUM_NODES": str(ask.node_count), "SLURM_JOB_PARTITION": _partitions(ask),
        "SLURM_JOB_QOS": ask.qos, "SLURM_NNODES": str(ask.node_count), "SLURM_NODELIST": listed,
        "SLURM_SUBMIT_DIR": os.getcwd(), "SLURM_SUBMIT_HOST": ask.host, "SLURM_TASKS_PER_NODE": per_node(ask.shares),
    }  # fmt: skip
    if ask.reservation:
        found["SLURM_JOB_RESERVATION"] = ask.reservation
    if said is None:
        return found | {
            "SLURM_NTASKS": str(ask.tasks), "SLURM_NPROCS": str(ask.tasks), "SLURM_PRIO_PROCESS": "0",
            "SLURM_WORKING_CLUSTER": f"{cluster}:phalanx:0:9728:109",
        }  # fmt: skip
    found["SLURM_NODE_ALIASES"] = "(null)"
    if "ntasks" in said or "ntasks-per-node" in said:
        found |= {"SLURM_NTASKS": str(ask.tasks), "SLURM_NPROCS": str(ask.tasks)}
    if {"mem", "mem-per-cpu", "mem-per-gpu"} & said.keys():
        found |= _memory(ask, said)
    return found | {name: said[option] or "" for option, name in GIVEN.items() if said.get(option)}


def _partitions(ask: Ask) -> str:
    """Return all requested partitions, the partition of the running job first (measured with Slurm 22.05)."""
    return ",".join([ask.partition, *(name for name in ask.partitions if name != ask.partition)])


def _of_array(ask: Ask, array: Array) -> dict[str, str]:
    return {
        "SLURM_ARRAY_JOB_ID": str(ask.array),
        "SLURM_ARRAY_TASK_ID": str(ask.task),
        "SLURM_ARRAY_TASK_COUNT": str(len(array.tasks)),
        "SLURM_ARRAY_TASK_MAX": str(array.tasks[-1]),
        "SLURM_ARRAY_TASK_MIN": str(array.tasks[0]),
        "SLURM_ARRAY_TASK_STEP": str(array.step),
    }
