"""Find the gang of a pod by the rules of KAI's pod grouper. Unlike KAI, this module finds the gang only from the pod's
own metadata, without reading the pod's owners.

The annotation `pod-group-name` of a pod names the pod's PodGroup. Without this annotation, the gang follows from the
kind of the pod's owner, and the owner states the number of pods of the gang. The PodGroup has the name that KAI would
give it: `pg-OWNER-UID`.

`shape_of` computes the number of pods that the gang of an owner needs, by KAI's rules for the kind of the owner. If KAI
has no rule for the kind, the gang needs one pod. A gang waits until Phalanx has read its owner.


Source: pkg/podgrouper/podgrouper/plugins of v0.17.0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object, Objects, RoleClaim
from phalanx.dialects.kai import kinds

_OURS = "phalanx.dev/"
QUEUE, JOB, ROLE = (f"{_OURS}{word}" for word in ("queue", "job", "role"))
MIN_AVAILABLE, PREEMPTIBLE, SUBGROUPS = (f"{_OURS}{word}" for word in ("min-available", "preemptible", "subgroups"))
STALENESS = f"{_OURS}staleness-grace-period"
CLOSENESS, PREFERRED = f"{_OURS}closeness", f"{_OURS}preferred-closeness"
_REPLACES, _FRACTION, _MEMORY, _COUNT = (
    f"{_OURS}{word}" for word in ("replaces-failed", "gpu-fraction", "gpu-memory", "gpu-count")
)

GROUP_NAME: Final = "pod-group-name"
QUEUE_LABEL, SUBGROUP = f"{kinds.PREFIX}queue", f"{kinds.PREFIX}subgroup-name"
PRIORITY_LABEL, PREEMPTIBILITY = "priorityClassName", f"{kinds.PREFIX}preemptibility"
RAY_PRIORITY = "ray.io/priority-class-name"
FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
TOPOLOGY = f"{kinds.PREFIX}topology"
GRACE_PERIOD = f"{kinds.PREFIX}staleness-grace-period"
REQUIRED_LEVEL, PREFERRED_LEVEL = f"{TOPOLOGY}-required-placement", f"{TOPOLOGY}-preferred-placement"
OWNER: Final = f"{kinds.PREFIX}owner"  # an option of a pod: the owner by which the pod is grouped (`OwnerName`)
CONTROLLER: Final = f"{kinds.PREFIX}controller"  # an option of a pod: the pod's controller, in the same form
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
DEFAULT_QUEUE: Final = "default-queue"
DEPLOYMENT: Final = "Deployment"  # the owner kind in the options of a Deployment's pod; each such pod is a gang
_PROJECT, _NODE_POOL = "project", f"{kinds.PREFIX}node-pool"
_NOTHING: Mapping[str, Any] = {}
_PLACED = (TOPOLOGY, REQUIRED_LEVEL, PREFERRED_LEVEL)
_KEPT = (QUEUE_LABEL, PREEMPTIBILITY, *_PLACED, LWS_SIZE, GROUP_NAME, GRACE_PERIOD)


class OwnerName(NamedTuple):
    """The owner whose kind determines how a pod is grouped. For a pod without an owner, it is the pod itself."""

    api_version: str
    kind: str
    name: str
    uid: str


class KaiGroup(NamedTuple):
    """The gang to which a pod belongs. `role`: the pod's role in the gang; empty if the gang has only one role."""

    pod_group: str
    owner: OwnerName
    role: str = ""


