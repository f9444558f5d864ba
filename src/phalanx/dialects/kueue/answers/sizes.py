"""Workloads that follow their job. One that waits says what its job asks for now; one that runs says how many pods it
has: more as they are placed, fewer as soon as its job asks for fewer. So a job that asks for more than its queue has
room for has one Workload with what runs, where Kueue makes another (a slice) that waits for all of it.

Of pods that end nothing is taken away here: that is what `reclaimablePods` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.dialects.frame.dialect import Object, PodSet, Stage, Told
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree import prebuilt

ELASTIC = f"{kinds.PREFIX}elastic-job"
_RUNS = frozenset({Stage.STARTING, Stage.RUNNING})


def grows(told: Told) -> bool:
    """Return whether an elastic job runs and asks for more pods than it was given."""
    said = told.owners[0]["metadata"].get("annotations") or {}
    if told.stage is not Stage.RUNNING or said.get(ELASTIC) != "true":
        return False
    return any(each.count - each.reclaimable > each.placed for each in told.pod_sets)


def counts(told: Told, before: Iterable[Object]) -> dict[str, int]:
    """Return how many pods each pod set has. `before`: what an admission, or a spec, says of them."""
    said = {str(one.get("name")): int(one.get("count", 1)) for one in before}
    if not _follows(told):
        return {each.name: said.get(each.name, each.placed) for each in told.pod_sets}
    return {each.name: _size(each, said) for each in told.pod_sets}


def changes(told: Told, there: Mapping[str, Any], fresh: Mapping[str, Any]) -> Object:
    """Return what the spec of the Workload that is there should say by now. `fresh`: as it would be made anew."""
    spec = there.get("spec") or {}
    found: Object = {}
    if told.stage is Stage.WAITING and told.kind == "Job" and not prebuilt.is_in_sync(there, told.pod_sets, {}):
        found["podSets"] = fresh["podSets"]
    elif _follows(told):
        listed, wanted = spec.get("podSets") or (), counts(told, spec.get("podSets") or ())
        changed = [_resized(one, wanted.get(str(one.get("name")), int(one.get("count", 1)))) for one in listed]
        if changed != list(listed):
            found["podSets"] = changed
    if told.stage is not Stage.FINISHED and _class(fresh) and _class(spec) and _class(fresh) != _class(spec):
        found |= {key: fresh[key] for key in ("priority", "priorityClassRef")}
    return found


def _follows(told: Told) -> bool:
    return told.stage in _RUNS and told.kind not in ("Pod", "PodGroup")


def _size(each: PodSet, before: Mapping[str, int]) -> int:
    return min(each.count, max(before.get(each.name, 0), each.placed))


def _resized(one: Mapping[str, Any], count: int) -> Object:
    fewer = {"minCount": min(int(one["minCount"]), count)} if "minCount" in one else {}
    return dict(one) if int(one.get("count", 1)) == count else {**one, "count": count, **fewer}


def _class(spec: Mapping[str, Any]) -> str:
    """The WorkloadPriorityClass that a spec names; empty: none."""
    named = spec.get("priorityClassRef") or {}
    return str(named.get("name") or "") if named.get("group") == kinds.GROUP else ""
