"""What a trace says: jobs, how long each really runs, and the cluster it ran on.

A `Task` is a job together with what no scheduler is told: its run time. A workload's amounts are *counted* in one
resource (processors in a log of a parallel machine, GPUs in a GPU trace): utilisation, sizes and fairness speak of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from phalanx.model.job import Job, Role
from phalanx.model.node import Node, Reservation, Topology
from phalanx.model.pod import CPU, PODS, DeviceShare, Shape, amounts

GPU = "nvidia.com/gpu"
MILLI_CPU = MILLI = 1000  # cpu is held in millicores, shares of devices in thousandths
Worth: TypeAlias = tuple[tuple[float, float], ...]  # (seconds from its submission, what it is worth to be over by then)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`job` as it would be submitted: `limit_s` is what its user asked for; `submitted_s` counts from the trace's
    own origin. `run_s`: how long it runs with all its pods if nobody stops it. `queue`: what the trace calls its queue,
    virtual cluster or partition. `waited_s`: how long it waited in the trace, where that is known.
    `restart_s`: how much of its work it loses when it is saved, stopped and started again. `active_s`:
    it fails when it was started that long ago (a Job's `activeDeadlineSeconds`), whether all its pods ran or not.
    `worth`: by when it is worth how much to be over; of one with a deadline and no such row, 1 by then.
    `overruns`: nobody stops it at its limit, which is then only what the scheduler is told.
    `follows`: it is submitted `think_s` after that job is over, whenever that is; without a `think_s`, then, or when
    the job says if that is later."""

    job: Job
    run_s: float
    queue: str = ""
    waited_s: float | None = None
    restart_s: float = 0.0
    active_s: float | None = None
    worth: Worth = ()
    overruns: bool = False
    follows: str = ""
    think_s: float | None = None

    @property
    def stop_s(self) -> float | None:
        """Return after how long a run the task is stopped."""
        return None if self.overruns else self.job.limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Tasks in the order of their submission (equal times: as in the file). `topologies`: how the nodes hang together,
    unless the policy says it; `reservations`: of them. `unit`: how many of `counted` one processor (GPU) is.
    `dropped`: how many records of the trace are no jobs that ran, and why; `faults`: what could not be read, and
    where."""

    name: str
    tasks: Sequence[Task]
    nodes: tuple[Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    counted: str = CPU
    unit: int = MILLI_CPU
    dropped: tuple[tuple[str, int], ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def device_bytes(self) -> float:
        """The memory of a device of the counted resource, on average over those that say it; 0: none does."""
        devices = (device for node in self.nodes for device in node.devices if device.resource == self.counted)
        said = [device.memory_bytes for device in devices if device.memory_bytes]
        return sum(said) / len(said) if said else 0.0


def alone(job: Job) -> Job:
    """The same without what ties it to others, and to a reservation."""
    return replace(job, after=(), requires_any=False, singleton="", array="", array_cap=None, reservation="")


def of_share(share: DeviceShare, device_bytes: float) -> float:
    """How many devices it is, where one has so much memory (0: nobody says; memory is then as good as the device)."""
    if share.milli:
        return share.count * share.milli / MILLI
    return share.count * min(1.0, share.memory_bytes / device_bytes if device_bytes else 1.0)


def of_role(role: Role, resource: str, device_bytes: float = 0.0) -> float:
    """How much of a resource one pod of the role asks; a share of devices counts as the part of them that it is."""
    share = role.shape.share
    shared = of_share(share, device_bytes) if share and share.resource == resource else 0
    return shared + sum(amount for name, amount in role.shape.requests if name == resource)


def of_resource(roles: Sequence[Role], resource: str, device_bytes: float = 0.0) -> float:
    """How much of a resource all pods of the roles ask."""
    return sum(of_role(role, resource, device_bytes) * role.count for role in roles)


def processors(count: int) -> Role:
    """Return the shape of one pod that asks that many processors: how a log's machine, which is counted and not placed,
    is asked."""
    return Role(name="", count=1, minimum=1, shape=Shape(requests=amounts({CPU: count * MILLI_CPU})))


@lru_cache(maxsize=65536)
def gang(resource: str, amount: int, per_node: int) -> tuple[Role, ...]:
    """As many pods of all that a node has as that takes, and one of what is left over."""
    full, left = divmod(amount, per_node)
    pods = [("full", full, per_node)] if full else []
    pods += [("rest" if full else "", 1, left)] if left else []
    return tuple(
        Role(name=name, count=count, minimum=count, shape=Shape(requests=amounts({resource: each})))
        for name, count, each in pods
    )


def on_nodes(workload: Workload) -> Workload:
    """Where a trace says no more than how much a job asks in all: no pod asks more than the largest node has."""
    counted, unit = workload.counted, workload.unit
    most = max((dict(node.allocatable).get(counted, 0) for node in workload.nodes), default=0) // unit * unit
    return workload if not most else replace(workload, tasks=[divided(task, counted, most) for task in workload.tasks])


def divided(task: Task, resource: str, most: int) -> Task:
    asked = [role.shape.requests for role in task.job.roles]
    if any([name for name, _ in each] != [resource] for each in asked) or all(each[0][1] <= most for each in asked):
        return task
    whole = int(of_resource(task.job.roles, resource))
    return replace(task, job=replace(task.job, roles=gang(resource, whole, most)))


def machine(count: int, name: str = "machine") -> Node:
    """All of a log's processors as one node."""
    return Node(name=name, allocatable=amounts({CPU: count * MILLI_CPU, PODS: max(count, 1)}))


def gpu_nodes(count: int, gpus: int) -> tuple[Node, ...]:
    """Nodes of that many GPUs each, with cpu for whatever runs beside them."""
    room = amounts({GPU: gpus, CPU: 64 * MILLI_CPU, PODS: 110})
    width = len(str(max(count - 1, 0)))
    return tuple(Node(name=f"node-{index:0{width}}", allocatable=room) for index in range(count))


def in_order(tasks: Iterable[Task]) -> list[Task]:
    """By submission; those of the same moment stay in order."""
    return sorted(tasks, key=lambda task: task.job.submitted_s)
