"""Build the *view* of a gang, which is the data that its dialect gets: the gang's objects, its stage, and the nodes and
flavors that it holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from phalanx.client.connection import Object
from phalanx.client.informer import key_of
from phalanx.client.kind import NODES, PODS, Kind
from phalanx.dialects.frame.dialect import Eviction, GangStage, GangView, PodSet
from phalanx.kube.gang.lifecycle import stages
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.members import BarePods, JobPods, PodSource
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.read.workload.batch_job import BatchJob, original_template, pod_set_names
from phalanx.model.job import Outcome, Role
from phalanx.model.reason import Reason

_STAGES = {
    stages.Stage.WAITING: GangStage.WAITING,
    stages.Stage.STARTING: GangStage.STARTING,
    stages.Stage.RUNNING: GangStage.RUNNING,
    stages.Stage.LEAVING: GangStage.LEAVING,
}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUCCEEDED, _FAILED = "Succeeded", "Failed"

Caches = Callable[[Kind], Mapping[str, Object]]


def tell(
    gang: GangLifecycle, objects: Caches, pods: Sequence[Object], reason: Reason | None, evicted: Eviction | None
) -> GangView | None:
    """Return the present view of the gang (the data about it that its dialect gets); None if no object of the gang is
    left. `pods`: the bare pods of the gang, including pods that have ended. `reason`: why the gang waits; None if it
    does not wait."""
    jobs = sorted(gang.objects.jobs.values(), key=lambda job: (job.created_s, job.name))
    owners = list(pods) if not jobs else [obj for job in jobs if (obj := _object(job, objects)) is not None]
    if not owners or (jobs and len(owners) != len(jobs)):
        return None
    over = all(job.finished for job in jobs) if jobs else all(_phase(pod) in (_SUCCEEDED, _FAILED) for pod in pods)
    if gang.spec is None and not over:
        return None
    said = [job.options for job in jobs] or [pod.options for pod in gang.objects.pods.values()]
    outcome = gang.objects.outcome if jobs else outcome_of(pods)
    return GangView(
        id=gang.id,
        namespace=gang.id.partition("/")[0],
        kind="PodGroup" if not jobs and any(labels.JOB in one for one in said) else owners[0]["kind"],
        owners=tuple({owner["metadata"]["uid"]: owner for owner in owners}.values()),  # each object once
        options={key: value for one in reversed(said) for key, value in one.items()},
        queue=gang.queue,
        priority=gang.spec.job.priority if gang.spec is not None else 0,
        stage=GangStage.FINISHED if over else GangStage.RESERVED if _is_held(gang) else _STAGES[gang.state.stage],
        pod_sets=tuple(_job_sets(gang, jobs, owners, objects) if jobs else _bare_sets(gang, owners, objects)),
        reason=reason,
        evicted=evicted,
        outcome=outcome if over else None,
        created_s=min(epoch_s(owner["metadata"].get("creationTimestamp")) for owner in owners),
    )


def _is_held(gang: GangLifecycle) -> bool:
    return isinstance(gang.state, stages.Starting) and gang.state.held


def outcome_of(pods: Sequence[Object]) -> Outcome:
    """Return the outcome of ended bare pods: succeeded if any of them has succeeded."""
    return Outcome.SUCCEEDED if any(_phase(pod) == _SUCCEEDED for pod in pods) else Outcome.FAILED


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _object(job: BatchJob, objects: Caches) -> Object | None:
    kind = job.adapter.kind
    found = job.object_in(objects(kind))
    return {**found, "apiVersion": kind.api_version, "kind": kind.name} if found is not None else None


def as_pod(obj: Object) -> Object:
    """Return the pod with the fields `apiVersion` and `kind`, which the items of a list response do not have."""
    return {**obj, "apiVersion": PODS.api_version, "kind": PODS.name}


def _job_sets(
    gang: GangLifecycle, jobs: Sequence[BatchJob], owners: Sequence[Object], objects: Caches
) -> Iterator[PodSet]:
    ready: dict[str, int] = {}
    for pod in gang.objects.pods.values():
        if pod.owner is not None:
            ready[pod.owner[1]] = ready.get(pod.owner[1], 0) + pod.ready
    names = pod_set_names(jobs)
    for job, owner in zip(jobs, owners, strict=True):
        shown = job.adapter.read(owner)
        template = shown["spec"]["template"]
        role = next((role for role, source in _roles(gang) if source == JobPods(job.uid)), None)
        placed, flavor = _given(gang, JobPods(job.uid))
        size = job.asked_pods
        yield PodSet(
            name=names[job.uid],
            count=size,
            minimum=min(size, role.minimum) if role is not None else size,
            request=job.requirements.shape.requests,
            template=original_template(shown["metadata"], template),
            placed=placed,
            flavor=flavor,
            succeeded=gang.objects.succeeded(job),
            ready=ready.get(job.uid, 0),
            reclaimable=_reclaimable(job),
            places=_places(gang, JobPods(job.uid), objects),
        )


def _bare_sets(gang: GangLifecycle, owners: Sequence[Object], objects: Caches) -> Iterator[PodSet]:
    """Yield a pod set for each role of the gang. Its template is taken from one of the role's bare pods."""
    by_key = {key_of(owner): owner for owner in owners}
    over = sum(_phase(owner) == _SUCCEEDED for owner in owners)
    roles = [(role, source) for role, source in _roles(gang) if isinstance(source, BarePods)]
    names = _bare_names([source.role for _, source in roles])
    for number, (role, source) in enumerate(roles):
        pods = [pod for pod in gang.objects.pods.values() if _source(pod) == source]
        first = next((by_key[pod.key] for pod in pods if pod.key in by_key), owners[0])
        placed, flavor = _given(gang, source)
        yield PodSet(
            name=names[number],
            count=role.count,
            minimum=role.minimum,
            request=role.shape.requests,
            template={"metadata": {"labels": first["metadata"].get("labels") or {}}, "spec": first["spec"]},
            placed=placed,
            flavor=flavor,
            succeeded=over if len(roles) == 1 else 0,
            ready=sum(pod.ready for pod in pods),
            places=_places(gang, source, objects),
        )


