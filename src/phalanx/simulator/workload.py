"""A workload: the node groups of the simulated cluster, the jobs with their true run times, and special job orders for
queues, which only a simulation offers.

The first part of the module describes node groups of a simulated cluster: the nodes that a provider offers, and how
often the provider is late or fails.

The second part of the module has the jobs and the cluster of the trace. A `Task` is a job together with its true run
time, which the scheduler does not know. Each workload has one *counted* resource: processors in a log of a parallel
machine, GPUs in a GPU trace. Utilisation, the sizes of jobs, and fairness are measured in the counted resource.

The third part of the module orders the jobs of a queue by a formula. The inputs of the formula are the estimate, the
size and the submission time of a job. In the formulas below, *r* is the estimated run time in seconds (the requested
limit, or the estimate of `--estimates`), *n* the size in processors or GPUs, and *s* the submission time in seconds
since the beginning of the trace. The job with the lowest value of the formula comes first:

    area  r n                        SAF, smallest area first (Carastan-Santos, de Camargo, Trystram, Zrigui, CCGRID'19)
    f1    log10(r) n + 870 log10(s)  F1, found by simulation and regression (Carastan-Santos, de Camargo, SC'17)

The value does not change while the job waits. So the simulator derives the job's priority from the value, and the queue
is ordered by priority. With both formulas, a large job may wait for ever if smaller jobs continue to be submitted.

The fourth part of the module divides the simulation into rounds, and orders the jobs in each round by their remaining
work. A round ends whenever a job is submitted or ends. At the end of a round, all running jobs are checkpointed and
stopped, and all jobs are queued again by their remaining work. The scheduler fills the cluster again, so the jobs with
the least remaining work run. A job that ran in one round and does not run in the next has in effect been preempted. The
scheduler does not know true run times; only the simulated cluster knows the remaining work. So the simulated cluster
sets the job's priority by the remaining work, as an operator would. Each time that a job is checkpointed and stopped,
the last `Task.restart_s` seconds of its work in the round are lost, even if the job continues in the next round. The
simulation of a round takes longer with more running jobs, so such orders are suitable for clusters with hundreds of
jobs, not thousands. The two orders in rounds are those of Muri's simulator (Zhao et al., SIGCOMM'22): SRTF and SRSF.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import log10
from typing import TypeAlias

from phalanx.model.job import Job, Role
from phalanx.model.node import Node, NodeGroup, Reservation, Topology
from phalanx.model.pod import CPU, PODS, DeviceShare, Shape, amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGroup:
    """A node group with the faults of its provider.

    `refused`: the probability that the provider refuses a requested node; the refusal comes after the group's delay.
    `never`: the probability that a requested node never arrives.
    `late`, `late_s`: the probability that a requested node arrives late, and its longest delay in seconds.
    `lifetime_s`: the mean of the exponentially distributed time after which a node is lost like a spot node; 0 if nodes
    are never lost."""

    group: NodeGroup
    refused: float = 0.0
    never: float = 0.0
    late: float = 0.0
    late_s: float = 300.0
    lifetime_s: float = 0.0

    def nodes(self, count: int) -> Iterator[Node]:
        """Yield the first `count` nodes of the group, ready to run pods."""
        for number in range(1, count + 1):
            yield self.node(f"{self.group.name}-{number}")

    def node(self, name: str) -> Node:
        """Return a node of the group that is ready to run pods."""
        template = self.group.template
        return Node(
            name=name,
            allocatable=template.allocatable,
            labels=template.labels,
            taints=template.taints,
            devices=template.devices,
            zones=template.zones,
            group=self.group.name,
        )


# --- jobs -------------------------------------------------------------------------------------------------------------

GPU = "nvidia.com/gpu"
MILLI_CPU = MILLI = 1000  # cpu is counted in millicores, shares of devices in thousandths
# pairs (seconds since the submission, value of the job if it ends by this time)
Worth: TypeAlias = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job of a trace with its true run time.

    `job`: the job as it is submitted. The field `limit_s` of the job is the requested limit; the field `submitted_s`
    counts from the beginning of the trace.
    `run_s`: the true run time if the job has all its pods and is not stopped.
    `queue`: the queue, virtual cluster or partition in the trace.
    `waited_s`: the wait of the job that the trace states; None if the trace states none.
    `restart_s`: the seconds of work that the job loses when it is checkpointed, stopped and started again.
    `active_s`: the time after its start at which the job fails, even if not all its pods ran (a
    Job's `activeDeadlineSeconds`). `worth`: pairs of a time and the value of the job if it ends by
    this time. A job that has only a deadline has the value 1 if it ends by the deadline.
    `overruns`: whether the job may run longer than its limit, which is then only an estimate for the scheduler.
    `follows`: the id of a preceding job. The task is submitted `think_s` after the end of the preceding job.
    If `think_s` is None, the task is submitted when the preceding job ends, but not before `submitted_s`."""

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
        """Return the run time after which the task is stopped; None if it is never stopped."""
        return None if self.overruns else self.job.limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload.

    `tasks`: the tasks in the order of their submission; tasks with the same submission time are in the order of the
    trace file. `topologies`: the topologies of the nodes; a policy with topologies of its own replaces them.
    `reservations`: advance reservations of the nodes.
    `groups`: the node groups, whose nodes are added and removed during the run.
    `counted`: the counted resource. `unit`: the amount of this resource in one processor or GPU.
    `dropped`: pairs (reason, number of valid records that did not become jobs for this reason). `faults`: descriptions
    of unreadable records, with their places in the file."""

    name: str
    tasks: Sequence[Task]
    nodes: tuple[Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    groups: tuple[SimulatedGroup, ...] = ()
    counted: str = CPU
    unit: int = MILLI_CPU
    dropped: tuple[tuple[str, int], ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[Node, ...]:
        """Return the nodes, and one node of each node group."""
        return (*self.nodes, *(each.group.template for each in self.groups))

    @property
    def device_bytes(self) -> float:
        """Return the mean memory of a device of the counted resource, in bytes; 0 if it is unknown."""
        devices = (device for node in self.kinds for device in node.devices if device.resource == self.counted)
        said = [device.memory_bytes for device in devices if device.memory_bytes]
        return sum(said) / len(said) if said else 0.0


def alone(job: Job) -> Job:
    """Return the job with its dependencies, singleton, array and reservation removed."""
    return replace(job, after=(), requires_any=False, singleton="", array="", array_cap=None, reservation="")


def of_share(share: DeviceShare, device_bytes: float) -> float:
    """Return the size of a share in devices, as a fraction if it is less than a device. `device_bytes`: the memory of
    one device; if it is unknown (0), a share in bytes counts as a whole device."""
    if share.milli:
        return share.count * share.milli / MILLI
    return share.count * min(1.0, share.memory_bytes / device_bytes if device_bytes else 1.0)


def of_role(role: Role, resource: str, device_bytes: float = 0.0) -> float:
    """Return the amount of the resource that one pod of the role requests. A share of devices counts as a fraction of a
    device."""
    share = role.shape.share
    shared = of_share(share, device_bytes) if share and share.resource == resource else 0
    return shared + sum(amount for name, amount in role.shape.requests if name == resource)


def of_resource(roles: Sequence[Role], resource: str, device_bytes: float = 0.0) -> float:
    """Return the amount of a resource that all pods of the roles request together."""
    return sum(of_role(role, resource, device_bytes) * role.count for role in roles)


def processors(count: int) -> Role:
    """Return a role of one pod that requests `count` processors. The simulator treats the machine of a workload log as
    one node, so each job of the log needs only one pod."""
    return Role(name="", count=1, minimum=1, shape=Shape(requests=amounts({CPU: count * MILLI_CPU})))


@lru_cache(maxsize=65536)
def gang(resource: str, amount: int, per_node: int) -> tuple[Role, ...]:
    """Return roles whose pods together request `amount` of a resource: pods that each request `per_node` (the amount of
    a whole node), and one pod for the remainder."""
    full, left = divmod(amount, per_node)
    pods = [("full", full, per_node)] if full else []
    pods += [("rest" if full else "", 1, left)] if left else []
    return tuple(
        Role(name=name, count=count, minimum=count, shape=Shape(requests=amounts({resource: each})))
        for name, count, each in pods
    )


def on_nodes(workload: Workload) -> Workload:
    """Some traces state only the total amount of a job. Return the workload with the amount of each job divided among
    several pods, none of which requests more than the largest node has."""
    counted, unit = workload.counted, workload.unit
    most = max((dict(node.allocatable).get(counted, 0) for node in workload.kinds), default=0) // unit * unit
    return workload if not most else replace(workload, tasks=[divided(task, counted, most) for task in workload.tasks])


def divided(task: Task, resource: str, most: int) -> Task:
    asked = [role.shape.requests for role in task.job.roles]
    if any([name for name, _ in each] != [resource] for each in asked) or all(each[0][1] <= most for each in asked):
        return task
    whole = int(of_resource(task.job.roles, resource))
    return replace(task, job=replace(task.job, roles=gang(resource, whole, most)))


def machine(count: int, name: str = "machine") -> Node:
    """Return a single node that represents the whole parallel machine of a log. `count`: the number of its
    processors."""
    return Node(name=name, allocatable=amounts({CPU: count * MILLI_CPU, PODS: max(count, 1)}))


def gpu_nodes(count: int, gpus: int) -> tuple[Node, ...]:
    """Return `count` nodes with `gpus` GPUs each, and with 64 cores for other pods."""
    room = amounts({GPU: gpus, CPU: 64 * MILLI_CPU, PODS: 110})
    width = len(str(max(count - 1, 0)))
    return tuple(Node(name=f"node-{index:0{width}}", allocatable=room) for index in range(count))


def in_order(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks sorted by submission time; tasks with equal times keep their order."""
    return sorted(tasks, key=lambda task: task.job.submitted_s)


