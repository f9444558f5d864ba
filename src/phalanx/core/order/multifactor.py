"""Slurm's multifactor priority: a weighted sum of factors between 0 and 1.

    priority = own + age*W + fair share*W + size*W + queue*W + qos*W + sum over resources of part*W - nice

(https://slurm.schedmd.com/priority_multifactor.html; the weights are `Policy.factors`.)

- *age*: how long the job has been eligible to start, divided by `max_age_s`; at most 1.
- *fair share*: see `phalanx.fair_tree`.
- *size*: the mean of two quotients: requested nodes / all nodes, and requested CPUs / all CPUs. With the
  setting `size_relative_to_time` (Slurm's SMALL_RELATIVE_TO_TIME), the factor is instead the largest *part* of all
  resources (see below), multiplied by `size_full_time_s` and divided by the time limit. Without a time limit the factor
  is 0. With the setting `small_first`, the factor is 1 minus the size.
- *queue*, *qos*: the priority of the job's queue (or QOS), divided by the highest priority of a queue (or QOS).
- *part*: the requested amount of a resource, divided by the total amount in the cluster.
- *own*: the priority that the user gave to the job. Slurm has its site factor instead.

Slurm rounds the sum to a whole number, at least 1. Phalanx does not round it, so even small weights have an effect. A
job requests pods, not nodes, so the number of requested nodes is an estimate. To compute it, assume that each node has
the largest amount of each resource that occurs on a node. The estimate is the smallest number of such nodes that could
hold the job's minimum.

With a priority function (`Policy.priority_function`), the value of the function replaces the sum.

A `MultifactorPriority` object is used for one cycle. It computes the fair shares only once, when the first job is
ranked. If their weight is 0, it does not compute them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import ceil, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.core.order.associations import fair_shares
from phalanx.model.job import Job
from phalanx.model.pod import CPU
from phalanx.model.policy import Policy, PriorityWeights, WaitingJob
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, time_limit_s

MINUTE_S = 60.0


class PriorityFactors(NamedTuple):
    """The factors of one job, each from 0 to 1. `resources`: pairs of a resource and the factor *part* of this
    resource."""

    age: float = 0.0
    fair_share: float = 0.0
    size: float = 0.0
    queue: float = 0.0
    qos: float = 0.0
    resources: tuple[tuple[str, float], ...] = ()


def weighted_sum(parts: PriorityFactors, factors: PriorityWeights, *, own: float = 0.0, nice: float = 0.0) -> float:
    """Return the weighted sum of the factors, plus the job's own priority (`own`), minus its nice value (`nice`)."""
    asked = dict(parts.resources)
    return (
        own
        + factors.age * parts.age
        + factors.fair_share * parts.fair_share
        + factors.size * parts.size
        + factors.queue * parts.queue
        + factors.qos * parts.qos
        + sum(weight * asked.get(resource, 0.0) for resource, weight in factors.resources)
        - nice
    )


def age(waited_s: float, max_age_s: float) -> float:
    """Return the age factor of a job that has been eligible for `waited_s` seconds."""
    if max_age_s <= 0:
        return 1.0
    return max(0.0, min(1.0, waited_s / max_age_s))


def size(nodes: float, cpus: float) -> float:
    """Return the size factor. `nodes`: the requested number of nodes, divided by the number of all nodes. `cpus`: the
    requested number of CPUs, divided by the number of all CPUs."""
    return (min(1.0, nodes) + min(1.0, cpus)) / 2


def fraction(some: float, whole: float) -> float:
    """Return `some` / `whole`, limited to the range from 0 to 1; 0 if `whole` is 0."""
    return max(0.0, min(1.0, some / whole)) if whole > 0 else 0.0


