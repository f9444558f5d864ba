"""Find facts of a live job in its gang and its objects: the object that the user created, the start of its present
state, its time limit, and texts about other clusters.

`reading` puts these facts into the `JobView` of the job."""

from __future__ import annotations

from phalanx.cli.cluster.jobs.finding import controller_of, kind_text, reference_text
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.views.job.job_view import GANG
from phalanx.client.connection import Object
from phalanx.client.kind import PODS
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import EXPLAINED
from phalanx.kube.read.labels import CLUSTER_CHOICE
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.state.cluster import JobRecord, time_limit_s


def cluster_texts(gang: GangLifecycle | None) -> tuple[str, ...]:
    """Return texts about other clusters: for a waiting gang, one text about each cluster; for a running gang, the
    reasons why its cluster was chosen."""
    if gang is None or gang.spec is None or not gang.objects.jobs:
        return ()
    if gang.waits:
        facts = gang.spec.choice.facts if gang.spec.choice is not None else {}
        return tuple(f"{name}: {fact}" for name, fact in list(facts.items())[:EXPLAINED])
    said = next(iter(gang.objects.jobs.values())).options.get(CLUSTER_CHOICE, "")
    return tuple(filter(None, said.split("; ")))


def created_object(snapshot: Snapshot, job: str) -> tuple[str, str]:
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


def wanted_pods(job: BatchJob) -> int:
    """Return the number of pods that must succeed before the Job is complete: its completions or, without completions,
    its parallelism."""
    return job.requested_parallelism if job.completions is None else job.completions


def state_since_s(snapshot: Snapshot, record: JobRecord) -> float:
    """Return the time of the last change of the job's state: for a started job, the decision about its start; for a
    waiting job, its submission; for a job that waits again, the last suspension of its Jobs."""
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


def effective_limit_s(snapshot: Snapshot, record: JobRecord) -> float | None:
    """Return the time limit of the job, or else the default of its queue. If a started job had a shorter limit when it
    started, return that limit."""
    job, gang = record.job, snapshot.gangs.get(record.job.id)
    if str(record.phase) == "queued":
        known = snapshot.cluster.queue_of(job) in snapshot.cluster.queues
        return time_limit_s(snapshot.cluster, job) if known else job.limit_s
    given = gang.record.limit_s if gang is not None and gang.record is not None else None
    return min((limit for limit in (given, job.limit_s) if limit is not None), default=None)
