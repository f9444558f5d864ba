"""ElasticQuotaProfiles: each creates the root ElasticQuota of a tree, and keeps it up to date.

`min` of the root is a share of the capacity of the nodes that the profile selects. Its annotation `total-resource` has
the whole capacity, which bounds all quotas below it together. The resources are cpu and memory, or those that an
annotation names. The quota stays when its profile is deleted. No quota is created if a quota of that name exists in
another namespace. If several profiles name the same quota, the first by name creates it.

Source: pkg/quota-controller/profile of v1.8.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from hashlib import sha256
from math import floor
from typing import Any

import msgspec

from phalanx.client.kind import NODES
from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.frame.dialect import Answer, Object, Objects
from phalanx.dialects.frame.pod_requests import Asked, amounts, quantity
from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota.tree import ElasticQuotaDefinitions, read_json

_RESOURCES = ("cpu", "memory")
_NO_BOUND = str((2**63 - 1) // 2000)  # the value of `max` that upstream writes for unlimited


def answers(defined: ElasticQuotaDefinitions, objects: Objects) -> Iterator[Answer]:
    """Yield the quota of each profile."""
    nodes = objects.get(NODES, {}).values()
    made: set[str] = set()
    for key, profile in sorted(objects.get(kinds.QUOTA_PROFILES, {}).items()):
        name = str((profile.get("spec") or {}).get("quotaName") or "")
        namespace = key.rpartition("/")[0]
        there = defined.quotas.get(name)
        if name and name not in made and (there is None or there.key in ("", f"{namespace}/{name}")):
            made.add(name)
            yield _answer(f"{namespace}/{name}", profile, nodes)


def _answer(key: str, profile: Object, nodes: Iterable[Object]) -> Answer:
    meta, spec = profile["metadata"], profile.get("spec") or {}
    kind = kinds.ELASTIC_QUOTAS
    namespace, _, name = key.rpartition("/")
    selected = [node for node in nodes if selects(spec.get("nodeSelector") or {}, node["metadata"].get("labels") or {})]
    named = _resources(meta.get("annotations") or {})
    whole = _sum(selected, named)
    closed = _sum([node for node in selected if (node.get("spec") or {}).get("unschedulable")], named)
    share = _ratio(spec.get("resourceRatio"))
    bounds = {
        "min": _written({resource: floor(amount * share) for resource, amount in whole.items()}),
        "max": dict.fromkeys(named, _NO_BOUND),
    }
    labels = {
        f"{kinds.QUOTA}tree-id": sha256(key.encode()).hexdigest()[:16],
        **{str(label): str(text) for label, text in (spec.get("quotaLabels") or {}).items()},
        kinds.IS_ROOT: "true",
        f"{kinds.QUOTA}profile": str(meta["name"]),
    }
    notes = {kinds.TOTAL: _text(whole), f"{kinds.QUOTA}unschedulable-resource": _text(closed)}
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": notes},
        "spec": bounds,
    }
    return Answer(kind=kind, key=key, body=body, spec=bounds, annotations=notes, metadata={"labels": labels})


def _resources(notes: Mapping[str, Any]) -> tuple[str, ...]:
    said = read_json(notes.get(f"{kinds.QUOTA}resource-keys"))
    return tuple(map(str, said)) if isinstance(said, list) and said else _RESOURCES


def _sum(nodes: Iterable[Object], named: Iterable[str]) -> Asked:
    found = dict.fromkeys(named, 0)
    for node in nodes:
        for resource, amount in amounts((node.get("status") or {}).get("allocatable")).items():
            if resource in found:
                found[resource] += amount
    return found


def _ratio(said: Any) -> Fraction:
    """Return the share of a profile; 1 if it is absent or invalid."""
    try:
        share = parse(str(said))
    except QuantityError:
        return Fraction(1)
    return share if 0 < share <= 1 else Fraction(1)


def _written(found: Asked) -> dict[str, str]:
    return {resource: quantity(resource, amount) for resource, amount in found.items()}


def _text(found: Asked) -> str:
    return msgspec.json.encode(_written(found)).decode()
