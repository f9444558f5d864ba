"""Jobs that can never run, found before anything is played.

Of each kind of job (what it asks, and in which queue) one is put before the scheduler on the empty cluster, alone; that
says why it could never start: a node too small, a selector, a topology, a queue's limit; or that its queue is not
there, or starts nothing, which in a simulation nobody mends. The reason is the scheduler's own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from phalanx.model.event import Event, Finished, NodeSeen, Opened, QueueSeen, Submitted
from phalanx.model.job import Job, Slot
from phalanx.model.plan import Plan, Start, Wait
from phalanx.model.policy import Policy
from phalanx.model.reason import NEVER, ReasonCode
from phalanx.simulator.run.play import Step, knowing, queued, queues_of
from phalanx.simulator.run.setup import Setup
from phalanx.simulator.workload.workload import Task, Workload, alone
from phalanx.state.cluster import Cluster

# Of queues, which nobody changes while a workload is played.
STAYS = NEVER | {
    ReasonCode.QUEUE_UNKNOWN,
    ReasonCode.QUEUE_MISCONFIGURED,
    ReasonCode.QUEUE_HELD,
    ReasonCode.QUEUE_CLOSED,
}
KINDS = 4096  # looked at; of workloads with more, the rest is found when it does not start


class Nobody:
    """A world in which nothing happens."""

    def apply(self, plan: Plan) -> None:
        pass


def never_fitting(workload: Workload, setup: Setup, step: Step) -> list[tuple[Task, str]]:
    """Each such task, and why."""
    cluster, queues = Cluster(), queues_of(setup, workload.tasks)
    limited = any(queue.per_job.wall_s is not None for queue in queues)
    policy = knowing(setup.policy, workload)
    step(cluster, [*map(NodeSeen, workload.nodes), *map(QueueSeen, queues)], policy, 0.0, Nobody())
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


def why_never(cluster: Cluster, job: Job, policy: Policy, step: Step) -> str:
    """Empty: it can run."""
    asked = replace(alone(job), submitted_s=0.0, begin_s=None, deadline_s=None)
    plan = step(cluster, [Submitted(asked)], policy, 0.0, Nobody())
    if any(isinstance(action, Start) and not action.placements for action in plan.actions):
        first = tuple(Slot(at, 0) for at in range(len(job.roles)))  # its pods are placed one by one
        plan = step(cluster, [Opened(job.id, first)], policy, 0.0, Nobody())
    over: Event = Finished(job.id)
    step(cluster, [over], policy, 0.0, Nobody())
    reasons = [action.reason for action in plan.actions if isinstance(action, Wait)]
    return next((reason.text for reason in reasons if reason.code in STAYS), "")
