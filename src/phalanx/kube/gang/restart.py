"""What a start finds: which gangs a process before this one had started, read from the objects alone.

The record on the Jobs and on the bound pods is written before anything else happens, so that every state between two
writes is one of these:

- a Job that runs with a record, or a bare pod that is bound with one: the gang was started, go on with it;
- a suspended Job of which bound pods are left: its start was being taken back (or somebody suspended it), finish that;
- a member that carries the mark of a preemption of this very start: it gives way to another, finish that;
- anything else waits, as it did before.

`adoption_order` is that in which claims are told to the core: gangs with a bound pod, then admitted gangs with none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.spec.gang_spec import FuturePods, GangDefaults, GangMembers, GangSpec, gang_spec
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedStart:
    """A start of before. `leaving`: it is to be taken back; with a `mark`, it gives way to another."""

    declared: GangSpec
    record: StartRecord
    leaving: bool
    mark: PreemptionMark | None


def unfinished_start(
    gang: GangLifecycle, defaults: GangDefaults, now_s: float, hold_s: float
) -> UnfinishedStart | None:
    """What the objects say was begun, or None for a gang that waits."""
    jobs = [job for job in gang.jobs.values() if job.ours and not job.finished]
    bare = [pod for pod in gang.pods.values() if pod.owner is None or pod.owner[1] not in gang.jobs]
    left = [job for job in jobs if job.suspended and _bound(gang.pods.values(), job)]
    record = _record(jobs, bare) or (_of(left[0]) if left else None)
    if record is None or (not jobs and not bare):
        return None
    pods = sorted((pod for pod in bare if not pod.going or pod.node), key=lambda pod: (pod.created_s, pod.name))
    sizes = {job.uid: gang.size(job) for job in jobs}
    members = GangMembers(id=gang.id, jobs=sorted(jobs, key=_age), pods=pods, sizes=sizes, group=gang.group)
    declared = gang_spec(members, replace(defaults, gang=_same(record)))
    if now_s >= record.at_s + hold_s:
        declared = _without_holds(declared)
    started = replace(declared, job=replace(declared.job, queue=record.queue, blocked=None))
    mark = _mark(jobs, bare, record)
    return UnfinishedStart(declared=started, record=record, leaving=bool(left) or mark is not None, mark=mark)


def adoption_order(gang: GangLifecycle, begun: UnfinishedStart) -> tuple[bool, float, str]:
    """Sort key of started gangs: those that hold room first, then by the time of their start."""
    return not any(pod.node for pod in gang.pods.values()), begun.record.at_s, gang.id


def _record(jobs: Iterable[BatchJob], bare: Iterable[Pod]) -> StartRecord | None:
    records = [job.record for job in jobs if not job.suspended and job.record is not None]
    records += [pod.record for pod in bare if pod.node and pod.record is not None]
    return max(records, key=lambda record: record.attempt, default=None)


def _mark(jobs: Iterable[BatchJob], bare: Iterable[Pod], record: StartRecord) -> PreemptionMark | None:
    """The mark that ends this very start."""
    said = [job.mark for job in jobs if job.suspended] + [pod.mark for pod in bare if pod.node]
    return next((mark for mark in said if mark is not None and mark.start_s == record.at_s), None)


def _of(job: BatchJob) -> StartRecord:
    """The record of a Job that was suspended again: its own, if that still stands, else one of the same content."""
    queue = job.options.get(labels.QUEUE, "")
    at_s = job.mark.start_s if job.mark is not None else 0.0
    return job.record or StartRecord(attempt=1, queue=queue, count=job.size(), priority=job.priority, at_s=at_s)


def _bound(pods: Iterable[Pod], job: BatchJob) -> bool:
    return any(pod.node and pod.owner is not None and pod.owner[1] == job.uid for pod in pods)


def _same(record: StartRecord) -> Callable[[str], bool]:
    return lambda queue: record.gang


def _age(job: BatchJob) -> tuple[float, str]:
    return job.created_s, job.name


def _without_holds(declared: GangSpec) -> GangSpec:
    rows = [row for row in zip(declared.job.roles, declared.sources, strict=True) if not isinstance(row[1], FuturePods)]
    job = replace(declared.job, roles=tuple(role for role, _ in rows))
    return GangSpec(job=job, sources=tuple(source for _, source in rows))