def _bare_names(roles: Sequence[str]) -> list[str]:
    """Return a name for each role: the role's own name if this name is valid and unique, and otherwise a name with a
    number."""
    own = [role if _NAME.fullmatch(role) else "main" for role in roles]
    return [name if own.count(name) == 1 else f"{name}-{number}" for number, name in enumerate(own)]


def _source(pod: Pod) -> PodSource:
    return BarePods(pod.options.get(labels.ROLE, ""), pod.shape)


def _given(gang: GangLifecycle, source: PodSource) -> tuple[int, str]:
    """Return the number of pods for which the role was granted capacity, and the flavor of these pods. Pods without a
    planned node are counted too, but only up to the role's minimum: they are being replaced or planned again."""
    if gang.state.parts is None:
        return 0, ""
    start = gang.state.parts.start
    at = start.seats.role_of(source)
    if at is None:
        return 0, ""
    flavors, row = start.record.flavors, start.seats.rows[at]
    placed = sum(bool(seat.node) for seat in row.seats.values())
    return max(placed, min(len(row.seats), row.least)), flavors[at] if at < len(flavors) else ""


def _places(gang: GangLifecycle, source: PodSource, objects: Caches) -> tuple[tuple[Mapping[str, str], int], ...]:
    """Return the labels of each node on which pods of the role are planned, and the number of these pods."""
    at = gang.state.parts.start.seats.role_of(source) if gang.state.parts is not None else None
    if gang.state.parts is None or at is None:
        return ()
    counts = Counter(seat.node for seat in gang.state.parts.start.seats.rows[at].seats.values() if seat.node)
    nodes = objects(NODES)
    return tuple(
        (nodes[name]["metadata"].get("labels") or {}, count) for name, count in counts.items() if name in nodes
    )


def _reclaimable(job: BatchJob) -> int:
    """Return the number of pods that a running Job no longer needs: its parallelism less the completions that have not
    succeeded yet."""
    total = job.parallelism if job.completions is None else job.completions
    most = min(job.parallelism, total)
    if most <= 1 or not job.succeeded or job.finished:
        return 0
    return max(0, most - max(0, total - job.succeeded))


def _roles(gang: GangLifecycle) -> Iterator[tuple[Role, PodSource]]:
    if gang.spec is not None:
        yield from zip(gang.spec.job.roles, gang.spec.sources, strict=True)
