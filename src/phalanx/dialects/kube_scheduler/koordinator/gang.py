"""Read Koordinator's gangs from annotations of pods and from PodGroups, and write the status of PodGroups.

The first part finds the gang of a pod, and computes the settings of the gang from its PodGroup and its quota.

A pod names its gang by one of three keys, in this order of precedence: the label `pod-group.scheduling.sigs.k8s.io` (a
PodGroup), the same label with `/name` (a gang without a PodGroup), or the annotation
`gang.scheduling.koordinator.sh/name`. If a gang has no PodGroup, its oldest pod sets the minimum of the gang, even if
other pods state another minimum.

The second part computes the status of a PodGroup as the controller in koord-scheduler does.

The phases are `Pending`, `PreScheduling` (the minimum number of pods exists), `Scheduling` (some pods of the minimum
have no node yet), `Scheduled`, `Running`, and at the end `Finished` or `Failed`. A PodGroup that has no pods any more
returns to `Pending` from every phase. A PodGroup without a minimum is always `Pending`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.dialects.frame.dialect import Answer, Claim, GangView, Object, Objects, RoleClaim, Said, no_pod_group
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.definitions.defined import (
    ALONE,
    JOB,
    MARK,
    ROLE,
    TOGETHER,
    KoordinatorDefinitions,
    together,
)
from phalanx.model.reason import Reason, ReasonCode

_OURS = "phalanx.dev/"
_QUEUE, _MIN, _PREEMPTIBLE = (f"{_OURS}{word}" for word in ("queue", "min-available", "preemptible"))
_NOTHING: Mapping[str, str] = {}
OBJECT = kinds.GROUP_LABEL  # the option of a pod that names its PodGroup (`options_of`)
# The option of a pod that holds the minimum of its gang, if the gang has no PodGroup (`options_of`).
_LEAST = "koordinator/min-available"


def options_of(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return the labels and annotations of a pod, translated to Phalanx's options; empty if the pod is for another
    scheduler."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    if not kinds.is_theirs(meta, scheduler):
        return _NOTHING
    quota = str(labels.get(kinds.QUOTA_NAME) or "")
    found = {_QUEUE: kinds.said_quota(str(meta.get("namespace") or "default"), quota)}
    if str(labels.get(kinds.PREEMPTIBLE, "")).lower() == "false":
        found[_PREEMPTIBLE] = "false"
    return found | _gang(labels, notes, str(meta.get("namespace") or "default"))


def claim(defined: KoordinatorDefinitions, said: Said, objects: Objects) -> Claim | None:
    """Return the settings of a gang from its quota and its PodGroup; None if the gang does not belong to
    Koordinator."""
    named = kinds.quota_said(said.queue)
    if named is None:
        return None
    quota = defined.quota(*named)
    queue = kinds.tree_quota(quota) if quota else ""
    if quota and defined.quotas[quota].is_parent:
        text = f"the quota {quota} is a parent, which no pod may use: name a child quota"
        return Claim(queue=queue, blocked=Reason(code=ReasonCode.INVALID, text=text))
    gang = said.options.get(JOB, "")
    if gang.startswith(TOGETHER):
        return _of_group(queue, gang.removeprefix(TOGETHER).split(","), said, objects.get(kinds.POD_GROUPS, {}))
    if not gang.startswith((MARK, ALONE)):
        return Claim(queue=queue, silent=not queue and not defined.reservations)
    if group := said.options.get(OBJECT):
        return _of_object(queue, group, objects.get(kinds.POD_GROUPS, {}).get(f"{said.namespace}/{group}"))
    name = gang.removeprefix(ALONE)
    least = _least(name, said.options)
    if isinstance(least, Reason):
        return Claim(queue=queue, blocked=least)
    return Claim(queue=queue, options=_start(least))


# --- internal ---------------------------------------------------------------------------------------------------------


def _gang(labels: Mapping[str, object], notes: Mapping[str, object], namespace: str) -> dict[str, str]:
    if group := labels.get(kinds.GROUP_LABEL):
        return {JOB: f"{MARK}{group}", OBJECT: str(group)}
    if light := labels.get(kinds.LIGHT_LABEL):
        return {JOB: f"{ALONE}{light}", f"{_LEAST}/{light}": str(labels.get(kinds.LIGHT_MIN_LABEL, ""))}
    if not (name := str(notes.get(kinds.GANG_NAME) or "")):
        return {}
    said = {f"{_LEAST}/{name}": str(notes.get(kinds.GANG_MIN, ""))}
    if others := together(notes.get(kinds.GANG_GROUPS), namespace, name):
        return {JOB: f"{TOGETHER}{','.join(others)}", ROLE: name, **said}
    return {JOB: f"{ALONE}{name}", **said}


def _of_group(queue: str, gangs: list[str], said: Said, pod_groups: Mapping[str, Object]) -> Claim:
    """Return the settings (`frame.dialect.Claim`) of a group of gangs. They have one role for each gang of the group,
    with the minimum of this gang."""
    roles = {}
    for gang in gangs:
        name = gang.removeprefix(MARK)
        least = _of_one(name, gangs, said, pod_groups if gang.startswith(MARK) else None)
        if isinstance(least, Reason):
            return Claim(queue=queue, blocked=least)
        roles[name] = RoleClaim(minimum=max(1, least))
    return Claim(queue=queue, roles=roles)


def _of_one(name: str, gangs: list[str], said: Said, pod_groups: Mapping[str, Object] | None) -> int | Reason:
    """Return the minimum of a gang in a group, or the reason why it is unknown. `pod_groups`: the existing PodGroups by
    key; None if the gangs of this group have no PodGroups."""
    group = pod_groups.get(f"{said.namespace}/{name}") if pod_groups is not None else None
    if group is not None:
        return _minimum(group)
    if pod_groups is None and f"{_LEAST}/{name}" in said.options:
        return _least(name, said.options)
    lacks = "has no pods yet" if pod_groups is None else "has no PodGroup yet"
    names = ", ".join(gang.removeprefix(MARK) for gang in gangs)
    text = f"the gang {name} of its group [{names}] {lacks}: all gangs of a group start together"
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text)


def _least(name: str, options: Mapping[str, str]) -> int | Reason:
    """Return the minimum that the oldest pod of a gang without a PodGroup states, or the reason why it is unknown."""
    text = options.get(f"{_LEAST}/{name}", "")
    if text.isascii() and text.isdecimal() and len(text) <= 9:
        return int(text)
    why = (
        f"gang has not init: min-available of {name} is {text[:60]!r}, which is not a number: set the "
        "number of pods that must start together"
    )
    return Reason(code=ReasonCode.INVALID, text=why)


def _of_object(queue: str, name: str, group: Object | None) -> Claim:
    if group is None:
        return Claim(queue=queue, blocked=no_pod_group(name))
    return Claim(queue=queue, options=_start(_minimum(group)))


def _minimum(group: Object) -> int:
    said = (group.get("spec") or {}).get("minMember")
    return said if isinstance(said, int) else 0


def _start(least: int) -> Mapping[str, str]:
    """Return the Phalanx option with the minimum. A minimum of 0 counts as 1, because each pod may start alone."""
    return {_MIN: str(max(1, least))}


_FINAL = frozenset({"Finished", "Failed"})


def answer(told: GangView, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of a gang's PodGroup. For a group of gangs, yield the status of each PodGroup of the group."""
    for key, pods in _of_each(told).items():
        if (group := objects.get(kinds.POD_GROUPS, {}).get(key)) is not None:
            yield Answer(kind=kinds.POD_GROUPS, key=key, status=status(group, pods, now), plain=True)


