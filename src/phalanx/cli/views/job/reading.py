"""Make a `JobView` of each job in a snapshot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from phalanx.cli.cluster.jobs.attending import failure, pod_failure, why_stuck
from phalanx.cli.cluster.jobs.finding import controller_of, kind_text, reference_text
from phalanx.cli.cluster.jobs.standing import STUCK
from phalanx.cli.cluster.live_state import Snapshot
from phalanx.cli.views.job.job_view import MANY_JOBS, WAITS, JobView
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.clusters.copies.content import waits_elsewhere
from phalanx.clusters.workers.reach import cluster_of
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import EXPLAINED
from phalanx.kube.read.labels import ARRAY, CLUSTER_CHOICE, JOB, OURS, QUEUE, USER, option
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.read.workload.adapter import TRAINING_KINDS, adapters
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import GangSize, Phase, Role
from phalanx.model.plan import Start
from phalanx.model.reason import Reason, ReasonCode, StartForecast
from phalanx.state.cluster import JobRecord, time_limit_s

_OVER = ("Succeeded", "Failed")
GANG = "Gang"  # the kind of a job that consists of several objects


def views(snapshot: Snapshot, namespace: str = "", *, finished: bool = False) -> list[JobView]:
    """Return the jobs of a namespace ("": of all namespaces): first the running jobs, then the pending jobs by priority
    and submission. With `finished`, ended jobs that still have objects follow."""
    prefix = f"{namespace}/" if namespace else ""
    live = _live_views(snapshot, (job for job in snapshot.cluster.jobs if job.startswith(prefix)))
    found = sorted(live, key=lambda view: (view.state in WAITS, -view.priority, view.submitted_s, view.id))
    if finished:
        found += _finished(snapshot)
    return [view for view in found if not namespace or view.namespace == namespace]


def live_view(snapshot: Snapshot, job: str) -> JobView | None:
    """Return the view of the waiting or running job with this id; None if there is no such job."""
    return next(iter(_live_views(snapshot, [job])), None) if job in snapshot.cluster.jobs else None


def _live_views(snapshot: Snapshot, jobs: Iterable[str]) -> list[JobView]:
    reasons, starting, promised = snapshot.reasons, snapshot.starting, snapshot.nominated
    live = [
        _live(snapshot, snapshot.cluster.jobs[job], reasons.get(job), isinstance(starting.get(job), Start))
        for job in jobs
    ]
    return [replace(view, state="promised") if view.id in promised else view for view in live]


def expected_starts(found: Sequence[JobView], snapshot: Snapshot) -> Mapping[str, StartForecast]:
    """Return the expected start of each pending job. If more than `MANY_JOBS` jobs are live, the result is empty,
    because the forecast would take too long."""
    if len(snapshot.cluster.jobs) > MANY_JOBS:
        return {}
    return snapshot.expected([view.id for view in found if view.state in WAITS and not view.soon])


def _live(snapshot: Snapshot, record: JobRecord, reason: Reason | None, soon: bool) -> JobView:
    job = record.job
    nodes = Counter(record.placements.values())
    gang = snapshot.gangs.get(job.id)
    marks = [member.mark for member in gang.objects.jobs.values() if member.mark is not None] if gang else []
    roles = _roles(record)
    wanted, least = sum(role.count for role in roles), sum(role.minimum for role in roles)
    whole = sum(_whole(each) for each in gang.objects.jobs.values()) if gang else 0
    kind, made = _made(snapshot, job.id)
    stuck = _why_stuck(snapshot, record)
    waits = gang is not None and waits_elsewhere(gang, snapshot.objects)
    reason = reason or job.blocked
    if reason is not None and reason.code is ReasonCode.WAITING_FOR_MEMBERS:  # the roles count only the pods that exist
        wanted = max(wanted, int(reason.numbers.get("wanted", 0)))
    return JobView(
        id=job.id,
        queue=snapshot.cluster.queue_of(job),
        state=STUCK if stuck else "starting" if waits else str(record.phase),
        wanted=wanted or whole,
        minimum=least if 0 < least < wanted and not job.groups else None,
        placed=len(record.placements),
        since_s=_since(snapshot, record),
        submitted_s=job.submitted_s,
        priority=job.priority,
        nodes=dict(nodes),
        reason=None if stuck else reason,
        message=stuck,
        soon=soon,
        roles=roles,
        preempted=record.preempted,
        preempted_by=marks[0].by if marks else "",
        limit_s=_limit_s(snapshot, record),
        ending=not wanted and whole > 0 and str(record.phase) == "running",
        kind=kind,
        made=made,
        user=job.user,
        array=job.array,
        cap=job.array_cap or 0,
        fixed=job.size is GangSize.FIXED_AT_START,
        cluster=gang.record.cluster if gang is not None and gang.record is not None else "",
        clusters=_clusters(gang),
    )


def _roles(record: JobRecord) -> tuple[Role, ...]:
    """Return the roles of the job, with the numbers of their pods. Bare pods that were created after their gang started
    are counted too."""
    pods = Counter(slot.role for slot in (*record.placements, *record.open) if slot not in record.leaving)
    roles = record.job.roles
    return tuple(replace(role, count=max(role.count, pods[at])) for at, role in enumerate(roles)) if pods else roles


def _clusters(gang: GangLifecycle | None) -> tuple[str, ...]:
    """Return texts about other clusters: for a waiting gang, one text about each of them; for a running gang, the
    reasons for which its cluster was chosen."""
    if gang is None or gang.spec is None or not gang.objects.jobs:
        return ()
    if gang.waits:
        facts = gang.spec.choice.facts if gang.spec.choice is not None else {}
        return tuple(f"{name}: {fact}" for name, fact in list(facts.items())[:EXPLAINED])
    said = next(iter(gang.objects.jobs.values())).options.get(CLUSTER_CHOICE, "")
    return tuple(filter(None, said.split("; ")))


def _why_stuck(snapshot: Snapshot, record: JobRecord) -> str:
    """Return why a started job is stuck; "" if it is not stuck or has not started."""
    gang = snapshot.gangs.get(record.job.id)
    if gang is None or record.phase not in (Phase.STARTING, Phase.RUNNING):
        return ""
    return why_stuck(pod for one in gang.objects.pods.values() if (pod := snapshot.pods.get(one.key)) is not None)


def _made(snapshot: Snapshot, job: str) -> tuple[str, str]:
    """Return the kind of the object that the user created for the job, and its name; "" if the job has the same
    name."""
    gang = snapshot.gangs.get(job)
    members = [*gang.objects.jobs.values()] if gang is not None else []
    if members:
        alone = len({member.key for member in members}) == 1
        return kind_text(members[0].adapter.kind) if alone else GANG, ""
    namespace, _, name = job.partition("/")
    mark, colon, named = name.rpartition(":")
    if colon and mark == "pod":
        return PODS.name, ""
    pods = [snapshot.pods.get(pod.key) or {} for pod in gang.objects.pods.values()] if gang is not None else []
    groups = [
        (kind, objects[f"{namespace}/{named}"])
        for kind, objects in snapshot.objects.items()
        if colon and kind.name == "PodGroup" and f"{namespace}/{named}" in objects
    ]
    owner = next((one for obj in (*pods, *(obj for _, obj in groups)) if obj and (one := controller_of(obj))), None)
    if owner is not None:
        kind, _, name = reference_text(owner).rpartition("/")
        return kind, name
    return kind_text(groups[0][0]) if groups else GANG, named if colon else ""


def _whole(job: BatchJob) -> int:
    """Return the number of pods that must succeed before the Job is complete: its completions or, without completions,
    its parallelism."""
    return job.requested_parallelism if job.completions is None else job.completions


def _since(snapshot: Snapshot, record: JobRecord) -> float:
    """Return when the job entered its present state. A started job entered it when its start was decided, a waiting job
    when it was submitted, and a job that waits again when its Jobs were last suspended."""
    gang, submitted_s = snapshot.gangs.get(record.job.id), record.job.submitted_s
    if gang is None:
        return submitted_s
    if str(record.phase) == "queued":
        jobs = (snapshot.objects.get(job.adapter.kind, {}).get(job.key) or {} for job in gang.objects.jobs.values())
        return max([submitted_s, *map(_suspended_s, jobs)])
    return (gang.record.at_s if gang.record is not None else 0.0) or submitted_s


def _suspended_s(obj: Object) -> float:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    found = (each for each in conditions if (each["type"], each["status"]) == ("Suspended", "True"))
    return max((epoch_s(each.get("lastTransitionTime")) for each in found), default=0.0)


def _limit_s(snapshot: Snapshot, record: JobRecord) -> float | None:
    """Return the time limit of the job: its own or, without one, the default of its queue. For a started job, the limit
    that applied at its start counts as well, and the shorter one is returned."""
    job, gang = record.job, snapshot.gangs.get(record.job.id)
    if str(record.phase) == "queued":
        known = snapshot.cluster.queue_of(job) in snapshot.cluster.queues
        return time_limit_s(snapshot.cluster, job) if known else job.limit_s
    given = gang.record.limit_s if gang is not None and gang.record is not None else None
    return min((limit for limit in (given, job.limit_s) if limit is not None), default=None)


def _finished(snapshot: Snapshot) -> list[JobView]:
    """Return the ended jobs whose objects still exist, the latest end first."""
    owned = defaultdict[str, list[Object]](list)
    for pod in snapshot.pods.values():
        for owner in pod["metadata"].get("ownerReferences") or ():
            owned[owner["uid"]].append(pod)
    found = []
    for kind, obj in _job_objects(snapshot):
        forms = adapters(kind, obj)
        queue = snapshot.queue_of(forms[0], obj) if forms else None
        if queue is not None:
            pods = sorted(owned[obj["metadata"]["uid"]], key=_ended_s)
            found.append(_over(kind, queue, [form.read(obj) for form in forms], pods))
    return sorted([*(view for view in found if view), *_ended_pods(snapshot)], key=lambda view: -view.since_s)


def _ended_pods(snapshot: Snapshot) -> Iterator[JobView]:
    """Yield the gangs of bare pods in which all pods have ended."""
    gangs = defaultdict[str, list[Object]](list)
    for pod in snapshot.pods.values():
        meta = pod["metadata"]
        if pod["spec"].get("schedulerName") in OURS and not any(
            owner.get("controller") for owner in meta.get("ownerReferences") or ()
        ):
            gangs[f"{meta['namespace']}/{option(meta, JOB) or 'pod:' + meta['name']}"].append(pod)
    for job, pods in gangs.items():
        if job not in snapshot.cluster.jobs and all(_phase(pod) in _OVER for pod in pods):
            yield _pods_over(job, pods)


def _pods_over(job: str, pods: Sequence[Object]) -> JobView:
    failed = [pod for pod in pods if _phase(pod) == "Failed"]
    metas = [pod["metadata"] for pod in pods]
    return JobView(
        id=job,
        queue=next((queue for meta in metas if (queue := option(meta, QUEUE))), ""),
        state="failed" if failed else "complete",
        wanted=len(pods),
        placed=len(pods) - len(failed),
        since_s=max(map(_ended_s, pods)),
        submitted_s=min(epoch_s(meta.get("creationTimestamp")) for meta in metas),
        priority=0,
        nodes=dict(Counter(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))),
        reason=None,
        message=pod_failure(min(failed, key=_ended_s)) if failed else "",
        soon=False,
        roles=(),
        kind=PODS.name if job.partition("/")[2].startswith("pod:") else GANG,
    )


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _ended_s(pod: Object) -> float:
    """Return when the pod's last container ended, according to its status. If the status does not contain this time,
    return when the pod was created."""
    states = [one.get("state") or {} for one in (pod.get("status") or {}).get("containerStatuses") or ()]
    ends = [epoch_s((state.get("terminated") or {}).get("finishedAt")) for state in states]
    return max(ends, default=0.0) or epoch_s(pod["metadata"].get("creationTimestamp"))


def _job_objects(snapshot: Snapshot) -> Iterator[tuple[Kind, Object]]:
    """Yield (kind, object) for all Jobs and for all objects of the training kinds that the API server serves."""
    for kind in (JOBS, *TRAINING_KINDS):
        yield from ((kind, obj) for obj in snapshot.objects.get(kind, {}).values())


def _over(kind: Kind, queue: str, shown: Sequence[Object], pods: Sequence[Object]) -> JobView | None:
    """Return the view of an ended job; None if the job has not ended. `shown`: the job's object, read as one Job for
    each of its roles. `pods`: its pods, sorted by their end."""
    meta, status = shown[0]["metadata"], shown[0].get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
            return JobView(
                id=f"{meta['namespace']}/{meta['name']}",
                queue=queue,
                state=condition["type"].lower(),
                wanted=sum(one["spec"].get("completions") or one["spec"].get("parallelism") or 1 for one in shown),
                placed=sum((one.get("status") or {}).get("succeeded") or 0 for one in shown),
                since_s=epoch_s(condition.get("lastTransitionTime")),
                submitted_s=epoch_s(meta.get("creationTimestamp")),
                priority=0,
                nodes={},
                reason=None,
                message=failure(shown[0], pods),
                soon=False,
                roles=(),
                kind=kind_text(kind),
                user=(meta.get("annotations") or {}).get(USER, ""),
                array=option(meta, ARRAY) or "",
                cluster=cluster_of(shown),
            )
    return None
