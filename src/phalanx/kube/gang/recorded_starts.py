"""Find the starts that an earlier process of the scheduler made. All information about these starts is read from the
objects of the gang.

The first write of a start is its *record*, an annotation on the Jobs and on the bound pods. So the objects are always
in one of these states, even between two writes:

- a Job runs, or a bare pod is bound, and has a record: the gang was started, and the start continues;
- a suspended Job has bound pods, because its start was being undone or a user suspended the Job: Phalanx finishes
  undoing the start;
- a member has the mark of a preemption of this start: Phalanx completes the preemption;
- in any other state, the gang is pending, as it was before.

The objects of gangs that have ended still contain the run times of the gangs (`past_run`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.gang.spec.elsewhere import confined
from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangSpec, claim_on, gang_spec
from phalanx.kube.gang.spec.members import FuturePods, GangMembers
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, RecordKey, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import RunTold


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedStart:
    """A start of an earlier process. `leaving`: True if the start must be undone. `mark`: the mark of its preemption;
    None if it was not being preempted."""

    spec: GangSpec
    record: StartRecord
    leaving: bool
    mark: PreemptionMark | None


def unfinished_start(
    objects: GangObjects, defaults: GangDefaults, now_s: float, hold_s: float, key: RecordKey | None = None
) -> UnfinishedStart | None:
    """Return the start that is recorded on the gang's objects; None for a pending gang. A record without a valid
    signature is ignored, unless the Job has bound pods (`_unsigned`). Without a key, all records are accepted."""
    jobs = [job for job in objects.jobs.values() if job.ours and not job.finished]
    bare = [pod for pod in objects.pods.values() if objects.job_of(pod) is None]
    left = [job for job in jobs if job.suspended and _bound(objects.pods.values(), job)]
    record = _record(jobs, bare, key) or _unsigned(objects, jobs, now_s) or (_of(left[0], key) if left else None)
    if record is None or (not jobs and not bare):
        return None
    pods = sorted((pod for pod in bare if not pod.going or pod.node), key=lambda pod: (pod.created_s, pod.name))
    sizes = {job.uid: objects.size(job) for job in jobs}
    members = GangMembers(id=objects.id, jobs=sorted(jobs, key=_age), pods=pods, sizes=sizes)
    claim = claim_on(members, defaults) if defaults.dialects else None
    holds = now_s < record.at_s + (hold_s if claim is None or claim.hold_s is None else claim.hold_s)
    members = replace(members, pods=[*pods, *_to_be_replaced(objects, pods, record)]) if holds else members
    spec = gang_spec(members, replace(defaults, gang=_same(record)))
    spec = spec if holds else _without_holds(spec)
    roles = spec.job.roles
    if record.cluster:  # the gang may only be planned in the cluster in which it already runs
        roles = tuple(confined(role, (record.cluster,)) for role in roles)
    spec = replace(spec, job=replace(spec.job, queue=record.queue, blocked=None, roles=roles))
    mark = _mark(jobs, bare, record)
    return UnfinishedStart(spec=spec, record=record, leaving=bool(left) or mark is not None, mark=mark)


def past_run(objects: GangObjects, defaults: GangDefaults) -> RunTold | None:
    """Return the run time of an ended gang of Jobs; None if the Jobs do not record it."""
    jobs = sorted((job for job in objects.jobs.values() if job.record is not None and job.ended_s), key=_age)
    if not jobs or len(jobs) < len(objects.jobs):
        return None
    sizes = {job.uid: min(job.requested_parallelism, job.completions or job.requested_parallelism) for job in jobs}
    members = GangMembers(id=objects.id, jobs=jobs, pods=(), sizes=sizes)
    started_s = max(job.record.at_s for job in jobs if job.record is not None)
    return RunTold(gang_spec(members, defaults).job, max(job.ended_s for job in jobs) - started_s)


def _to_be_replaced(objects: GangObjects, pods: Sequence[Pod], record: StartRecord) -> list[Pod]:
    """Return a substitute for each failed bare pod whose replacement does not exist yet. If the caller adds the
    substitutes to the members, the nodes and the resources of the failed pods stay reserved. A substitute is a copy of
    another pod of the gang. If the gang's pods differ, the role of a failed pod is unknown, and the pod gets no
    substitute."""
    sources = {(pod.options.get(labels.ROLE, ""), pod.shape) for pod in pods}
    if objects.jobs or len(sources) != 1 or not all(labels.REPLACES_FAILED in pod.options for pod in pods):
        return []
    return [pods[0]] * max(0, record.seats - len(pods) - objects.succeeded_bare)


def _record(jobs: Iterable[BatchJob], bare: Iterable[Pod], key: RecordKey | None) -> StartRecord | None:
    """Return the latest record of a start among those with a valid signature; None if there is none."""
    started: list[BatchJob | Pod] = [job for job in jobs if not job.suspended]
    started += [pod for pod in bare if pod.node or (pod.record is not None and pod.record.cluster)]
    records = [each.record for each in started if each.record is not None and _is_ours(each.record, each, key)]
    return max(records, key=lambda record: record.attempt, default=None)


def _unsigned(objects: GangObjects, jobs: Iterable[BatchJob], now_s: float) -> StartRecord | None:
    """Build a record for running Jobs with bound pods and unsigned records; None if there are no such Jobs. These Jobs
    were started after the key was created, by an older version of Phalanx that did not sign records. Their records are
    not trusted, so the start is derived from the bound pods and from the Jobs' own fields."""
    begun = [job for job in jobs if not job.suspended and not job.pinned and job.record and not job.record.mac]
    uids = {job.uid for job in begun}
    bound = sum(bool(pod.node) and pod.owner is not None and pod.owner[1] in uids for pod in objects.pods.values())
    if not bound:
        return None
    at_s = min(now_s, *(job.record.at_s for job in begun if job.record is not None))
    queue, priority = begun[0].options.get(labels.QUEUE, ""), begun[0].priority
    return StartRecord(attempt=1, queue=queue, count=bound, priority=priority, at_s=at_s, placed=bound)


