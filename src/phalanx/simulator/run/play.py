"""One run of the simulator: a workload, under one setup, with one seed.

The first part of the module changes a workload, in order to measure how much of the cluster a policy can allocate. In
the changed workload, pods that never end are submitted until they request more than the cluster has (Weng et al.,
"Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC'23, section
6). The tasks of a trace are shuffled. Copies of randomly chosen tasks (uniformly, with replacement) are added until all
tasks together request `ratio` times the cluster's capacity. If the trace alone requests more, tasks at the end of the
shuffled list are left out. One task is submitted each second. The nodes are shuffled, too, as in the authors' own
program: a policy takes the first of several nodes with equal score, so in the order of the trace it would fill all
nodes of one kind before the nodes of the next kind. The function `allocated` measures which part of the cluster is
allocated at a given demand.

The second part of the module measures the run itself: the time of each decision, from the events to the plan, and the
peak memory (the highest resident set of the process so far). The stopwatch is a wrapper around the simulated world, so
it does not count the time that the world itself takes. The measured times depend on the machine, but have no effect on
decisions and are not part of the schedule's hash. The stopwatch measures elapsed time and not processor time, because
reading the processor time costs a system call.

The third part of the module runs the simulation. The caller passes the function `phalanx.loop.step` of the real
scheduler, which schedules the simulated cluster.
"""

from __future__ import annotations

import resource
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from phalanx.model.event import Event
from phalanx.model.job import Job
from phalanx.model.plan import Plan
from phalanx.model.pod import CPU, Shape
from phalanx.model.policy import Policy, ScoringStrategy
from phalanx.model.queue import Queue
from phalanx.simulator.cluster.arrivals import estimator
from phalanx.simulator.cluster.disturbance import Disturbance, Faults
from phalanx.simulator.cluster.world import SimulatedWorld
from phalanx.simulator.run.setup import Setup
from phalanx.simulator.schedule import Fate, Schedule, capacity
from phalanx.simulator.workload import Task, Workload, alone, of_resource
from phalanx.state.cluster import Cluster

Item = TypeVar("Item")


def inflated(workload: Workload, ratio: float, seed: int) -> Workload:
    """Return the workload with shuffled nodes and tasks, and with tasks added or left out until they request `ratio`
    times the capacity (see the first part of the module docstring). `ratio`: the demand divided by the capacity, in the
    counted resource. If no task requests the counted resource, tasks and nodes are only shuffled."""
    has = sum(amount for node in workload.nodes for name, amount in node.allocatable if name == workload.counted)
    random, found, asked = Random(f"{seed} inflating"), list[Task](), 0.0
    device_bytes = workload.device_bytes
    for task in drawn(workload.tasks, random):
        asks = of_resource(task.job.roles, workload.counted, device_bytes)
        if asked >= ratio * has or (len(found) >= len(workload.tasks) and not asked):
            break
        asked += asks
        found.append(staying(task, len(found), copy=len(found) >= len(workload.tasks)))
    return replace(workload, tasks=found, nodes=tuple(shuffled(workload.nodes, Random(f"{seed} nodes"))))


def shuffled(items: Iterable[Item], random: Random) -> list[Item]:
    """Return the items in random order (Fisher and Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = int(random.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def drawn(tasks: Sequence[Task], random: Random) -> Iterator[Task]:
    """Yield each task once in random order, then random tasks for ever."""
    order = shuffled(tasks, random)
    yield from order
    while order:
        yield order[int(random.random() * len(order))]


def staying(task: Task, at: int, *, copy: bool) -> Task:
    """Return the task with the submission time `at` (seconds) and an infinite run time. `copy`: whether the task gets a
    new id."""
    name = f"{task.job.id}-{at}" if copy else task.job.id
    job = replace(alone(task.job), id=name, submitted_s=float(at), limit_s=None, deadline_s=None, begin_s=None)
    return replace(task, job=job, run_s=inf, waited_s=None, follows="")


def allocated(schedule: Schedule, demand: float) -> float:
    """Return the allocated fraction of the cluster at the time when the submitted pods together request `demand` times
    the cluster's capacity. If the pods never request this amount, return the fraction at the end of the schedule."""
    workload, has = schedule.workload, capacity(schedule)
    came, placed, device_bytes = 0.0, 0.0, workload.device_bytes
    for fate in schedule.fates:
        asks = of_resource(fate.task.job.roles, workload.counted, device_bytes)
        if came >= demand * has:
            break
        came += asks
        placed += asks if fate.start_s is not None else 0.0
    return placed / has if has else 0.0


def frequencies(workload: Workload) -> tuple[tuple[Shape, float], ...]:
    """Return (shape, number of pods) for each kind of pod in the workload. As in FGD, two pods are of one kind if they
    have equal node constraints, and request equal amounts of cpu and of the counted resource. A real scheduler could
    learn such numbers from earlier workloads."""
    counts: Counter[Shape] = Counter()
    for task in workload.tasks:
        for role in task.job.roles:
            asks = tuple(each for each in role.shape.requests if each[0] in {CPU, workload.counted})
            counts[replace(role.shape, requests=asks)] += role.count
    return tuple((shape, float(count)) for shape, count in counts.most_common())


# --- time and memory --------------------------------------------------------------------------------------------------


class TimedApplier(Protocol):
    def apply(self, plan: Plan) -> None: ...


class Stopwatch:
    """A wrapper around a simulated cluster that measures how long each decision takes. `took_s`: the duration of each
    decision, in order."""

    def __init__(self, world: TimedApplier) -> None:
        self.world = world
        self.took_s = array("d")
        self._since_s = 0.0

    def begin(self) -> None:
        self._since_s = time.perf_counter()

    def apply(self, plan: Plan) -> None:
        self.took_s.append(time.perf_counter() - self._since_s)
        self.world.apply(plan)


