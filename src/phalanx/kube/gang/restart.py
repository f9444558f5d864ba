"""Find the gangs that an earlier process of the scheduler started, from the objects alone.

The record on the Jobs and on the bound pods is the first write of a start. So every state between two writes is one of
these:

- a running Job, or a bound bare pod, with a record: the gang was started; continue with it;
- a suspended Job with bound pods: its start was being taken back, or a user suspended it; finish that;
- a member with the mark of a preemption of this start: finish the preemption;
- any other state: the gang is pending, as before.

The objects of ended gangs still have their run times (`past_run`).

`adoption_order` sorts the gangs that are reported to the core: first gangs with a bound pod, then admitted gangs
without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.seats.bind_barrier import Readiness
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seat_table import GangSeats, pod_source
from phalanx.kube.gang.spec.elsewhere import confined
from phalanx.kube.gang.spec.gang_spec import FuturePods, GangDefaults, GangMembers, GangSpec, claim_on, gang_spec
from phalanx.kube.gang.stages import Running, StartedParts, Starting, member_went_reason
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, RecordKey, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import RunTold
from phalanx.model.job import Phase, Slot
from phalanx.model.reason import Reason, ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedStart:
    """A start of an earlier process. `leaving`: True if it must be taken back. `mark`: set if it was being
    preempted."""

    spec: GangSpec
    record: StartRecord
    leaving: bool
    mark: PreemptionMark | None


def unfinished_start(
    gang: GangLifecycle, defaults: GangDefaults, now_s: float, hold_s: float, key: RecordKey | None = None
) -> UnfinishedStart | None:
    """Return the start that the objects record; None for a pending gang. Records without a signature by `key` are
    ignored, unless their pods are bound (`_unsigned`). Without a key, all records are accepted."""
    jobs = [job for job in gang.jobs.values() if job.ours and not job.finished]
    bare = [pod for pod in gang.pods.values() if gang.objects.job_of(pod) is None]
    left = [job for job in jobs if job.suspended and _bound(gang.pods.values(), job)]
    record = _record(jobs, bare, key) or _unsigned(gang, jobs, now_s) or (_of(left[0]) if left else None)
    if record is None or (not jobs and not bare):
        return None
    pods = sorted((pod for pod in bare if not pod.going or pod.node), key=lambda pod: (pod.created_s, pod.name))
    sizes = {job.uid: gang.objects.size(job) for job in jobs}
    members = GangMembers(id=gang.id, jobs=sorted(jobs, key=_age), pods=pods, sizes=sizes)
    claim = claim_on(members, defaults) if defaults.dialects else None
    holds = now_s < record.at_s + (hold_s if claim is None or claim.hold_s is None else claim.hold_s)
    members = replace(members, pods=[*pods, *_to_be_replaced(gang, pods, record)]) if holds else members
    spec = gang_spec(members, replace(defaults, gang=_same(record)))
    spec = spec if holds else _without_holds(spec)
    roles = spec.job.roles
    if record.cluster:  # the gang stays in its cluster
        roles = tuple(confined(role, (record.cluster,)) for role in roles)
    spec = replace(spec, job=replace(spec.job, queue=record.queue, blocked=None, roles=roles))
    mark = _mark(jobs, bare, record)
    return UnfinishedStart(spec=spec, record=record, leaving=bool(left) or mark is not None, mark=mark)


def past_run(gang: GangLifecycle, defaults: GangDefaults) -> RunTold | None:
    """Return the run time of an ended gang of Jobs; None if the Jobs do not record it."""
    jobs = sorted((job for job in gang.jobs.values() if job.record is not None and job.ended_s), key=_age)
    if not jobs or len(jobs) < len(gang.jobs):
        return None
    sizes = {job.uid: min(job.requested_parallelism, job.completions or job.requested_parallelism) for job in jobs}
    members = GangMembers(id=gang.id, jobs=jobs, pods=(), sizes=sizes)
    started_s = max(job.record.at_s for job in jobs if job.record is not None)
    return RunTold(gang_spec(members, defaults).job, max(job.ended_s for job in jobs) - started_s)


def adoption_order(gang: GangLifecycle, begun: UnfinishedStart) -> tuple[bool, float, str]:
    """Return the sort key of started gangs: first the gangs with a pod on a node, then by the time of the start."""
    return not any(pod.node for pod in gang.pods.values()), begun.record.at_s, gang.id


def _to_be_replaced(gang: GangLifecycle, pods: Sequence[Pod], record: StartRecord) -> list[Pod]:
    """Return a pod in place of each failed bare pod whose replacement does not exist yet: the start keeps its seat and
    its charge. Which role a lost pod had is known only if all pods of the gang are equal."""
    sources = {(pod.options.get(labels.ROLE, ""), pod.shape) for pod in pods}
    if gang.jobs or len(sources) != 1 or not all(labels.REPLACES_FAILED in pod.options for pod in pods):
        return []
    return [pods[0]] * max(0, record.seats - len(pods) - gang.objects.succeeded_bare)


def _record(jobs: Iterable[BatchJob], bare: Iterable[Pod], key: RecordKey | None) -> StartRecord | None:
    """Return the record of the last start whose signature is valid."""
    started: list[BatchJob | Pod] = [job for job in jobs if not job.suspended]
    started += [pod for pod in bare if pod.node or (pod.record is not None and pod.record.cluster)]
    records = [each.record for each in started if each.record is not None and _is_ours(each.record, each, key)]
    return max(records, key=lambda record: record.attempt, default=None)


def _unsigned(gang: GangLifecycle, jobs: Iterable[BatchJob], now_s: float) -> StartRecord | None:
    """Return the start of running Jobs with bound pods and unsigned records: an older version started them after a key
    existed. The records are not trusted. The start is derived from the bound pods and from the Jobs' own requests."""
    begun = [job for job in jobs if not job.suspended and not job.pinned and job.record and not job.record.mac]
    uids = {job.uid for job in begun}
    bound = sum(bool(pod.node) and pod.owner is not None and pod.owner[1] in uids for pod in gang.pods.values())
    if not bound:
        return None
    at_s = min(now_s, *(job.record.at_s for job in begun if job.record is not None))
    queue, priority = begun[0].options.get(labels.QUEUE, ""), begun[0].priority
    return StartRecord(attempt=1, queue=queue, count=bound, priority=priority, at_s=at_s, placed=bound)