def _is_ours(record: StartRecord, on: BatchJob | Pod, key: RecordKey | None) -> bool:
    """Return whether the scheduler wrote this record on this object. The signature covers the uid of the object. All
    replica types of one object share one record."""
    uid = on.object_uid if isinstance(on, BatchJob) else on.uid
    return key is None or key.verify(record, uid, on.created_s)


def _mark(jobs: Iterable[BatchJob], bare: Iterable[Pod], record: StartRecord) -> PreemptionMark | None:
    """Return the mark of a preemption of this start; None if no object of the gang has such a mark."""
    said = [job.mark for job in jobs if job.suspended] + [pod.mark for pod in bare if pod.node]
    return next((mark for mark in said if mark is not None and mark.start_s == record.at_s), None)


def _of(job: BatchJob, key: RecordKey | None) -> StartRecord:
    """Return the record on a Job that was started and suspended again. If the Job no longer has a valid record, build a
    record from its fields."""
    if job.record is not None and _is_ours(job.record, job, key):
        return job.record
    queue = job.options.get(labels.QUEUE, "")
    at_s = job.mark.start_s if job.mark is not None else 0.0
    return StartRecord(attempt=1, queue=queue, count=job.size(), priority=job.priority, at_s=at_s)


def _bound(pods: Iterable[Pod], job: BatchJob) -> bool:
    return any(pod.node and pod.owner is not None and pod.owner[1] == job.uid for pod in pods)


def _same(record: StartRecord) -> Callable[[str], bool]:
    return lambda queue: record.gang


def _age(job: BatchJob) -> tuple[float, str]:
    return job.created_s, job.name


def _without_holds(spec: GangSpec) -> GangSpec:
    rows = [row for row in zip(spec.job.roles, spec.sources, strict=True) if not isinstance(row[1], FuturePods)]
    job = replace(spec.job, roles=tuple(role for role, _ in rows))
    return GangSpec(job=job, sources=tuple(source for _, source in rows))
