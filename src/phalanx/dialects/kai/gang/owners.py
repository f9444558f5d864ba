"""The number of pods of an owner's gang, by role: KAI's rules for each kind of owner.

The gang of any other kind needs one pod. A gang waits until its owner has been read.


Source: pkg/podgrouper/podgrouper/plugins of v0.17.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object, Objects, RoleClaim
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.gang.grouper import OwnerName, controller

BATCH_MIN_MEMBER: Final = f"{kinds.PREFIX}batch-min-member"
_HIGHEST: Final = 8  # the longest chain of owners that is followed
_MOST_LEAVES: Final = 10_000  # sub-groups of one gang
ROOT: Final = ":podgroup"  # the name of the group for the whole gang; no sub-group can have it


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerShape:
    """The size of a gang. `minimum`: the required number of pods of any role. `roles`, `groups`: the minimums by role
    and group (as in `phalanx.dev/subgroups`), instead of `minimum`. `fault`: why the gang is invalid; empty if it is
    valid."""

    minimum: int = 1
    roles: Mapping[str, RoleClaim] = field(default_factory=dict)
    groups: tuple[Object, ...] = ()
    fault: str = ""

    @property
    def members(self) -> int:
        """Return the required number of pods."""
        return sum(role.minimum for role in self.roles.values()) if self.roles else self.minimum


ONE: Final = OwnerShape()


def shape_of(kind: str, obj: Object) -> OwnerShape:
    """Return the size of an owner's gang."""
    read = _RULES.get(kind)
    return ONE if read is None else read(obj)


def sizes(owner: OwnerName, objects: Objects) -> Kind | None:
    """Return the kind of an owner that states its number of pods; None for other kinds, or if the kind is not
    watched."""
    return _kind(owner, kinds.OWNERS, objects)


def lineage(first: OwnerName, namespace: str, objects: Objects) -> tuple[Object | None, tuple[Kind, str] | None]:
    """Return the topmost watched owner of the pods, and an owner in the chain that has not been read yet. `first`: the
    controller of the pods."""
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
        return OwnerShape(fault=f"its JobSet has {leaves} replicas, each a sub-group; {_MOST_LEAVES} are the most")
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
