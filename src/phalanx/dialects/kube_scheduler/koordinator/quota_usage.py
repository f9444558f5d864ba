"""Write the used and the requested amounts of each ElasticQuota to `status.used` and to annotations, as Koordinator's
controller does.

The amounts of a parent quota include the amounts of its children. Pods that have ended do not count. The used amounts
are those of pods that are on nodes.

This module also computes Koordinator's *runtime*, which is the amount that each quota may use now. It is computed from
the root of the tree down.

The children of one parent share each resource in two steps. First each child gets its `min`, or its request if the
request is smaller and the child lends the rest of `min`. Then the remainder is divided by weight among the children
that request more. This is repeated until nothing remains or all requests are met. A quota without a weight for the
resource gets none of the remainder. If all `min` together exceed the parent's amount, they are reduced in proportion.
The request of a quota to its parent is at most its `max`; the request of a parent includes the requests of its
children. The system quota and the default quota get no part of the root's amount: their runtime is their `max`. The
amounts that they use are subtracted from the root's amount before it is shared.

The runtime is only reported to users. The scheduler itself uses Phalanx's queue tree, which is built from the same
quotas.

Source: pkg/scheduler/plugins/elasticquota/core of v1.8.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Answer, GangView, Objects
from phalanx.dialects.frame.pod_requests import Asked, amounts, pod_requests, quantity
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota_tree import ElasticQuota, ElasticQuotaDefinitions

Quotas = Mapping[str, ElasticQuota]
OUTSIDE = (kinds.SYSTEM, kinds.DEFAULT)  # children of the root that get no part of the root's amount


def children(quotas: Quotas) -> dict[str, list[str]]:
    """Return, for each parent, the quotas directly below it, sorted by name."""
    found: dict[str, list[str]] = {}
    for name in sorted(quotas):
        if name != kinds.ROOT:
            found.setdefault(quotas[name].parent, []).append(name)
    return found


def child_requests(quotas: Quotas, own: Mapping[str, Asked]) -> dict[str, Asked]:
    """Return, for each quota, the sum of the requests of its pods and its child quotas. `own`: the requests of the pods
    of each quota. Quotas that are not below the root, for instance because they form a cycle, are left out."""
    found: dict[str, Asked] = {}
    below = children(quotas)
    for name in reversed(list(_downwards(below))):
        total = dict(own.get(name, {}))
        for child in below.get(name, ()):
            for resource, amount in _of_parent(quotas[child], found.get(child, {})).items():
                total[resource] = total.get(resource, 0) + amount
        found[name] = total
    return found


def request(quota: ElasticQuota, inner: Asked) -> Asked:
    """Return the request of a quota. It is `inner`, the sum of the requests of its pods and its child quotas, but at
    least its `min` if the quota does not lend its `min`."""
    if quota.lent:
        return inner
    return {name: max(inner.get(name, 0), quota.least.get(name, 0)) for name in {**inner, **quota.least}}


def runtimes(quotas: Quotas, inner: Mapping[str, Asked], total: Asked) -> dict[str, Asked]:
    """Return the runtime of each quota. `inner`: the result of `child_requests`; `total`: the amounts of the root."""
    found: dict[str, Asked] = {kinds.ROOT: dict(total)}
    found |= {name: dict(quotas[name].most) for name in OUTSIDE if name in quotas}
    asked = {name: _of_parent(quota, inner.get(name, {})) for name, quota in quotas.items()}
    below = children(quotas)
    for name in _downwards(below):
        siblings = [quotas[child] for child in below.get(name, ()) if child not in OUTSIDE]
        for resource in sorted({resource for quota in siblings for resource in _resources(quota, total)}):
            parts = _parts(siblings, asked, resource, found[name].get(resource, 0))
            for child, amount in parts.items():
                found.setdefault(child, {})[resource] = amount
        for quota in siblings:
            found.setdefault(quota.name, {})
    return found


# --- internal ---------------------------------------------------------------------------------------------------------


def _downwards(below: Mapping[str, list[str]]) -> Iterable[str]:
    """Yield the root and all quotas below it, parents first."""
    todo = [kinds.ROOT]
    for name in todo:
        yield name
        todo += below.get(name, ())


def _of_parent(quota: ElasticQuota, inner: Asked) -> Asked:
    """Return the request of the quota to its parent, at most its `max`."""
    asked = request(quota, inner).items()
    return {resource: min(amount, quota.most.get(resource, amount)) for resource, amount in asked}


def _resources(quota: ElasticQuota, total: Asked) -> Iterable[str]:
    return {**quota.most, **quota.least}.keys() | (total.keys() if not quota.most else set())


def _parts(siblings: list[ElasticQuota], asked: Mapping[str, Asked], resource: str, total: int) -> dict[str, int]:
    least = {quota.name: quota.least.get(resource, 0) for quota in siblings}
    whole = sum(least.values())
    if whole > total:
        least = {name: amount * total // whole for name, amount in least.items()}
    wants = {quota.name: asked.get(quota.name, {}).get(resource, 0) for quota in siblings}
    found = {q.name: min(least[q.name], wants[q.name]) if q.lent else least[q.name] for q in siblings}
    weights = {quota.name: quota.weights.get(resource, 0) for quota in siblings}
    left = total - sum(found.values())
    while left > 0 and (hungry := [name for name in found if found[name] < wants[name] and weights[name]]):
        each = {name: left * weights[name] // sum(weights[one] for one in hungry) for name in hungry}
        given = {name: min(each[name], wants[name] - found[name]) for name in hungry}
        if not any(given.values()):  # if less than one unit is left for each quota, the first quota gets the remainder
            given = {hungry[0]: min(left, wants[hungry[0]] - found[hungry[0]])}
        for name, amount in given.items():
            found[name] += amount
            left -= amount
    return found


_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class Use:
    """The amounts of one quota. `used`: the requests of its pods on nodes. `asked`: the requests of all its pods.
    `used_by_fixed`, `asked_by_fixed`: the parts of these two amounts that belong to pods that are not preemptible."""

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


def answers(defined: ElasticQuotaDefinitions, everyone: Iterable[GangView], objects: Objects) -> Iterator[Answer]:
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


# --- internal ---------------------------------------------------------------------------------------------------------


def _own(everyone: Iterable[GangView]) -> dict[str, Use]:
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
    """Return the amount in `found` of each resource that the quota names; 0 for a resource that `found` lacks."""
    return {resource: found.get(resource, 0) for resource in sorted(named)}


def _written(found: Asked) -> dict[str, str]:
    return {resource: quantity(resource, amount) for resource, amount in found.items()}


def _text(found: Asked) -> str:
    return msgspec.json.encode(_written(found)).decode()
