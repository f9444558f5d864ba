"""Compute the settings of a gang from its PodGroup or from its owner: queue, priority, size, sub-groups, topology, and
the reason why the gang may not start.

If the pods name a PodGroup, a user created this PodGroup and all settings come from it. Otherwise the settings follow
from the kind of the pods' owner. In this case Phalanx writes a PodGroup for users to read, and never reads settings
from it.


Source: pkg/apis/scheduling/v2alpha2/podgroup_types.go of v0.17.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Claim, Object, Objects, RoleClaim, Said, no_pod_group
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.grouper import (
    CLOSENESS,
    GRACE_PERIOD,
    GROUP_NAME,
    LWS_SIZE,
    MIN_AVAILABLE,
    ONE,
    PREEMPTIBILITY,
    PREEMPTIBLE,
    PREFERRED,
    PREFERRED_LEVEL,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    REQUIRED_LEVEL,
    ROOT,
    STALENESS,
    SUBGROUPS,
    TOPOLOGY,
    OwnerName,
    OwnerShape,
    controller_of,
    lineage,
    owner_of,
    queue_named,
    shape_of,
    sizes,
)
from phalanx.dialects.kai.queues import KaiDefinitions, KaiQueue
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.model.queue import STALENESS_GRACE_S
from phalanx.model.reason import Reason, ReasonCode

TRAIN: Final = "train"
_CLASS_OF: Final[Mapping[str, str]] = {
    "Deployment": "inference",
    "Revision": "inference",
    "SeldonDeployment": "inference",
    "Notebook": "build",
}
_TEMPLATES: Final = frozenset({"template", "replicatedJobs", "headGroupSpec"})
_NON_PREEMPTIBLE_FROM: Final = 100  # by default, jobs with this priority or a higher one are not preemptible


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupTerms:
    """The settings of a gang.

    `priority_class`: the gang's PriorityClass; empty if the priority of its pods is used.
    `nearness`: the name of the topology, the required level and the preferred level.
    `staleness_grace_s`: how long the gang may run with fewer pods than its minimum; 0: no limit.
    `missing`: the reason why the gang waits if Phalanx has not read its PodGroup or owner yet. `awaits`: the kind and
    the key of this owner."""

    queue: str
    priority: int
    priority_class: str
    preemptible: bool
    shape: OwnerShape
    nearness: tuple[str, str, str] = ("", "", "")
    staleness_grace_s: float = STALENESS_GRACE_S
    missing: Reason | None = None
    awaits: tuple[Kind, str] | None = None


def claim(defined: KaiDefinitions, said: Said, objects: Objects) -> Claim | None:
    """Return the settings of a gang (`frame.dialect.Claim`), which follow from the definitions, from its PodGroup and
    from its owner; None if the gang does not belong to KAI."""
    if not kinds.queue_of(said.queue):
        return None
    found = terms(defined, said, objects)
    blocked = found.missing or next(_obstacles(defined, found, said), None)
    options = {PREEMPTIBLE: str(found.preemptible).lower(), STALENESS: f"{found.staleness_grace_s:.15g}"}
    roles = dict(found.shape.roles)
    groups = list(found.shape.groups)
    try:
        required, preferred = _labels(defined, found.nearness)
        groups = [_near(defined, group) for group in groups]
    except LookupError as error:
        required = preferred = ""
        groups = [{key: value for key, value in group.items() if key != "near"} for group in groups]
        blocked = blocked or Reason(code=ReasonCode.INVALID, text=str(error.args[0]))
    if required:
        options[CLOSENESS] = required
    if preferred and required:  # an additional group that contains all roles gets the preferred level
        groups, roles = _wrapped(groups, roles or {"": RoleClaim(minimum=found.shape.minimum)}, preferred)
    elif preferred:
        options[PREFERRED] = preferred
    if groups:
        options[SUBGROUPS] = msgspec.json.encode(groups).decode()
    if not roles:
        options[MIN_AVAILABLE] = str(found.shape.minimum)
    return Claim(
        queue=kinds.tree_queue(found.queue),
        priority=found.priority,
        blocked=blocked,
        options=options,
        roles=roles,
        about=found.awaits,
    )


def terms(defined: KaiDefinitions, said: Said, objects: Objects) -> PodGroupTerms:
    """Return the settings of a gang from its PodGroup or its owner."""
    options = said.options
    if name := options.get(GROUP_NAME):
        group = objects.get(kinds.POD_GROUPS, {}).get(f"{said.namespace}/{name}")
        return _of_pod_group(defined, said, name, group)
    owner = owner_of(options)
    kind = sizes(owner, objects)
    found_owner = objects[kind].get(f"{said.namespace}/{owner.name}") if kind is not None else None
    top, awaits = lineage(controller_of(options) or owner, said.namespace, objects)
    if kind is not None and found_owner is None:
        awaits = kind, f"{said.namespace}/{owner.name}"
    missing = None
    if awaits is not None:
        name = awaits[1].partition("/")[2]
        text = (
            f"the {awaits[0].name} {name}, which owns the pods and states their queue and number, has not been read yet"
        )
        missing = Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text)
    meta = (top or found_owner or {}).get("metadata") or {}
    words = {**options, **(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    name, priority = _priority(defined, str(words.get(PRIORITY_LABEL) or ""), said.priority, owner)
    return PodGroupTerms(
        queue=_queue(meta.get("labels") or {}, said),
        priority=priority,
        priority_class=name,
        preemptible=_preemptible(words.get(PREEMPTIBILITY), priority),
        shape=_size(options) if found_owner is None else shape_of(owner.kind, found_owner),
        nearness=(words.get(TOPOLOGY, ""), words.get(REQUIRED_LEVEL, ""), words.get(PREFERRED_LEVEL, "")),
        staleness_grace_s=_grace_s(words.get(GRACE_PERIOD)),
        missing=missing,
        awaits=awaits,
    )


def gang_of(answer: Object) -> str:
    """Return the id of the gang of a PodGroup or of an owner of pods. Cached objects do not contain their kind. So an
    owner is recognised by its pod template, which a PodGroup does not have."""
    meta, spec = answer.get("metadata") or {}, answer.get("spec") or {}
    name = str(meta.get("name"))
    if not _TEMPLATES.isdisjoint(spec) or any(key.endswith("ReplicaSpecs") for key in spec):
        name = f"pg-{name}-{meta.get('uid')}"
    return f"{meta.get('namespace')}/{kinds.gang_name(name)}"


def shape_of_spec(spec: Mapping[str, Any]) -> OwnerShape:
    """Return the size of the gang that the spec of a PodGroup describes."""
    listed = [one for one in spec.get("subGroups") or () if isinstance(one, Mapping)]
    if not listed:
        return OwnerShape(minimum=max(1, int(spec.get("minMember") or 1)))
    parents = {str(one.get("parent") or "") for one in listed}
    roots = sum(not one.get("parent") for one in listed)
    least = spec.get("minSubGroup")
    groups: list[Object] = [{"name": ROOT, "minimum": max(1, min(int(least or roots), roots))}]
    roles: dict[str, RoleClaim] = {}
    for one in listed:
        name = str(one.get("name"))
        group: Object = {"name": name, "parent": str(one.get("parent") or ROOT)}
        if name in parents:
            if one.get("minSubGroup") is not None:
                group["minimum"] = int(one["minSubGroup"])
        else:
            roles[name] = RoleClaim(minimum=int(one.get("minMember") or 0), group=name)
        if near := one.get("topologyConstraint"):
            group["near"] = dict(near)
        groups.append(group)
    return OwnerShape(roles=roles, groups=tuple(groups))


# --- internal ---------------------------------------------------------------------------------------------------------


def _of_pod_group(defined: KaiDefinitions, said: Said, name: str, group: Object | None) -> PodGroupTerms:
    missing = no_pod_group(name) if group is None else None
    spec = (group or {}).get("spec") or {}
    label = str(spec.get("priorityClassName") or "")
    name_of, priority = _priority(defined, label, said.priority, owner_of(said.options))
    near = spec.get("topologyConstraint") or {}
    keys = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
    return PodGroupTerms(
        queue=str(spec.get("queue") or ""),
        priority=priority,
        priority_class=name_of,
        preemptible=_preemptible(spec.get("preemptibility"), priority),
        shape=shape_of_spec(spec),
        nearness=(str(near.get(keys[0]) or ""), str(near.get(keys[1]) or ""), str(near.get(keys[2]) or "")),
        staleness_grace_s=_grace_s(spec.get("stalenessGracePeriod")),
        missing=missing,
    )


def _queue(labels: Mapping[str, object], said: Said) -> str:
    """Return the queue that a label names. Three labels may name it, in this order of precedence: the owner's queue
    label, the pod's queue label, and the project label of the owner or of the pod."""
    named = str(labels.get(QUEUE_LABEL) or said.options.get(QUEUE_LABEL) or "")
    return named or queue_named(labels) or kinds.queue_of(said.queue)