def _is_ours(record: StartRecord, on: BatchJob | Pod, key: RecordKey | None) -> bool:
    """Return whether the scheduler wrote the record, on this object: all replica types of one share it."""
    uid = on.object_uid if isinstance(on, BatchJob) else on.uid
    return key is None or key.verify(record, uid, on.created_s)


def _mark(jobs: Iterable[BatchJob], bare: Iterable[Pod], record: StartRecord) -> PreemptionMark | None:
    """Return the preemption mark that names this start; None if no object has one."""
    said = [job.mark for job in jobs if job.suspended] + [pod.mark for pod in bare if pod.node]
    return next((mark for mark in said if mark is not None and mark.start_s == record.at_s), None)


def _of(job: BatchJob) -> StartRecord:
    """Return the record of the start of a Job that was suspended again. If the Job has no record any more, build one
    from its fields."""
    queue = job.options.get(labels.QUEUE, "")
    at_s = job.mark.start_s if job.mark is not None else 0.0
    return job.record or StartRecord(attempt=1, queue=queue, count=job.size(), priority=job.priority, at_s=at_s)


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


# --- taking it up -------------------------------------------------------------------------------------------------


def adopt(gang: GangLifecycle, begun: UnfinishedStart) -> None:
    """Continue a start of an earlier process: its pods take their seats again, and the core gets the started job."""
    seats = GangSeats(begun.spec.job.roles, begun.spec.sources)
    parts = gang.parts_of(GangStart(gang.effects, gang.objects, begun.spec, begun.record, seats))
    for number, row in enumerate(seats.rows):
        row.left_out = _was_left_out(parts.start.job_of_role(number))
    _seat_pods(parts)
    if begun.record.gang:
        _recall_seats(parts)
        _recall_leaving(parts)
    if parts.start.elsewhere or (parts.barrier.gate_open and seats.started()):
        unready = [uid for uid, pod in gang.pods.items() if pod.node and pod.phase == "Pending"]
        gang.state = Running(parts=parts, readiness=Readiness(gang.effects.now_s(), unready))
        parts.start.phase = Phase.RUNNING
    else:
        gang.state = Starting(parts=parts)
    _go_on(gang, parts, begun)


