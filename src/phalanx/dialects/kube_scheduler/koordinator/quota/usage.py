"""Writes the used and requested amounts of each ElasticQuota, like Koordinator's controller: `status.used`, and
annotations.

The amounts of a parent include those of its children. Only pods that have not ended count; *used* counts only pods on
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Answer, Objects, Told
from phalanx.dialects.frame.pod_requests import Asked, amounts, pod_requests
from phalanx.dialects.frame.quantities import quantity
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota.runtime import (
    OUTSIDE,
    child_requests,
    children,
    request,
    runtimes,
)
from phalanx.dialects.kube_scheduler.koordinator.quota.tree import ElasticQuotaDefinitions

_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class Use:
    """The amounts of one quota. `used`: the requests of its pods on nodes. `asked`: the requests of all its pods.
    `used_by_fixed`, `asked_by_fixed`: the same for pods that are not preemptible."""

    used: Asked = field(default_factory=dict)
    asked: Asked = field(default_factory=dict)
    used_by_fixed: Asked = field(default_factory=dict)
    asked_by_fixed: Asked = field(default_factory=dict)

    def add(self, other: Use) -> None:
        """Add the amounts of another quota."""
        for mine, its in (
            (self.used, other.used),
            (self.asked, other.asked),
            (self.used_by_fixed, other.used_by_fixed),
            (self.asked_by_fixed, other.asked_by_fixed),
        ):
            for resource, amount in its.items():
                mine[resource] = mine.get(resource, 0) + amount


def answers(defined: ElasticQuotaDefinitions, everyone: Iterable[Told], objects: Objects) -> Iterator[Answer]:
    """Yield the status and the annotations of every ElasticQuota."""
    if not defined.quotas:
        return
    own = _own(everyone)
    whole = {name: own.get(name, Use()) for name in defined.quotas}
    below = children(defined.quotas)
    for name in _upwards(below):
        total = Use()
        total.add(own.get(name, Use()))
        for child in below.get(name, ()):
            total.add(whole.get(child, Use()))
        whole[name] = total
    inner = child_requests(defined.quotas, {name: use.asked for name, use in own.items()})
    root = _total(objects, [own[name].used for name in OUTSIDE if name in own])
    runtime = runtimes(defined.quotas, inner, root)
    for quota in defined.quotas.values():
        if not quota.key:
            continue
        use, named, asked = whole[quota.name], {**quota.least, **quota.most}, inner.get(quota.name, {})
        said = {
            "runtime": runtime.get(quota.name, {}),
            "request": request(quota, asked),
            "child-request": asked,
            "non-preemptible-request": use.asked_by_fixed,
            "non-preemptible-used": use.used_by_fixed,
        }
        yield Answer(
            kind=kinds.ELASTIC_QUOTAS,
            key=quota.key,
            annotations={f"{kinds.QUOTA}{word}": _text(_over(named, found)) for word, found in said.items()},
            status={"used": _written(_over(named, use.used))},
            plain=True,
        )


# --- inside -----------------------------------------------------------------------------------------------------------


def _own(everyone: Iterable[Told]) -> dict[str, Use]:
    found: dict[str, Use] = {}
    for told in everyone:
        if not (name := kinds.quota_of(told.queue)):
            continue
        use = found.setdefault(name, Use())
        for pod in told.owners:
            if (pod.get("status") or {}).get("phase") in _OVER:
                continue
            spec = pod.get("spec") or {}
            asks = pod_requests(spec)
            used = asks if spec.get("nodeName") else {}
            fixed = str((pod["metadata"].get("labels") or {}).get(kinds.PREEMPTIBLE, "")).lower() == "false"
            one = Use(used=used, asked=asks)
            use.add(Use(used=used, asked=asks, used_by_fixed=used, asked_by_fixed=asks) if fixed else one)
    return found


def _upwards(below: Mapping[str, list[str]]) -> list[str]:
    todo = [kinds.ROOT]
    for name in todo:
        todo += below.get(name, ())
    return todo[::-1]


def _total(objects: Objects, outside: Iterable[Asked]) -> Asked:
    """Return the capacity of all nodes, minus the amounts that are used outside of the tree."""
    found: Asked = {}
    for node in objects.get(NODES, {}).values():
        for resource, amount in amounts((node.get("status") or {}).get("allocatable")).items():
            found[resource] = found.get(resource, 0) + amount
    used = list(outside)
    return {name: max(0, amount - sum(each.get(name, 0) for each in used)) for name, amount in found.items()}


def _over(named: Mapping[str, int], found: Asked) -> Asked:
    """Return the amounts of the resources that the quota names, with 0 for absent ones."""
    return {resource: found.get(resource, 0) for resource in sorted(named)}


def _written(found: Asked) -> dict[str, str]:
    return {resource: quantity(resource, amount) for resource, amount in found.items()}


def _text(found: Asked) -> str:
    return msgspec.json.encode(_written(found)).decode()