def _priority(defined: KaiDefinitions, said: str, pods: int, owner: OwnerName) -> tuple[str, int]:
    """Return the PriorityClass and its value. If the named class does not exist, return the priority of the pods; if
    they have none, return the default for the kind of the owner."""
    if said in defined.priorities:
        return said, defined.priorities[said]
    if pods:  # the value that the API server copied from the PriorityClass of the pods
        return next((name for name, value in defined.priorities.items() if value == pods), ""), pods
    if defined.default_priority is not None:
        return "", defined.default_priority
    name = _CLASS_OF.get(owner.kind, TRAIN)
    return name, defined.priorities[name]


def _grace_s(said: object) -> float:
    """Return the grace period, a Go duration, in seconds. A negative duration means that the gang may always run with
    too few pods; the result is then 0. Return the default if the duration is invalid or has no unit."""
    if not isinstance(said, str) or said.isdigit():
        return STALENESS_GRACE_S
    if said.startswith("-"):
        return 0.0
    try:
        return duration_s(said)
    except Misread:
        return STALENESS_GRACE_S


def _preemptible(said: object, priority: int) -> bool:
    if said in ("preemptible", "non-preemptible"):
        return bool(said == "preemptible")
    return priority < _NON_PREEMPTIBLE_FROM


def _size(options: Mapping[str, str]) -> OwnerShape:
    """Return the size of a gang whose owner Phalanx does not watch. It is read from the labels that the owner's
    controller set on the pods."""
    size = options.get(LWS_SIZE, "")
    return OwnerShape(minimum=max(1, int(size))) if size.isascii() and size.isdigit() and len(size) < 7 else ONE