def options_of(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return the Phalanx options of a pod; empty if the pod has another scheduler's name or has Phalanx's queue
    label."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    if scheduler != kinds.SCHEDULER_NAME or QUEUE in labels:
        return _NOTHING
    group, made_by = grouped(meta), controller(meta)
    by_hand = GROUP_NAME in notes
    found = {
        QUEUE: kinds.tree_queue(f"podgroup:{group.pod_group}" if by_hand else queue_named(labels) or DEFAULT_QUEUE),
        JOB: kinds.gang_name(group.pod_group),
        ROLE: str(labels.get(SUBGROUP) or "") if by_hand else group.role,
        OWNER: "|".join(group.owner),
        CONTROLLER: "|".join(made_by or ()),
        PRIORITY_LABEL: str(labels.get(PRIORITY_LABEL) or labels.get(RAY_PRIORITY) or ""),
        _FRACTION: str(notes.get(FRACTION, "")),
        _MEMORY: f"{notes[MEMORY]}Mi" if MEMORY in notes else "",
        _COUNT: str(notes.get(DEVICES, "")) if FRACTION in notes or MEMORY in notes else "",
        _REPLACES: "true" if group.owner.kind not in ("Pod", DEPLOYMENT) else "",
    }
    found |= {key: str({**notes, **labels}.get(key, "")) for key in _KEPT}
    return {key: text for key, text in found.items() if text}


def queue_named(labels: Mapping[str, object]) -> str:
    """Return the queue that the labels name; empty if they name no queue."""
    if found := labels.get(QUEUE_LABEL):
        return str(found)
    project, pool = labels.get(_PROJECT), labels.get(_NODE_POOL)
    return f"{project}-{pool}" if project and pool else str(project or "")


def owner_of(options: Mapping[str, str]) -> OwnerName:
    """Return the owner that a pod's options name."""
    return _named(options.get(OWNER, "")) or OwnerName("v1", "Pod", "", "")


def controller_of(options: Mapping[str, str]) -> OwnerName | None:
    """Return the controller that a pod's options name; None if they name no controller."""
    return _named(options.get(CONTROLLER, ""))


def controller(meta: Mapping[str, Any]) -> OwnerName | None:
    """Return the controller among an object's owners. If no owner is the controller, return the first owner; None if
    the object has no owners."""
    refs = meta.get("ownerReferences") or ()
    first = next((ref for ref in refs if ref.get("controller")), refs[0] if refs else None)
    if first is None:
        return None
    return OwnerName(*(str(first.get(key, "")) for key in ("apiVersion", "kind", "name", "uid")))


def grouped(meta: Mapping[str, Any]) -> KaiGroup:
    """Return the gang of a pod."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    own = OwnerName("v1", "Pod", str(meta.get("name", "")), str(meta.get("uid", "")))
    above = controller(meta) or own
    if name := notes.get(GROUP_NAME):
        return KaiGroup(str(name), above)
    if (app := labels.get("spark-app-selector")) and "spark-app-name" in labels:
        return KaiGroup(str(app), own)
    if above.kind == "ReplicaSet" and "pod-template-hash" in labels:  # each pod of a Deployment is a gang by itself
        return KaiGroup(f"pg-{own.name}-{own.uid}", own._replace(kind=DEPLOYMENT))
    return _of_owner(above, labels)


def _named(text: str) -> OwnerName | None:
    parts = text.split("|")
    return OwnerName(*parts) if len(parts) == len(OwnerName._fields) else None


def _of_owner(owner: OwnerName, labels: Mapping[str, object]) -> KaiGroup:
    """Return the gang of a pod. It follows from the labels that the owner's controller sets on its pods."""
    if name := labels.get("leaderworkerset.sigs.k8s.io/name"):
        return KaiGroup(f"pg-{name}-group-{labels.get('leaderworkerset.sigs.k8s.io/group-index', '0')}", owner)
    if name := labels.get("jobset.sigs.k8s.io/jobset-name"):
        job_set = OwnerName(
            kinds.JOB_SETS.api_version, "JobSet", str(name), str(labels.get("jobset.sigs.k8s.io/jobset-uid", ""))
        )
        index = labels.get("jobset.sigs.k8s.io/job-index", "0")
        role = f"{labels.get('jobset.sigs.k8s.io/replicatedjob-name', '')}-replica-{index}"
        return KaiGroup(f"pg-{name}-{job_set.uid}".removesuffix("-"), job_set, role)
    role = str(labels.get("training.kubeflow.org/replica-type") or labels.get("ray.io/group") or "").lower()
    return KaiGroup(f"pg-{owner.name}-{owner.uid}", owner, role)


BATCH_MIN_MEMBER: Final = f"{kinds.PREFIX}batch-min-member"
_HIGHEST: Final = 8  # chains of owners are followed up to this length
_MOST_LEAVES: Final = 10_000  # the largest number of sub-groups of one gang
ROOT: Final = ":podgroup"  # the name of the group for the whole gang; no sub-group can have this name


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerShape:
    """The numbers of pods that a gang needs. `minimum`: the required number of pods, whatever their roles. `roles`,
    `groups`: if set, the minimums of the roles and of the groups (as in `phalanx.dev/subgroups`), which replace
    `minimum`. `fault`: why the gang is invalid; empty if it is valid."""

    minimum: int = 1
    roles: Mapping[str, RoleClaim] = field(default_factory=dict)
    groups: tuple[Object, ...] = ()
    fault: str = ""

    @property
    def members(self) -> int:
        """Return the number of pods that the gang requires."""
        return sum(role.minimum for role in self.roles.values()) if self.roles else self.minimum


ONE: Final = OwnerShape()


def shape_of(kind: str, obj: Object) -> OwnerShape:
    """Return the number of pods that an owner's gang needs. `kind`: the kind of the owner. `obj`: the owner."""
    read = _RULES.get(kind)
    return ONE if read is None else read(obj)


def sizes(owner: OwnerName, objects: Objects) -> Kind | None:
    """Return the kind of an owner if objects of this kind have a field for the number of pods and Phalanx watches the
    kind; otherwise None."""
    return _kind(owner, kinds.OWNERS, objects)


def lineage(first: OwnerName, namespace: str, objects: Objects) -> tuple[Object | None, tuple[Kind, str] | None]:
    """Follow the chain of owners of pods, from `first`, the controller of the pods. Return the topmost owner that
    Phalanx watches, and the (kind, key) of an owner in the chain that Phalanx has not read yet. A result is None if the
    object does not exist."""
    top, next_up = None, first
    for _ in range(_HIGHEST):
        if (kind := _kind(next_up, (*kinds.OWNERS, *kinds.ABOVE), objects)) is None:
            break
        key = f"{namespace}/{next_up.name}"
        if (found := objects[kind].get(key)) is None:
            return top, (kind, key)
        top, above = found, controller(found.get("metadata") or {})
        if above is None:
            break
        next_up = above
    return top, None


def _kind(owner: OwnerName, among: Iterable[Kind], objects: Objects) -> Kind | None:
    group = owner.api_version.rpartition("/")[0]
    return next((each for each in among if (each.name, each.group) == (owner.kind, group) and each in objects), None)


def _job(obj: Object) -> OwnerShape:
    return OwnerShape(minimum=max(1, _count((obj["metadata"].get("annotations") or {}).get(BATCH_MIN_MEMBER), 1)))


def _training(obj: Object) -> OwnerShape:
    spec = obj.get("spec") or {}
    replicas = {
        kind.removesuffix("s"): {role.lower(): _count(each.get("replicas"), 1) for role, each in (found or {}).items()}
        for kind, found in spec.items()
        if kind.endswith("ReplicaSpecs")
    }
    counts = {role: count for found in replicas.values() for role, count in found.items()}
    policy = (spec.get("runPolicy") or {}).get("schedulingPolicy") or {}
    elastic = (spec.get("elasticPolicy") or {}).get("minReplicas")
    least = policy.get("minAvailable") if policy.get("minAvailable") is not None else elastic
    if least is not None:
        return OwnerShape(minimum=max(1, _count(least, 1)))
    if spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
        counts.pop("launcher", None)
    return OwnerShape(roles={role: RoleClaim(minimum=count) for role, count in counts.items()})


def _job_set(obj: Object) -> OwnerShape:
    spec = obj.get("spec") or {}
    notes = obj["metadata"].get("annotations") or {}
    jobs = spec.get("replicatedJobs") or ()
    ordered = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    least = _count(notes.get(BATCH_MIN_MEMBER), 1 if ordered else len(jobs))
    if (leaves := sum(_count(job.get("replicas"), 1) for job in jobs)) > _MOST_LEAVES:
        return OwnerShape(
            fault=f"its JobSet has {leaves} replicas, each of which is a sub-group; at most {_MOST_LEAVES} are allowed"
        )
    groups: list[Object] = [{"name": ROOT, "minimum": max(1, min(least, len(jobs)))}]
    roles: dict[str, RoleClaim] = {}
    for job in jobs:
        name = str(job.get("name"))
        groups.append({"name": name, "parent": ROOT})
        for index in range(_count(job.get("replicas"), 1)):
            leaf = f"{name}-replica-{index}"
            groups.append({"name": leaf, "parent": name})
            roles[leaf] = RoleClaim(minimum=_pods_of(job.get("template") or {}), group=leaf)
    return OwnerShape(roles=roles, groups=tuple(groups))


def _pods_of(template: Object) -> int:
    said = ((template.get("metadata") or {}).get("annotations") or {}).get(BATCH_MIN_MEMBER)
    return _count(said, _count((template.get("spec") or {}).get("parallelism"), 1))


def _ray(obj: Object) -> OwnerShape:
    groups = (obj.get("spec") or {}).get("workerGroupSpecs") or ()
    return OwnerShape(roles={"headgroup": RoleClaim(minimum=1), **dict(_ray_workers(groups))})


def _ray_workers(groups: Any) -> Iterator[tuple[str, RoleClaim]]:
    for group in groups:
        least = _count(group.get("minReplicas"), _count(group.get("replicas"), 1))
        yield str(group.get("groupName")).lower(), RoleClaim(minimum=least * _count(group.get("numOfHosts"), 1))


def _count(value: Any, default: int) -> int:
    """Return a number of at least 0; `default` if the value is missing or invalid."""
    try:
        return default if value is None else max(0, int(value))
    except (TypeError, ValueError):
        return default


_RULES: Final[Mapping[str, Callable[[Object], OwnerShape]]] = {
    "Job": _job,
    "JobSet": _job_set,
    "RayCluster": _ray,
    "MPIJob": _training,
    **{kind.name: _training for kind in kinds.TRAINING},
}
