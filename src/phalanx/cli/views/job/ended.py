"""Make a `JobView` of each job that has ended, and whose objects still exist.

`reading.views` calls `ended_views`. A gang of bare pods has ended if all its pods have ended. Each other job has ended
if its object has the condition Complete or Failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from phalanx.cli.cluster.jobs.attending import failure, pod_failure
from phalanx.cli.cluster.jobs.finding import kind_text
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.views.job.job_view import GANG, JobView
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.clusters.workers.reach import cluster_of
from phalanx.kube.gang.spec.gang_spec import claim_on
from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.read.labels import ARRAY, JOB, OURS, QUEUE, USER, option
from phalanx.kube.read.template.pod_shape import ODD
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.read.workload.adapter import TRAINING_KINDS, JobAdapter, adapters
from phalanx.kube.read.workload.batch_job import read_job

_OVER = ("Succeeded", "Failed")


def ended_views(snapshot: Snapshot) -> list[JobView]:
    """Return the ended jobs whose objects still exist, the latest end first."""
    owned = defaultdict[str, list[Object]](list)
    for pod in snapshot.pods.values():
        for owner in pod["metadata"].get("ownerReferences") or ():
            owned[owner["uid"]].append(pod)
    found = []
    for kind, obj in _job_objects(snapshot):
        with suppress(*ODD):  # an invalid object; the scheduler does not read it either
            found.append(_ended(snapshot, kind, obj, owned[obj["metadata"]["uid"]]))
    return sorted([*(view for view in found if view), *_ended_pods(snapshot)], key=lambda view: -view.since_s)


def _ended(snapshot: Snapshot, kind: Kind, obj: Object, pods: Sequence[Object]) -> JobView | None:
    """Return the view of the job to which the object belongs, if the job has ended and is in a queue. `pods`: the pods
    that the object owns."""
    forms = adapters(kind, obj)
    queue = _queue_of(snapshot, forms[0], obj) if forms else None
    if queue is None:
        return None
    return _over(kind, queue, [form.read(obj) for form in forms], sorted(pods, key=_ended_s))


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
    """Return the time at which the pod's last container ended, according to its status. If the status does not contain
    this time, return the creation time of the pod."""
    states = [one.get("state") or {} for one in (pod.get("status") or {}).get("containerStatuses") or ()]
    ends = [epoch_s((state.get("terminated") or {}).get("finishedAt")) for state in states]
    return max(ends, default=0.0) or epoch_s(pod["metadata"].get("creationTimestamp"))


def _job_objects(snapshot: Snapshot) -> Iterator[tuple[Kind, Object]]:
    """Yield (kind, object) for all Jobs and for all objects of the training kinds that the API server serves."""
    for kind in (JOBS, *TRAINING_KINDS):
        yield from ((kind, obj) for obj in snapshot.objects.get(kind, {}).values())


def _over(kind: Kind, queue: str, shown: Sequence[Object], pods: Sequence[Object]) -> JobView | None:
    """Return the view of an ended job; None if the job has not ended. `shown`: the job's object, converted to one Job
    for each of its roles. `pods`: its pods, sorted by their end."""
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


def _queue_of(snapshot: Snapshot, form: JobAdapter, obj: Object) -> str | None:
    """Return the queue of an object, also if a label of another scheduler names it; None if the object is in no
    queue. `form`: the adapter that reads this kind of object as a Job."""
    said = (obj["metadata"].get("labels") or {}).get(QUEUE)
    if said is not None or snapshot.reading is None:
        return said
    admission, defaults = snapshot.reading
    job = read_job(obj, admission, form)
    if not job.queued:
        return None
    claim = claim_on(GangMembers(id=job.key, jobs=[job], pods=()), defaults)
    return (claim.queue if claim is not None else job.options.get(QUEUE)) or defaults.default_queue