STATUS = Path("/proc/self/status")
KIB = 1024


def peak_rss_bytes() -> int:
    """Return `VmHWM` of proc(5), or `ru_maxrss` of getrusage(2) if proc(5) cannot be read. `ru_maxrss` is the second
    choice, because on Linux it may be the value of the parent process. (The unit of `ru_maxrss` is KiB, on macOS
    bytes.)"""
    try:
        return int(STATUS.read_text().partition("VmHWM:")[2].split()[0]) * KIB
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * KIB


# --- the run ----------------------------------------------------------------------------------------------------------

REPORT_EVERY = 512  # progress is reported once in this number of scheduling passes


class LoopStep(Protocol):
    """The signature of `phalanx.loop.step`."""

    def __call__(
        self, cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: TimedApplier
    ) -> Plan: ...


def play(
    workload: Workload,
    setup: Setup,
    step: LoopStep,
    *,
    estimates: str = "user",
    seed: int = 0,
    faults: Faults | None = None,
    checkpoint_s: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Simulate the workload, and return the schedule. `progress`: a function that is called with the number of ended
    jobs. `stopped`: a function; when it returns True, the run ends early and the schedule so far is returned."""
    fates = [Fate(index, task) for index, task in enumerate(queued(workload.tasks, setup))]
    queues = queues_of(setup, workload.tasks)
    world = world_of(workload, setup, fates, queues, estimates, seed, faults, checkpoint_s)
    policy = policy_for(setup, workload)
    found = Schedule(
        workload=workload,
        policy=setup.name,
        estimates=estimates,
        seed=seed,
        fates=fates,
        stints=world.jobs.work.stints,
        queues=queues,
        default_queue=setup.policy.default_queue,
        topologies=policy.topologies,
    )
    watched = Stopwatch(world)
    found.rentals = world.provider.rentals
    found.decisions_s, found.cascades = watched.took_s, world.jobs.cascades
    began_s, cluster, era = time.perf_counter(), Cluster(), 0
    for events in world.happenings():
        if stopped():
            found.interrupted = True
            break
        if world.messages.era != era:
            cluster, era = Cluster(), world.messages.era
        watched.begin()
        step(cluster, events, policy, world.now_s, watched)
        found.passes += 1
        if not found.passes % REPORT_EVERY:
            progress(world.jobs.ended)
    progress(world.jobs.ended)
    found.wall_s, found.peak_rss_bytes = time.perf_counter() - began_s, peak_rss_bytes()
    world.close()
    keep_reasons(world, cluster)
    return found


def world_of(
    workload: Workload,
    setup: Setup,
    fates: Sequence[Fate],
    queues: Sequence[Queue],
    estimates: str,
    seed: int,
    faults: Faults | None,
    checkpoint_s: float | None,
) -> SimulatedWorld:
    """Return the simulated cluster of a run."""
    return SimulatedWorld(
        fates,
        workload.nodes,
        queues,
        estimator=estimator(estimates),
        disturbance=Disturbance(faults, seed) if faults is not None else None,
        checkpoint_s=checkpoint_s,
        rounds=setup.rounds,
        formula=setup.formula,
        creation=setup.creation,
        counted=(workload.counted, workload.unit),
        reservations=workload.reservations,
        groups=workload.groups,
        seed=seed,
    )


def keep_reasons(world: SimulatedWorld, cluster: Cluster) -> None:
    """Store in the fate of each unfinished job the reason why it waits."""
    for live in world.jobs.live.values():
        reason = cluster.reason(live.job.id) if live.job.id in cluster.jobs else None
        live.fate.reason = reason.text if reason is not None else ""


def policy_for(setup: Setup, workload: Workload) -> Policy:
    """Return the setup's policy. If the policy has no topologies or typical pods, they are taken from the workload."""
    return expecting(knowing(setup.policy, workload), workload)


def knowing(policy: Policy, workload: Workload) -> Policy:
    """Return the policy with the topologies of the workload, unless the policy already has topologies."""
    return policy if policy.topologies else replace(policy, topologies=workload.topologies)


def expecting(policy: Policy, workload: Workload) -> Policy:
    """Return the policy. If the policy scores nodes by fragmentation, but has no typical pods, add the frequencies of
    the workload's pods."""
    if policy.typical or policy.score not in {ScoringStrategy.FRAGMENTATION, ScoringStrategy.FEWEST_LOST}:
        return policy
    return replace(policy, typical=frequencies(workload))


def queued(tasks: Iterable[Task], setup: Setup) -> Iterable[Task]:
    """Return the tasks with their queues set to the queues of the trace; in a `flat` setup, return the tasks
    unchanged."""
    return tasks if setup.flat else (replace(task, job=in_queue(task.job, task.queue)) for task in tasks)


def in_queue(job: Job, queue: str) -> Job:
    return job if job.queue == queue or not queue else replace(job, queue=queue)


def queues_of(setup: Setup, tasks: Iterable[Task]) -> tuple[Queue, ...]:
    """Return the queues of the setup. If the setup has a template (`of_each`), add one queue for each queue that only
    the trace names. Jobs without a queue are in the default queue."""
    if setup.of_each is None:
        return setup.queues
    known = {queue.name for queue in setup.queues}
    names = sorted({task.queue or setup.policy.default_queue for task in tasks} - known - {""})
    return (*setup.queues, *(replace(setup.of_each, name=name) for name in names))