def _go_on(gang: GangLifecycle, parts: StartedParts, begun: UnfinishedStart) -> None:
    """Report the state of the start to the core, and continue it."""
    short = _missing_members(parts) if isinstance(gang.state, Starting) and begun.record.gang else 0
    interrupted = Reason(code=ReasonCode.BACKOFF, text="its start was being taken back")
    if not begun.leaving and not short:
        parts.start.emit_full_state()
        gang.resume_jobs(parts)
    elif begun.mark is not None:
        parts.start.emit_full_state(Phase.STOPPING)
        parts.preemption.resume(begun.mark)
    else:
        parts.start.emit_full_state(None if parts.start.bare_pods() else Phase.STOPPING)
        gang.take_back_start(parts, member_went_reason(f"{short} of its pods will not come") if short else interrupted)


def _missing_members(parts: StartedParts) -> int:
    """Return the number of pods that the start needed and that no controller will create any more. A Job with a
    succeeded pod counts as complete."""
    objects, record = parts.start.objects, parts.start.record
    if any(map(objects.has_succeeded, objects.jobs.values())):
        return 0
    return max(0, record.count - parts.start.seats.least)


def _was_left_out(job: BatchJob | None) -> bool:
    """Return whether the start left the Job out: the Job is resumed with a parallelism of 0."""
    return job is not None and not job.suspended and not job.parallelism


def _seat_pods(parts: StartedParts) -> None:
    start = parts.start
    pods = () if start.elsewhere else start.objects.pods.values()
    for pod in sorted(pods, key=lambda pod: (not pod.node, not pod.pin, pod.created_s, pod.name)):
        number = start.seats.role_of(pod_source(pod, start.objects.jobs))
        if number is None or (pod.going and not pod.node):
            continue
        slot = start.seats.take(number, pod)
        if pod.node or pod.pin:
            seat = start.seats[slot]
            seat.node, seat.sent, seat.devices = pod.node or pod.pin, not pod.node, pod.devices
            start.seats.mark(slot, ready=True, bound=bool(pod.node))
            start.effects.allocations.allocate(pod.uid, seat.node, pod.requests)
            parts.barrier.gate_open = True


def _recall_seats(parts: StartedParts) -> None:
    """Add the seats of pods that do not exist now: as many as the role has, of an elastic Job as it was given. The
    number is limited to the seats that were placed at the start or have a pod on a node. Pods that the user requested
    since then are requested from the core as usual."""
    rows, counts = parts.start.seats.rows, list[int]()
    for number, row in enumerate(rows):
        job = parts.start.job_of_role(number)
        elastic = job is not None and row.least < row.role.count
        counts.append(min(row.role.count, job.parallelism) if job is not None and elastic else row.role.count)
    asked_since = sum(counts) - max(parts.start.record.seats, parts.start.seats.taken)
    for number, row in enumerate(rows):
        cut = max(0, min(asked_since, counts[number] - row.taken))
        asked_since -= cut
        counts[number] -= cut
        if counts[number] < row.least:
            row.role = replace(row.role, count=counts[number], minimum=counts[number])
        for _ in range(counts[number] - len(row.seats)):
            row.add(row.next_ordinal())
    parts.elastic.grant(counts)
    if any(parts.elastic.parallelism(job) < job.requested_parallelism for job in parts.start.objects.jobs.values()):
        parts.elastic.rest()  # perhaps it has just given way


def _recall_leaving(parts: StartedParts) -> None:
    """Find the terminating pods that were given up before the restart: those in excess of their role's size. A
    replacement of such a pod requests a node of its own. Other terminating pods are replaced on their nodes."""
    start = parts.start
    for number, row in enumerate(start.seats.rows):
        job = start.job_of_role(number)
        kept = row.least if job is None else parts.elastic.granted.get(job.uid, row.taken)
        pods = {ordinal: start.objects.pods.get(seat.pod) for ordinal, seat in row.seats.items() if seat.node}
        going = [ordinal for ordinal, pod in pods.items() if pod is not None and pod.going]
        for ordinal in going[::-1][: max(0, row.taken - kept)]:
            start.leaving[Slot(number, ordinal)] = Reason(code=ReasonCode.PREEMPTED, text="it gives up pods")
