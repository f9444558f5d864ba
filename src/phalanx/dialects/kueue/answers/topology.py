"""Write the topology request of each pod set into a Workload, and the assignment of its pods to topology domains.

The assignment lists the domains of the flavor's Topology, and the number of pods in each domain. If the finest level is
the host name, a domain is listed with its host name only. The list has the form of Kueue's API: it consists of slices
of domains, and a value that all domains of a slice share is written once.


Source: pkg/controller/jobframework/tas.go, pkg/util/tas and apis/kueue/v1beta2 of Kueue v0.19.2.

This module also updates the pod counts of a Workload when its job changes.

The Workload of a pending job states the number of pods that the job requests at present. The Workload of a running job
states the number of running pods. This number increases when further pods are placed, and decreases as soon as the job
requests fewer pods. So an elastic job that requests more pods has only one Workload, with the number of its running
pods. Kueue would create a second Workload (a *workload slice*), which waits until all requested pods are admitted.

Pods that have ended do not reduce the count; they are listed in `reclaimablePods`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from phalanx.dialects.frame.dialect import GangStage, GangView, Object, PodSet
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.gangs import ELASTIC
from phalanx.dialects.kueue.tree import claims
from phalanx.dialects.kueue.tree.workload import workload_of

_HOST = "kubernetes.io/hostname"
_INDEX = "batch.kubernetes.io/job-completion-index"
_MOST_LEVEL, _MOST_GROUP, _MOST_SIZE, _MOST_LAYERS = 63, 256, 2**31 - 1, 3  # limits of the Workload's schema
_ASKED = (
    ("required-topology", "required", _MOST_LEVEL),
    ("preferred-topology", "preferred", _MOST_LEVEL),
    ("slice-required-topology", "podSetSliceRequiredTopology", _MOST_LEVEL),
    ("group-name", "podSetGroupName", _MOST_GROUP),
)
_LAYERS = "podsetSliceRequiredTopologyConstraints"


def topology_request(template: Mapping[str, Any], of_a_job: bool) -> Object:
    """Return the `topologyRequest` of a pod set; empty if the pod set has none. `of_a_job`: True if the pods belong to
    a Job, so that each has an index. Values that the schema of a Workload forbids are left out. Kueue refuses to create
    a job with a forbidden value; in Phalanx the job waits."""
    said = (template.get("metadata") or {}).get("annotations") or {}
    asked = ((field, str(said.get(f"{kinds.PREFIX}podset-{word}") or ""), most) for word, field, most in _ASKED)
    found: Object = {field: text for field, text, most in asked if 0 < len(text) <= most}
    if str(said.get(f"{kinds.PREFIX}podset-unconstrained-topology", "")).lower() == "true":
        found["unconstrained"] = True
    size = str(said.get(f"{kinds.PREFIX}podset-slice-size") or "")
    if size.isdecimal() and len(size) <= len(str(_MOST_SIZE)) and 0 < int(size) <= _MOST_SIZE:
        found["podSetSliceSize"] = int(size)
    elif (several := gangs.layers(said)) and len(several) <= _MOST_LAYERS and all(map(_is_layer, several)):
        found[_LAYERS] = [{"topology": one.topology, "size": one.size} for one in several]
    return found | ({"podIndexLabel": _INDEX} if found and of_a_job else {})


def _is_layer(one: gangs.Layer) -> bool:
    return 0 < len(one.topology) <= _MOST_LEVEL and 0 < one.size <= _MOST_SIZE


def topology_assignment(pods: PodSet, levels: Sequence[str]) -> Object | None:
    """Return the `topologyAssignment` of a pod set. Return None if its flavor has no Topology, or if one of its nodes
    lacks the label of a level. `levels`: the node labels of the levels from coarse to fine."""
    if not levels or not pods.places:
        return None
    told = [_HOST] if levels[-1] == _HOST else list(levels)
    counts: dict[tuple[str, ...], int] = {}
    for labels, count in pods.places:
        domain = tuple(labels.get(level, "") for level in told)
        counts[domain] = counts.get(domain, 0) + count
    if any(not value for domain in counts for value in domain):
        return None
    domains = sorted(counts)
    numbers = [counts[domain] for domain in domains]
    same = len(set(numbers)) == 1
    found = {
        "domainCount": len(domains),
        "valuesPerLevel": [_values([domain[at] for domain in domains]) for at in range(len(told))],
        "podCounts": {"universal": numbers[0]} if same else {"individual": numbers},
    }
    return {"levels": told, "slices": [found]}


def _values(values: Sequence[str]) -> Object:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _beginning(values)
    rest = [value[len(prefix) :] for value in values]
    suffix = _beginning([value[::-1] for value in rest])[::-1]
    roots = [value[: len(value) - len(suffix)] for value in rest]
    around = {"prefix": prefix, "suffix": suffix}
    return {"individual": {"roots": roots, **{key: text for key, text in around.items() if text}}}


def _beginning(values: Sequence[str]) -> str:
    """Return the longest common prefix of the values."""
    return "".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, zip(*values, strict=False)))


_RUNS = frozenset({GangStage.STARTING, GangStage.RUNNING})


def grows(told: GangView) -> bool:
    """Return whether a running elastic job requests more pods than it has."""
    said = told.owners[0]["metadata"].get("annotations") or {}
    if told.stage is not GangStage.RUNNING or said.get(ELASTIC) != "true":
        return False
    return any(each.count - each.reclaimable > each.placed for each in told.pod_sets)


def counts(told: GangView, before: Iterable[Object]) -> dict[str, int]:
    """Return the number of pods of each pod set. `before`: the pod sets that the Workload's admission or spec contains
    now."""
    said = {str(one.get("name")): int(one.get("count", 1)) for one in before}
    if not _follows(told):
        return {each.name: said.get(each.name, each.placed) for each in told.pod_sets}
    return {each.name: _size(each, said) for each in told.pod_sets}


def changes(told: GangView, existing: Mapping[str, Any], fresh: Mapping[str, object]) -> Object:
    """Return the fields of an existing Workload's spec that must change. `fresh`: the spec that a newly created
    Workload would have."""
    spec = existing.get("spec") or {}
    found: Object = {}
    waits = told.stage is GangStage.WAITING and told.kind == "Job"
    if waits and not claims.is_in_sync(workload_of(existing), told.pod_sets, {}):
        found["podSets"] = fresh["podSets"]
    elif _follows(told):
        listed, wanted = spec.get("podSets") or (), counts(told, spec.get("podSets") or ())
        changed = [_resized(one, wanted.get(str(one.get("name")), int(one.get("count", 1)))) for one in listed]
        if changed != list(listed):
            found["podSets"] = changed
    if told.stage is not GangStage.FINISHED and _class(fresh) and _class(spec) and _class(fresh) != _class(spec):
        found |= {key: fresh[key] for key in ("priority", "priorityClassRef")}
    return found


def _follows(told: GangView) -> bool:
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