# --- orders by a formula ----------------------------------------------------------------------------------------------

# Priorities are integers, so values are multiplied by this factor. It is large enough that F1 yields different
# priorities for submissions that are one second apart.
PER_UNIT = 1_000_000
LAST = -(2**62)  # jobs without an estimate get this priority, so they come last


class Formula(StrEnum):
    """The formulas for job priorities (see the third part of the module). The job with the lowest value comes first."""

    AREA = "area"
    F1 = "f1"

    def priority(self, job: Job, counted: str, unit: int) -> int:
        """Return the priority with which a job is submitted to the scheduler. `unit`: the amount of the
        resource `counted` in one processor or GPU. Jobs without an estimate come last, in the order of their
        submission."""
        estimate_s = job.limit_s if job.estimate_s is None else job.estimate_s
        if estimate_s is None:
            return LAST
        size = of_resource(job.roles, counted) / unit
        if self is Formula.AREA:
            return -round(estimate_s * size * PER_UNIT)
        return -round((log10(max(estimate_s, 1.0)) * size + 870 * log10(max(job.submitted_s, 1.0))) * PER_UNIT)


# --- orders in rounds -------------------------------------------------------------------------------------------------

PER_S = 1000  # priorities are integers, so remaining times are converted to milliseconds


class Rounds(StrEnum):
    """The order of jobs in a round; the lowest value comes first."""

    TIME = "remaining-time"  # SRTF: the remaining run time
    SERVICE = "remaining-service"  # SRSF: the remaining run time times the job's amount of the counted resource

    def priority(self, task: Task, left_s: float, counted: str, unit: int) -> int:
        size = of_resource(task.job.roles, counted) / unit if self is Rounds.SERVICE else 1.0
        return -round(left_s * size * PER_S)
