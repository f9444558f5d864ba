"""Find the jobs that can never run in a simulation, before the simulation begins.

Jobs with equal requests and the same queue are of one kind. One job of each kind is submitted alone to the scheduler on
the empty cluster. If it does not start, the code of its reason shows whether jobs of this kind can ever start. Jobs can
never start if all nodes are too small, if no node matches, or if a queue's limit is too low. They also can never start
if their queue is missing or starts no jobs, because queues do not change during a simulation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from phalanx.model.event import Event, Finished, NodeSeen, Opened, QueueSeen, Submitted
from phalanx.model.job import Job, Slot
from phalanx.model.plan import Plan, Start, Wait
from phalanx.model.policy import Policy
from phalanx.model.reason import NEVER, ReasonCode
from phalanx.simulator.run.play import LoopStep, knowing, queued, queues_of
from phalanx.simulator.run.setup import Setup
from phalanx.simulator.workload import Task, Workload, alone
from phalanx.state.cluster import Cluster

# Reasons that stay true for a whole simulation: the job fits on no node, or its queue does not let it start.
STAYS = NEVER | {
    ReasonCode.QUEUE_UNKNOWN,
    ReasonCode.QUEUE_MISCONFIGURED,
    ReasonCode.QUEUE_HELD,
    ReasonCode.QUEUE_CLOSED,
}
KINDS = 4096  # at most this many kinds of jobs are tried; jobs of further kinds are not checked


class Nobody:
    """A world that ignores every plan."""

    def apply(self, plan: Plan) -> None:
        pass


def never_fitting(workload: Workload, setup: Setup, step: LoopStep) -> list[tuple[Task, str]]:
    """Return each task that can never run, with the reason."""
    cluster, queues = Cluster(), queues_of(setup, workload.tasks)
    limited = any(queue.per_job.wall_s is not None for queue in queues)
    policy = knowing(setup.policy, workload)
    nodes = [*workload.nodes, *(node for each in workload.groups for node in each.nodes(each.group.max_nodes))]
    step(cluster, [*map(NodeSeen, nodes), *map(QueueSeen, queues)], policy, 0.0, Nobody())
    answers: dict[Hashable, str] = {}
    found = []
    for task in queued(workload.tasks, setup):
        job = task.job
        kind = (job.queue, job.roles, job.groups, job.closeness, job.size, job.limit_s if limited else None)
        if kind not in answers and len(answers) < KINDS:
            answers[kind] = why_never(cluster, job, policy, step)
        if why := answers.get(kind):
            found.append((task, why))
    return found


def why_never(cluster: Cluster, job: Job, policy: Policy, step: LoopStep) -> str:
    """Return why the job cannot run even on the empty cluster; an empty text if it can run."""
    asked = replace(alone(job), submitted_s=0.0, begin_s=None, deadline_s=None)
    plan = step(cluster, [Submitted(asked)], policy, 0.0, Nobody())
    if any(isinstance(action, Start) and not action.placements for action in plan.actions):
        # in a queue that schedules pod by pod, pods are only placed after their slots are opened
        first = tuple(Slot(at, 0) for at in range(len(job.roles)))
        plan = step(cluster, [Opened(job.id, first)], policy, 0.0, Nobody())
    over: Event = Finished(job.id)
    step(cluster, [over], policy, 0.0, Nobody())
    reasons = [action.reason for action in plan.actions if isinstance(action, Wait)]
    return next((reason.text for reason in reasons if reason.code in STAYS), "")
