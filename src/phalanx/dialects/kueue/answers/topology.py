"""Topology in a Workload: what its pod sets ask for, and where their pods were placed.

The assignment lists domains of the flavor's Topology, each with its number of pods. A Topology that ends in the host's
name is told by that level alone. Values that the domains of a slice share are said once.

Source: pkg/controller/jobframework/tas.go, pkg/util/tas and apis/kueue/v1beta2 of Kueue v0.19.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from phalanx.dialects.frame.dialect import Object, PodSet
from phalanx.dialects.kueue import gangs, kinds

_HOST = "kubernetes.io/hostname"
_INDEX = "batch.kubernetes.io/job-completion-index"
_MOST_LEVEL, _MOST_GROUP, _MOST_SIZE, _MOST_LAYERS = 63, 256, 2**31 - 1, 3  # of the definition of Workloads
_ASKED = (
    ("required-topology", "required", _MOST_LEVEL),
    ("preferred-topology", "preferred", _MOST_LEVEL),
    ("slice-required-topology", "podSetSliceRequiredTopology", _MOST_LEVEL),
    ("group-name", "podSetGroupName", _MOST_GROUP),
)
_LAYERS = "podsetSliceRequiredTopologyConstraints"


def topology_request(template: Mapping[str, Any], of_a_job: bool) -> Object:
    """Return what a pod set asks for, as its `topologyRequest`; empty: nothing. `of_a_job`: its pods are a Job's, and
    have an index. What a Workload may not say is left out: Kueue refuses such a job, and here it waits."""
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
    """Return where the pods of a pod set are, as its `topologyAssignment`; None: its flavor has no Topology, or a node
    lacks a level. `levels`: node labels, from coarse to fine."""
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
    """The longest beginning that all of them share."""
    return "".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, zip(*values, strict=False)))