def statuses(everyone: Iterable[GangView], objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of PodGroups without pods."""
    with_pods = {key for told in everyone for key in _of_each(told)}
    for key, group in objects.get(kinds.POD_GROUPS, {}).items():
        if key not in with_pods:
            yield Answer(kind=kinds.POD_GROUPS, key=key, status=status(group, (), now), plain=True)


def status(group: Object, pods: Iterable[Object], now: str) -> Object:
    """Return the status of a PodGroup with these pods. `now`: the present time as a metav1.Time."""
    old, existing = group.get("status") or {}, list(pods)
    if existing and old.get("phase") in _FINAL:
        return dict(old)
    phases = [str((pod.get("status") or {}).get("phase") or "") for pod in existing]
    counts = {
        "scheduled": sum(bool((pod.get("spec") or {}).get("nodeName")) for pod in existing),
        "running": phases.count("Running"),
        "succeeded": phases.count("Succeeded"),
        "failed": phases.count("Failed"),
    }
    said = (group.get("spec") or {}).get("minMember")
    least = said if isinstance(said, int) else 0
    phase = _phase(str(old.get("phase") or ""), least, len(existing), **counts)
    found: Object = {"phase": phase}
    if phase != "Pending" and (owner := str(old.get("occupiedBy") or "") or _occupier(existing[0])):
        found["occupiedBy"] = owner
    if phase not in ("Pending", "PreScheduling"):
        found["scheduleStartTime"] = old.get("scheduleStartTime") or now
    return found | {name: count for name, count in counts.items() if count}


# --- internal ---------------------------------------------------------------------------------------------------------


def _of_each(told: GangView) -> dict[str, list[Object]]:
    """Return the pods of each PodGroup, by the key of the PodGroup."""
    found: dict[str, list[Object]] = {}
    for pod in told.owners if OBJECT in told.options else ():
        name = (pod["metadata"].get("labels") or {}).get(OBJECT)
        if name:
            found.setdefault(f"{told.namespace}/{name}", []).append(pod)
    return found


def _phase(old: str, least: int, existing: int, *, scheduled: int, running: int, succeeded: int, failed: int) -> str:
    if least <= 0 or existing < least:
        return "Pending"
    if succeeded >= least:
        return "Finished"
    if failed and failed + running + succeeded >= least:
        return "Failed"
    if running + succeeded >= least:
        return "Running"
    if scheduled >= least:
        return "Scheduled"
    return "PreScheduling" if old in ("", "Pending") else "Scheduling"


def _occupier(pod: Object) -> str:
    """Return `namespace/name` of the object that owns the pod; empty if the pod has no owner."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return f"{pod['metadata'].get('namespace')}/{owners[0]['name']}" if owners else ""
