"""A gang as a dialect is told of it: what forms it, how far it is, what it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from phalanx.client.connection import Object
from phalanx.client.kind import Kind
from phalanx.dialects.frame import PodSet, Stage, Told
from phalanx.kube.gang import stages
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.spec.gang_spec import JobPods, PodSource
from phalanx.kube.read.workload.batch_job import BatchJob, original_template
from phalanx.model.job import Role
from phalanx.model.reason import Reason

_STAGES = {
    stages.Stage.WAITING: Stage.WAITING,
    stages.Stage.STARTING: Stage.STARTING,
    stages.Stage.RUNNING: Stage.RUNNING,
    stages.Stage.LEAVING: Stage.LEAVING,
}

Caches = Callable[[Kind], Mapping[str, Object]]


def tell(gang: GangLifecycle, objects: Caches, reason: Reason | None, preemptor: Told | None = None) -> Told | None:
    """Return the gang as it is; None: nothing of it is known any more. `reason`: why it waits."""
    jobs = sorted(gang.jobs.values(), key=lambda job: (job.created_s, job.name))
    if not jobs or (gang.spec is None and not all(job.finished for job in jobs)):
        return None
    owners = [(job.adapter.kind, objects(job.adapter.kind).get(job.key)) for job in jobs]
    found = [{"apiVersion": kind.api_version, "kind": kind.name, **obj} for kind, obj in owners if obj is not None]
    if len(found) != len(jobs):
        return None
    over = all(job.finished for job in jobs)
    departure = gang.state.departure if isinstance(gang.state, stages.Leaving) else None
    spec = gang.spec
    return Told(
        id=gang.id,
        namespace=jobs[0].namespace,
        kind=found[0]["kind"],
        owners=tuple(found),
        options={key: value for job in reversed(jobs) for key, value in job.options.items()},
        queue=spec.job.queue if spec is not None else "",
        priority=spec.job.priority if spec is not None else 0,
        stage=Stage.FINISHED if over else _STAGES[gang.stage],
        pod_sets=tuple(_pod_sets(gang, jobs, found)),
        reason=departure.why if departure is not None else reason,
        preemptor=preemptor,
        outcome=gang.objects.outcome if over else None,
        created_s=jobs[0].created_s,
        since_s=gang.record.at_s if gang.record is not None else 0.0,
    )


def preemptor_of(gang: GangLifecycle) -> str:
    """Return the gang that this one gives way to; empty: it gives way to none."""
    departure = gang.state.departure if isinstance(gang.state, stages.Leaving) else None
    return departure.mark.by if departure is not None and departure.mark is not None else ""


def _pod_sets(gang: GangLifecycle, jobs: Sequence[BatchJob], owners: Sequence[Object]) -> Iterator[PodSet]:
    start = gang.parts.start if gang.parts is not None else None
    ready: dict[str, int] = {}
    for pod in gang.pods.values():
        if pod.owner is not None:
            ready[pod.owner[1]] = ready.get(pod.owner[1], 0) + pod.ready
    for number, (job, owner) in enumerate(zip(jobs, owners, strict=True)):
        shown = job.adapter.read(owner)
        template = shown["spec"]["template"]
        at = start.seats.role_of(JobPods(job.uid)) if start is not None else None
        size = _size(job)
        role = next((role for role, source in _rows(gang) if source == JobPods(job.uid)), None)
        yield PodSet(
            name=job.adapter.role.lower() or ("main" if len(jobs) == 1 else f"main-{number}"),
            count=size,
            minimum=min(size, role.minimum) if role is not None else size,
            request=job.requirements.shape.requests,
            template={**template, "spec": original_template(shown["metadata"], template["spec"])},
            placed=len(start.seats.rows[at].seats) if start is not None and at is not None else 0,
            flavor=start.flavor_of(job) if start is not None else "",
            succeeded=job.succeeded,
            ready=ready.get(job.uid, 0),
        )


def _size(job: BatchJob) -> int:
    """As Kubernetes' users count: min(parallelism, completions)."""
    wished = job.requested_parallelism
    return wished if job.completions is None else min(wished, job.completions)


def _rows(gang: GangLifecycle) -> Iterator[tuple[Role, PodSource]]:
    if gang.spec is not None:
        yield from zip(gang.spec.job.roles, gang.spec.sources, strict=True)
