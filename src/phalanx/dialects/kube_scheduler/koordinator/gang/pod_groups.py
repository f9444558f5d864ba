"""The status of a PodGroup, as the controller in koord-scheduler writes it.

The phases are `Pending`, `PreScheduling` (the minimum of pods exists), `Scheduling` (not all of those have a node),
`Scheduled`, `Running`, then `Finished` or `Failed`. A PodGroup without pods returns to `Pending` from every phase; a
PodGroup without a minimum is always `Pending`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phalanx.dialects.frame.dialect import Answer, Object, Objects, Told
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.gang.claims import OBJECT

_FINAL = frozenset({"Finished", "Failed"})


def answer(told: Told, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of a gang's PodGroup; for a group of gangs, the status of each PodGroup."""
    for key, pods in _of_each(told).items():
        if (group := objects.get(kinds.POD_GROUPS, {}).get(key)) is not None:
            yield Answer(kind=kinds.POD_GROUPS, key=key, status=status(group, pods, now), plain=True)


def statuses(everyone: Iterable[Told], objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of PodGroups without pods."""
    with_pods = {key for told in everyone for key in _of_each(told)}
    for key, group in objects.get(kinds.POD_GROUPS, {}).items():
        if key not in with_pods:
            yield Answer(kind=kinds.POD_GROUPS, key=key, status=status(group, (), now), plain=True)


def status(group: Object, pods: Iterable[Object], now: str) -> Object:
    """Return the status of a PodGroup with these pods. `now`: as a metav1.Time."""
    old, there = group.get("status") or {}, list(pods)
    if there and old.get("phase") in _FINAL:
        return dict(old)
    phases = [str((pod.get("status") or {}).get("phase") or "") for pod in there]
    counts = {
        "scheduled": sum(bool((pod.get("spec") or {}).get("nodeName")) for pod in there),
        "running": phases.count("Running"),
        "succeeded": phases.count("Succeeded"),
        "failed": phases.count("Failed"),
    }
    said = (group.get("spec") or {}).get("minMember")
    least = said if isinstance(said, int) else 0
    phase = _phase(str(old.get("phase") or ""), least, len(there), **counts)
    found: Object = {"phase": phase}
    if phase != "Pending" and (owner := str(old.get("occupiedBy") or "") or _occupier(there[0])):
        found["occupiedBy"] = owner
    if phase not in ("Pending", "PreScheduling"):
        found["scheduleStartTime"] = old.get("scheduleStartTime") or now
    return found | {name: count for name, count in counts.items() if count}


# --- inside -----------------------------------------------------------------------------------------------------------


def _of_each(told: Told) -> dict[str, list[Object]]:
    """Return key of a PodGroup -> its pods."""
    found: dict[str, list[Object]] = {}
    for pod in told.owners if OBJECT in told.options else ():
        name = (pod["metadata"].get("labels") or {}).get(OBJECT)
        if name:
            found.setdefault(f"{told.namespace}/{name}", []).append(pod)
    return found


def _phase(old: str, least: int, there: int, *, scheduled: int, running: int, succeeded: int, failed: int) -> str:
    if least <= 0 or there < least:
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
    """Return `namespace/name` of the object that owns the pod; empty: none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return f"{pod['metadata'].get('namespace')}/{owners[0]['name']}" if owners else ""
