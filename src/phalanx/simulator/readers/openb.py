"""Alibaba's cluster-trace-gpu-v2023 ("openb"; Weng et al., ATC'23): a list of nodes, and lists of pods.

Nodes: `sn,cpu_milli,memory_mib,gpu,model`. Pods: `name,cpu_milli,memory_mib,num_gpu,gpu_milli`. Most lists also
have `gpu_spec, qos,pod_phase,creation_time,deletion_time,scheduled_time` (seconds). A pod with `gpu_milli` below
1000 gets only this part of one GPU, in thousandths. `gpu_spec` names the GPU models that the pod accepts, separated
by `|`. The run time of a pod is the time from its scheduling in the trace (or from its creation, if it was never
scheduled) to its deletion. In a list without times, one pod is submitted each second, and no pod ever ends."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from pathlib import Path

from phalanx.model.job import Job, Role
from phalanx.model.node import Device, Node
from phalanx.model.pod import CPU, MEMORY, PODS, DeviceShare, NodeTerm, Operator, Requirement, Shape, amounts
from phalanx.simulator.readers.lines import BadRecord, OnError, SourceFile, number, unheard_of, whole
from phalanx.simulator.workload import GPU, MILLI, Task, Workload

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
MODEL = "nvidia.com/gpu.product"
MIB = 2**20
MOST = 10**9
PODS_PER_NODE = 1000  # the trace states no limit; this number is never reached


def read_nodes(path: Path, *, on_error: OnError = OnError.STOP) -> tuple[Node, ...]:
    source, nodes, seen = SourceFile(path, on_error), list[Node](), set[str]()
    for line, row in source.rows(NODE_COLUMNS):
        try:
            nodes.append(node_of(row, seen))
        except BadRecord as bad:
            source.fault(line, bad)
    return tuple(nodes)


def node_of(row: dict[str, str], seen: set[str]) -> Node:
    gpus = whole(row, "gpu", least=0, most=1024)
    room = {
        CPU: whole(row, "cpu_milli", least=0, most=MOST),
        MEMORY: whole(row, "memory_mib", least=0, most=MOST) * MIB,
        GPU: gpus,
        PODS: PODS_PER_NODE,
    }
    return Node(
        name=unheard_of(row, "sn", seen),
        allocatable=amounts(room),
        labels=((MODEL, row["model"]),) if row["model"] else (),
        devices=tuple(Device(name=f"gpu-{index}", resource=GPU) for index in range(gpus)),
    )


def read(path: Path, *, on_error: OnError = OnError.STOP) -> Workload:
    source, tasks, seen = SourceFile(path, on_error), list[Task](), set[str]()
    for line, row in source.rows(POD_COLUMNS):
        try:
            task = task_of(source, row, seen, nth=len(tasks))
        except BadRecord as bad:
            source.fault(line, bad)
        else:
            tasks += [] if task is None else [task]
    return source.workload(tasks, counted=GPU, unit=1)


def task_of(source: SourceFile, row: dict[str, str], seen: set[str], nth: int) -> Task | None:
    created_s = number(row, "creation_time", least=0, default=float(nth))
    run_s = lived_s(row, created_s)
    if run_s <= 0:
        source.drop("pods that never lived (deleted when they were created)")
        return None
    role = role_of(
        whole(row, "cpu_milli", least=0, most=MOST),
        whole(row, "memory_mib", least=0, most=MOST),
        whole(row, "num_gpu", least=0, most=1024),
        whole(row, "gpu_milli", least=0, most=MILLI),
        row.get("gpu_spec", ""),
    )
    job = Job(id=unheard_of(row, "name", seen), queue="", roles=(role,), submitted_s=created_s, qos=row.get("qos", ""))
    return Task(job=job, run_s=run_s, queue=row.get("qos", ""))


def lived_s(row: dict[str, str], created_s: float) -> float:
    if not row.get("deletion_time"):
        return inf
    began_s = number(row, "scheduled_time", least=0, default=created_s)
    return number(row, "deletion_time", least=0) - max(began_s, created_s)


@lru_cache(maxsize=65536)
def role_of(cpu_milli: int, memory_mib: int, gpus: int, gpu_milli: int, models: str) -> Role:
    shared = gpus == 1 and 0 < gpu_milli < MILLI
    requests = {CPU: cpu_milli, MEMORY: memory_mib * MIB, GPU: 0 if shared else gpus}
    shape = Shape(
        requests=amounts(requests),
        affinity=of_models(models),
        share=DeviceShare(resource=GPU, milli=gpu_milli) if shared else None,
    )
    return Role(name="", count=1, minimum=1, shape=shape)


def of_models(models: str) -> tuple[NodeTerm, ...]:
    if not models:
        return ()
    return ((Requirement(MODEL, Operator.IN, tuple(dict.fromkeys(models.split("|")))),),)
