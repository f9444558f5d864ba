"""How many pods the gang of an owner needs, and of which roles: KAI's rules by the owner's kind.

A kind that is not here needs one pod. Those that are here, and are not seen yet, are waited for.

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
_HIGHEST: Final = 8  # so many owners above each other are looked through
_MOST_LEAVES: Final = 10_000  # sub-groups of one gang
ROOT: Final = ":podgroup"  # the group of the whole gang: no sub-group may be called so


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a gang. `minimum`: pods of it, whatever their role; `roles` and `groups` (as the word
    `phalanx.dev/subgroups` has them) instead, where roles are told apart. `fault`: why it cannot be a gang, if so."""

    minimum: int = 1
    roles: Mapping[str, RoleClaim] = field(default_factory=dict)
    groups: tuple[Object, ...] = ()
    fault: str = ""

    @property
    def members(self) -> int:
        """Return how many pods it needs."""
        return sum(role.minimum for role in self.roles.values()) if self.roles else self.minimum


ONE: Final = Shape()


def shape_of(kind: str, obj: Object) -> Shape:
    """Return what the gang of an owner is to be."""
    read = _RULES.get(kind)
    return ONE if read is None else read(obj)


def sizes(owner: OwnerName, objects: Objects) -> Kind | None:
    """Return the kind of an owner that says how many pods it needs, where it is looked at; None: it says none."""
    return _kind(owner, kinds.OWNERS, objects)


def lineage(first: OwnerName, namespace: str, objects: Objects) -> tuple[Object | None, tuple[Kind, str] | None]:
    """Return the highest owner that is looked at, from the controller of the pods up, and one on the way that should be
    there and was not seen."""
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


def _job(obj: Object) -> Shape:
    return Shape(minimum=max(1, _count((obj["metadata"].get("annotations") or {}).get(BATCH_MIN_MEMBER), 1)))


def _training(obj: Object) -> Shape:
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
        return Shape(minimum=max(1, _count(least, 1)))
    if spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
        counts.pop("launcher", None)
    return Shape(roles={role: RoleClaim(minimum=count) for role, count in counts.items()})


def _job_set(obj: Object) -> Shape:
    spec = obj.get("spec") or {}
    notes = obj["metadata"].get("annotations") or {}
    jobs = spec.get("replicatedJobs") or ()
    ordered = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    least = _count(notes.get(BATCH_MIN_MEMBER), 1 if ordered else len(jobs))
    if (leaves := sum(_count(job.get("replicas"), 1) for job in jobs)) > _MOST_LEAVES:
        return Shape(fault=f"its JobSet has {leaves} replicas, each a sub-group; {_MOST_LEAVES} are the most")
    groups: list[Object] = [{"name": ROOT, "minimum": max(1, min(least, len(jobs)))}]
    roles: dict[str, RoleClaim] = {}
    for job in jobs:
        name = str(job.get("name"))
        groups.append({"name": name, "parent": ROOT})
        for index in range(_count(job.get("replicas"), 1)):
            leaf = f"{name}-replica-{index}"
            groups.append({"name": leaf, "parent": name})
            roles[leaf] = RoleClaim(minimum=_pods_of(job.get("template") or {}), group=leaf)
    return Shape(roles=roles, groups=tuple(groups))


def _pods_of(template: Object) -> int:
    said = ((template.get("metadata") or {}).get("annotations") or {}).get(BATCH_MIN_MEMBER)
    return _count(said, _count((template.get("spec") or {}).get("parallelism"), 1))


def _ray(obj: Object) -> Shape:
    groups = (obj.get("spec") or {}).get("workerGroupSpecs") or ()
    return Shape(roles={"headgroup": RoleClaim(minimum=1), **dict(_ray_workers(groups))})


def _ray_workers(groups: Any) -> Iterator[tuple[str, RoleClaim]]:
    for group in groups:
        least = _count(group.get("minReplicas"), _count(group.get("replicas"), 1))
        yield str(group.get("groupName")).lower(), RoleClaim(minimum=least * _count(group.get("numOfHosts"), 1))


def _count(value: Any, default: int) -> int:
    """A whole number of at least 0."""
    try:
        return default if value is None else max(0, int(value))
    except (TypeError, ValueError):
        return default


_RULES: Final[Mapping[str, Callable[[Object], Shape]]] = {
    "Job": _job,
    "JobSet": _job_set,
    "RayCluster": _ray,
    "MPIJob": _training,
    **{kind.name: _training for kind in kinds.TRAINING},
}