def _obstacles(defined: KaiDefinitions, found: PodGroupTerms, said: Said) -> Iterator[Reason]:
    if found.shape.fault:
        yield Reason(code=ReasonCode.INVALID, text=found.shape.fault)
    queue = defined.known.get(found.queue)
    if queue is None or queue.fault:
        text = queue.fault if queue is not None else f"there is no queue {found.queue or '(none is named)'}"
        yield Reason(code=ReasonCode.QUEUE_UNKNOWN, text=text)
        return
    if not found.preemptible and (over := _without_quota(defined, queue, said)):
        text = (
            f"a non-preemptible workload needs quota in every queue above it, and {over[0]} has none of {over[1]}: "
            "use a preemptible workload to go over quota"
        )
        yield Reason(code=ReasonCode.QUEUE_QUOTA, text=text)


def _without_quota(defined: KaiDefinitions, queue: KaiQueue, said: Said) -> tuple[str, str] | None:
    """Search the queues from the gang's queue up for a queue without quota for a resource that the gang requests.
    Return this queue and the resource; None if there is no such queue."""
    above = (defined.known[name] for name in queue.above)
    return next(
        ((each.name, name) for each in above for name in sorted(said.asks) if each.deserved.get(name) == 0), None
    )


def _labels(defined: KaiDefinitions, near: tuple[str, str, str]) -> tuple[str, str]:
    """Return the node labels of the required and of the preferred level; empty for a level that is not set. Raise
    LookupError if the topology or a level does not exist."""
    topology, required, preferred = near
    if not topology or not (required or preferred):
        return "", ""
    levels = defined.levels.get(topology)
    if levels is None:
        raise LookupError(f"there is no Topology {topology}: create it, or remove the constraint")
    for level in filter(None, (required, preferred)):
        if level not in levels:
            raise LookupError(f"the Topology {topology} has no level {level}; it has {', '.join(levels)}")
    return levels.get(required, ""), levels.get(preferred, "")


def _near(defined: KaiDefinitions, group: Object) -> Object:
    """Return the sub-group as an entry of Phalanx's option for groups, with its topology constraint. If the constraint
    has a required and a preferred level, the required level is used."""
    said = group.get("near") or {}
    keys = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
    near = (str(said.get(keys[0]) or ""), str(said.get(keys[1]) or ""), str(said.get(keys[2]) or ""))
    required, preferred = _labels(defined, near)
    rest = {key: value for key, value in group.items() if key != "near"}
    if required:
        return {**rest, "closeness": required}
    return {**rest, "preferredCloseness": preferred} if preferred else rest


def _wrapped(
    groups: list[Object], roles: Mapping[str, RoleClaim], preferred: str
) -> tuple[list[Object], dict[str, RoleClaim]]:
    """Put the groups and roles of a gang into one further group, which contains the whole gang and has the preferred
    level. Return the new groups and roles."""
    if groups and groups[0]["name"] == ROOT:
        return [{**groups[0], "preferredCloseness": preferred}, *groups[1:]], dict(roles)
    inside = {name: RoleClaim(minimum=one.minimum, group=one.group or ROOT) for name, one in roles.items()}
    return [{"name": ROOT, "preferredCloseness": preferred}, *groups], inside
