"""The settings that apply to the jobs of a queue: the queue's own settings, and those that it inherits from the queues
above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from phalanx.model.job import Job
from phalanx.model.queue import Limits, Queue, QueueOrder, QueueState, Quota, ReclaimWithinCohort


class ResourceGroup(NamedTuple):
    """A resource group: flavors in order of preference, and the resources for which they have quota. A pod gets one of
    these flavors for the resources of the group. A group that names no resources applies to all resources."""

    flavors: tuple[str, ...]
    resources: frozenset[str] = frozenset()

    def covers(self, resource: str) -> bool:
        return not self.resources or resource in self.resources


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """The limits that apply to the users, groups and jobs of a queue. The *path* of a queue is the queue itself and all
    queues above it.

    `users`, `groups`, `jobs`: whether the queue itself has limits for each user, for each group, or for each job.
    `by_user`, `by_group`, `by_job`: whether any queue on the path has such a limit.
    `submissions`: whether a queue on the path limits submitted jobs.
    `longest_s`: the smallest time limit that a queue on the path sets for its jobs (seconds)."""

    users: bool = False
    groups: bool = False
    jobs: bool = False
    by_user: bool = False
    by_group: bool = False
    by_job: bool = False
    submissions: bool = False
    longest_s: float | None = None

    def time_limit_s(self, job: Job) -> float | None:
        """Return the time limit of the job (seconds): its own limit if it has one, otherwise the smallest limit that a
        queue on the path sets; None if there is no limit."""
        return job.limit_s if job.limit_s is not None else self.longest_s


NO_LIMITS = JobLimits()


def job_limits(queue: Queue, above: JobLimits) -> JobLimits:
    """Return the limits that apply to the jobs of the queue. `above`: the limits of its parent."""
    users, groups, jobs = bounds_jobs(queue.per_user), bounds_jobs(queue.per_group), bool(queue.per_job.resources)
    stated = queue.total, queue.per_user, queue.per_group
    walls = [each.wall_s for each in (*stated, queue.per_job) if each.wall_s is not None]
    if above.longest_s is not None:
        walls.append(above.longest_s)
    return JobLimits(
        users=users,
        groups=groups,
        jobs=jobs,
        by_user=users or above.by_user,
        by_group=groups or above.by_group,
        by_job=jobs or above.by_job,
        submissions=above.submissions or any(each.submitted is not None for each in stated),
        longest_s=min(walls, default=None),
    )


def bounds_jobs(limits: Limits) -> bool:
    """Return whether the limits may prevent the start of a job."""
    return limits.running is not None or bool(limits.resources) or bool(limits.named)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """The rules for the jobs of a queue. The *path* of a queue is the queue itself and all queues above it.

    `starts_whole`: whether each of its jobs is placed as a whole; otherwise its jobs are placed pod by pod.
    `states`: the queues on the path whose state is not OPEN, the nearest first.
    `flavors`: the resource groups of the queue. If it has none, the resource groups of the nearest queue above with
    resource groups apply.
    `by_factors`: whether a queue on the path orders jobs by Slurm's priority factors.
    `preempts`: whether the queue's jobs may preempt other jobs at all. `reclaims`: whether they may preempt jobs of
    other queues."""

    starts_whole: bool = True
    states: tuple[Queue, ...] = ()
    flavors: tuple[ResourceGroup, ...] = ()
    limits: JobLimits = NO_LIMITS
    by_factors: bool = False
    preempts: bool = False
    reclaims: bool = False


NO_RULES = QueueRules()


def queue_rules(queue: Queue, above: QueueRules) -> QueueRules:
    """Return the rules of the queue. `above`: the rules of its parent."""
    return QueueRules(
        starts_whole=queue.gang,
        states=above.states if queue.state is QueueState.OPEN else (queue, *above.states),
        flavors=_resource_groups(queue) or above.flavors,
        limits=job_limits(queue, above.limits),
        by_factors=above.by_factors or queue.order is QueueOrder.MULTIFACTOR,
        preempts=queue.preemption.searches(),
        reclaims=queue.preemption.reclaim is not ReclaimWithinCohort.NEVER,
    )


def _resource_groups(queue: Queue) -> tuple[ResourceGroup, ...]:
    found: dict[str, list[Quota]] = {}
    for quota in queue.quotas:
        if quota.flavor:
            found.setdefault(quota.group, []).append(quota)
    return tuple(
        ResourceGroup(
            tuple(quota.flavor for quota in each),
            frozenset(name for quota in each for name, _ in (*quota.guaranteed, *quota.limit) if group),
        )
        for group, each in found.items()
    )
