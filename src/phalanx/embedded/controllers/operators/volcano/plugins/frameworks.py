"""tensorflow, pytorch, mpi, ray and hcclrank: who each process of a distributed program is, as its framework asks.

Source: pkg/controllers/job/plugins/distributed-framework of Volcano v1.15.1. Kept as they are there: RANK is 0 for
every pod of pytorch's master task, and ray's containers run ray whatever command their template has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import SERVICES, Kind
from phalanx.embedded.controllers.operators.volcano.job_spec import JobFault, JobSpec, VolcanoTask
from phalanx.embedded.controllers.operators.volcano.kinds import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from phalanx.embedded.controllers.operators.volcano.plugins.flags import read_flags
from phalanx.embedded.controllers.operators.volcano.plugins.hosts import host, hosts

Flags = dict[str, str | int | bool]
_TENSORFLOW: Flags = {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": 2222}
_PYTORCH: Flags = {
    "master": "master",
    "worker": "worker",
    "port": 23456,
    "wait-master-enabled": False,
    "wait-master-timeout": 300,
    "wait-master-image": "busybox:1.36.1",
}
_MPI: Flags = {"master": "master", "worker": "worker", "port": 22}
_HCCL: Flags = {"master": "master", "worker": "worker"}
_RAY: Flags = {
    "head": "head",
    "headContainer": "head",
    "worker": "worker",
    "workerContainer": "worker",
    "port": 6379,
    "dashboardPort": 8265,
    "clientPort": 10001,
}


def tensorflow(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set TF_CONFIG: the hosts of the cluster, and the role and index of this pod."""
    if len(job.tasks) == 1 and job.tasks[0].replicas == 1:
        return
    said = read_flags(arguments, _TENSORFLOW)
    cluster, kind = {}, task.name
    for role in ("ps", "worker", "chief", "evaluator"):
        if (found := job.task(str(said[role]))) is not None:
            cluster[role] = [f"{name}:{said['port']}" for name in hosts(job, found)]
            kind = role if found is task else kind
    told = {"cluster": cluster, "task": {"type": kind, "index": index}}
    _set(pod["spec"]["containers"], {"TF_CONFIG": json.dumps(told, separators=(",", ":"))})


def pytorch(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK."""
    said = read_flags(arguments, _PYTORCH)
    master, worker = job.task(str(said["master"])), job.task(str(said["worker"]))
    if master is None:
        return
    address, port = host(job, master, 0), int(said["port"])
    told = {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
    told["WORLD_SIZE"] = str(master.replicas + (worker.replicas if worker is not None else 0))
    if task is master:
        told["RANK"] = "0"
    elif task is worker:
        told["RANK"] = str(index + 1)
    containers = pod["spec"]["containers"]
    _set(containers, told)
    _open(containers, "pytorchjob-port", port)
    if said["wait-master-enabled"] and task is worker:
        pod["spec"]["initContainers"] = [*(pod["spec"].get("initContainers") or ()), _waiter(said, address, port)]


def _waiter(said: Flags, address: str, port: int) -> Object:
    script = (
        f"for i in $(seq 1 {int(said['wait-master-timeout']) // 2 or 1}); do "
        f"nc -z -w 2 {address} {port} && exit 0; sleep 2; done; exit 1"
    )
    return {"name": "wait-for-master", "image": said["wait-master-image"], "command": ["sh", "-c", script]}


def mpi(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Open the port of ssh, and set MPI_HOST, the names of the workers, in pods of the master."""
    said = read_flags(arguments, _MPI)
    _open(pod["spec"]["containers"], "mpijob-port", int(said["port"]))
    if task.name == said["master"] and (worker := job.task(str(said["worker"]))) is not None:
        every = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        _set(every, {"MPI_HOST": ",".join(hosts(job, worker))})


def hcclrank(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set the annotation hccl/rankIndex: the RANK of the first container, if it is set; otherwise the pod's number,
    counted over the master's pods and then the workers'."""
    said = read_flags(arguments, _HCCL)
    master = job.task(str(said["master"]))
    first: Object = next(iter(pod["spec"]["containers"]), {})
    rank = next((one.get("value") for one in first.get("env") or () if one["name"] == "RANK"), None)
    if rank is None and task is master:
        rank = str(index)
    elif rank is None and task.name == said["worker"]:
        rank = str((master.replicas if master is not None else 0) + index)
    if rank is not None:
        pod["metadata"]["annotations"]["hccl/rankIndex"] = rank


def ray(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set the commands of the head and the workers. Raises JobFault if there is no head task."""
    said = read_flags(arguments, _RAY)
    head = job.task(str(said["head"]))
    if head is None:
        raise JobFault(f"the plugin ray needs a task {said['head']!r}, or --head=<its name>")
    if task is head:
        named, command = (
            said["headContainer"],
            (
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={said['port']} "
                f"--dashboard-port={said['dashboardPort']} --ray-client-server-port={said['clientPort']}"
            ),
        )
    elif task.name == said["worker"]:
        named, command = said["workerContainer"], f"ray start --block --address={host(job, head, 0)}:{said['port']}"
    else:
        return
    for container in pod["spec"]["containers"]:
        if container["name"] == named:
            container["command"] = ["sh", "-c", command]
            container.pop("args", None)
            if task is head:
                for name, key in (("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort")):
                    _open([container], name, int(said[key]))


def ray_objects(job: JobSpec, arguments: Sequence[str]) -> Iterator[tuple[Kind, Object]]:
    """Yield the Service of the head."""
    said = read_flags(arguments, _RAY)
    keys = (("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort"))
    ports = [{"name": name, "port": said[key], "targetPort": said[key]} for name, key in keys]
    chosen = {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace, TASK_SPEC: said["head"]}
    yield SERVICES, {"metadata": {"name": f"{job.name}-head-svc"}, "spec": {"selector": chosen, "ports": ports}}


def environment(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set VK_TASK_INDEX and VC_TASK_INDEX in all containers (the plugin `env`)."""
    every = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    _set(every, {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)})


def _set(containers: Sequence[Object], told: Mapping[str, str]) -> None:
    variables: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in told.items()]
    for container in containers:
        container["env"] = [*(container.get("env") or ()), *variables]


def _open(containers: Sequence[Object], name: str, port: int) -> None:
    for container in containers:
        there = container.get("ports") or []
        if not any(one.get("containerPort") == port for one in there):
            container["ports"] = [*there, {"name": name, "containerPort": port}]
