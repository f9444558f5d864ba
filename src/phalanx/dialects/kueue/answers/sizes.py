"""The pod counts of a Workload, as its job changes.

The Workload of a pending job states the job's present requests. The Workload of a running job states the number of its
pods: more when further pods are placed, fewer as soon as the job requests fewer. So an elastic job that requests more
pods than its queue admits has one Workload with its running pods. Kueue creates a second one (a slice) that waits for
all pods.

Ended pods do not reduce the count; `reclaimablePods` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.dialects.frame.dialect import Object, PodSet, Stage, Told
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.gangs import ELASTIC
from phalanx.dialects.kueue.tree import prebuilt

_RUNS = frozenset({Stage.STARTING, Stage.RUNNING})


def grows(told: Told) -> bool:
    """Return whether a running elastic job requests more pods than it has."""
    said = told.owners[0]["metadata"].get("annotations") or {}
    if told.stage is not Stage.RUNNING or said.get(ELASTIC) != "true":
        return False
    return any(each.count - each.reclaimable > each.placed for each in told.pod_sets)


def counts(told: Told, before: Iterable[Object]) -> dict[str, int]:
    """Return the number of pods of each pod set. `before`: the pod sets in the Workload's admission or spec."""
    said = {str(one.get("name")): int(one.get("count", 1)) for one in before}
    if not _follows(told):
        return {each.name: said.get(each.name, each.placed) for each in told.pod_sets}
    return {each.name: _size(each, said) for each in told.pod_sets}


def changes(told: Told, there: Mapping[str, Any], fresh: Mapping[str, Any]) -> Object:
    """Return the changes of an existing Workload's spec. `fresh`: the spec of a newly created one."""
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
    """Return the WorkloadPriorityClass that a spec names; empty if it names none."""
    named = spec.get("priorityClassRef") or {}
    return str(named.get("name") or "") if named.get("group") == kinds.GROUP else ""