class MultifactorPriority:
    """The multifactor priorities of all jobs at the time `now_s` (seconds since the epoch)."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self._asks: dict[Gang, tuple[float, tuple[tuple[str, float], ...]]] = {}

    def of(self, record: JobRecord) -> float:
        """Return the job's multifactor priority. A job with a higher priority comes first."""
        job = record.job
        if self.policy.priority_function is not None:
            return self.policy.priority_function(self.waiting_job(record))
        return weighted_sum(self.parts(record), self.policy.factors, own=job.priority, nice=job.nice)

    def parts(self, record: JobRecord) -> PriorityFactors:
        """Return the job's factors."""
        job, factors = record.job, self.policy.factors
        size_of, asked = self._asked(record.gang)
        return PriorityFactors(
            age=self._age(job),
            fair_share=self.fair_share(job) if factors.fair_share else 0.0,
            size=self._size_factor(size_of, time_limit_s(self.cluster, job)),
            queue=self._factor_of_queue(self.cluster.queue_of(job)),
            qos=fraction(self._qos.get(job.qos, 0.0), max(self._qos.values(), default=0.0)),
            resources=asked,
        )

    def waiting_job(self, record: JobRecord) -> WaitingJob:
        """Return the description of the job that a priority function gets as its argument."""
        job, limit_s = record.job, time_limit_s(self.cluster, record.job)
        return WaitingJob(
            id=job.id,
            queue=self.cluster.queue_of(job),
            user=job.user,
            group=job.group,
            priority=job.priority,
            nice=job.nice,
            qos=job.qos,
            pods=sum(record.gang.minimums),
            requests={name: part / 1000 if name == CPU else part for name, part in record.gang.asked.items()},
            waited_s=self.now_s - max(job.submitted_s, job.begin_s or 0.0),
            limit_s=limit_s,
            estimate_s=limit_s if job.estimate_s is None else job.estimate_s,
        )

    def of_request_classes(self, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the priority of the first request of each request class in `numbers`. Array operations compute all
        priorities at once. Each result is exactly the float that the method `of` returns."""
        pending, factors = self.cluster.pending, self.policy.factors
        columns = pending.columns
        classes = (columns.request_classes[each] for each in numbers.tolist())
        firsts = [self.cluster.jobs[each.first.request.job] for each in classes if each is not None]
        if self.policy.priority_function is not None:
            return np.array([self.of(record) for record in firsts], np.float64)
        ages = np.array([self._age(record.job) for record in firsts], np.float64)
        placement_class, row = columns.placement_class[numbers], columns.row[numbers]
        known, number = np.unique(placement_class, return_inverse=True)
        asked = [
            self._asked(found.key.gang)
            for each in known.tolist()
            if (found := pending.placement_classes.by_number[each])
        ]
        rows, of_row = np.unique(row, return_inverse=True)
        whose = [pending.headroom.rows[each] for each in rows.tolist()]
        shares = [self._fair_shares.get((each.queue, each.user), 0.0) if factors.fair_share else 0.0 for each in whose]
        most = max(self._qos.values(), default=0.0)
        qos = np.array([fraction(self._qos.get(name, 0.0), most) for name in columns.qos_numbers])
        found = columns.priority[numbers] + factors.age * ages
        found = found + factors.fair_share * np.array(shares)[of_row]
        sizes = np.array([size for size, _ in asked])[number]
        if factors.size_relative_to_time:
            sizes = sizes * (factors.size_full_time_s / MINUTE_S)
            sizes = np.minimum(1.0, sizes / np.maximum(1.0, columns.limit_s[numbers] / MINUTE_S))
        found = found + factors.size * (1.0 - sizes if factors.small_first else sizes)
        found = found + factors.queue * np.array([self._factor_of_queue(each.queue) for each in whose])[of_row]
        found = found + factors.qos * qos[columns.qos[numbers]]
        weighted = [
            sum(weight * dict(parts).get(resource, 0.0) for resource, weight in factors.resources) for _, parts in asked
        ]
        return np.asarray(found + np.array(weighted, np.float64)[number] - columns.nice[numbers])

    def _age(self, job: Job) -> float:
        return age(self.now_s - max(job.submitted_s, job.begin_s or 0.0), self.policy.factors.max_age_s)

    def fair_share(self, job: Job) -> float:
        """Return the fair-share factor of the job's user in the job's queue; 0 if the queue has no path to the root of
        the queue tree, because the user then has no association."""
        return self._fair_shares.get((self.cluster.queue_of(job), job.user), 0.0)

    @cached_property
    def _fair_shares(self) -> Mapping[tuple[str, str | None], float]:
        found = fair_shares(self.cluster, self.policy, self.now_s)
        return {key: standing.factor for key, standing in found.items() if standing.factor is not None}

    @cached_property
    def _qos(self) -> Mapping[str, float]:
        return dict(self.policy.factors.qos_values)

    @cached_property
    def _highest_queue(self) -> int:
        return max((queue.priority for queue in self.cluster.queues.values()), default=0)

    @cached_property
    def _nodes(self) -> int:
        return len(self.cluster.columns)

    @cached_property
    def _whole(self) -> Mapping[str, tuple[int, int]]:
        """Return a mapping: resource -> (total amount on all nodes, largest amount on one node)."""
        columns = self.cluster.columns
        return {
            resource: (int(column.sum()), int(column.max(initial=0)))
            for resource, column in columns.allocatable.items()
        }

    def _factor_of_queue(self, name: str) -> float:
        queue = self.cluster.queues.get(name)
        return fraction(queue.priority if queue else 0, self._highest_queue)

    def _size_factor(self, size: float, limit_s: float | None) -> float:
        factors = self.policy.factors
        if factors.size_relative_to_time:
            size *= factors.size_full_time_s / MINUTE_S
            size = min(1.0, size / (inf if limit_s is None else max(1.0, limit_s / MINUTE_S)))
        return 1.0 - size if factors.small_first else size

    def _asked(self, gang: Gang) -> tuple[float, tuple[tuple[str, float], ...]]:
        """Return the size factor of the gang, and its requested resources. Each resource is a pair: the name, and the
        requested amount divided by the total amount in the cluster."""
        known = self._asks.get(gang)
        if known is None:
            amounts, whole = gang.asked, self._whole
            parts = tuple(
                (resource, fraction(amount, whole.get(resource, (0, 0))[0])) for resource, amount in amounts.items()
            )
            if self.policy.factors.size_relative_to_time:
                by_size = max((part for _, part in parts), default=0.0)
            else:
                nodes = fraction(self._fewest_nodes(amounts), self._nodes)
                by_size = size(nodes, dict(parts).get(CPU, 0.0))
            known = self._asks[gang] = (by_size, parts)
        return known

    def _fewest_nodes(self, amounts: Mapping[str, int]) -> int:
        largest = ((amount, self._whole.get(resource, (0, 0))[1]) for resource, amount in amounts.items())
        return max((ceil(amount / most) for amount, most in largest if most), default=1)
