"""Translates ElasticQuotas into Phalanx Queues, and finds the quota of a pod.

`min` is the guarantee; `max` and the annotation `admission` are the limit. An unused part of `min` is lent to other
quotas, unless the quota forbids it. Siblings share by `shared-weight`, by default in proportion to `max`. A resource
that `max` does not name is unlimited. Jobs that are not preemptible stay within `min`.

The annotation `total-resource` of a tree's root bounds all quotas of that tree together.

As in Koordinator, nothing is reclaimed by default: if other quotas have borrowed from a `min`, its quota waits until
their jobs end. A pod that names a quota that does not exist uses `koordinator-default-quota`.

Source: pkg/scheduler/plugins/elasticquota of v1.8.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from phalanx.dialects.frame.dialect import Definitions, Object, Objects
from phalanx.dialects.frame.pod_requests import Asked, amounts
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.queue import (
    BorrowingPolicy,
    Bounds,
    Queue,
    QueueOrder,
    QueuePreemption,
    Quota,
    WithinQueue,
)

_BUILT_IN = (kinds.ROOT, kinds.SYSTEM, kinds.DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticQuota:
    """An ElasticQuota. `key`: `namespace/name` of its object. `least`: its `min`. `most`: its limit. `lent`: whether
    others may use the unused part of `least`. `weights`: its weights in sharing the remainder beyond all guarantees."""

    name: str
    key: str
    parent: str
    is_parent: bool = False
    least: Asked = field(default_factory=dict)
    most: Asked = field(default_factory=dict)
    weights: Asked = field(default_factory=dict)
    lent: bool = True
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticQuotaDefinitions(Definitions):
    """The quotas. `quotas`: name -> quota. `by_namespace`: namespace -> the quota of its pods that name no quota."""

    quotas: Mapping[str, ElasticQuota] = field(default_factory=dict)
    by_namespace: Mapping[str, str] = field(default_factory=dict)

    def quota(self, namespace: str, name: str) -> str:
        """Return the quota that a pod uses; empty: the cluster has no quotas. `name`: the quota that the pod names
        (empty: none)."""
        if not self.quotas:
            return ""
        return name if name in self.quotas else self.by_namespace.get(namespace, kinds.DEFAULT)


def define(objects: Objects) -> ElasticQuotaDefinitions:
    """Return the queues of all ElasticQuotas, with the built-in ones."""
    found: dict[str, ElasticQuota] = {}
    there = objects.get(kinds.ELASTIC_QUOTAS, {})
    for key in sorted(there):
        quota = read_quota(key, there[key])
        found.setdefault(quota.name, quota)
    for name in profile_roots(objects.get(kinds.QUOTA_PROFILES, {}).values()):
        found.setdefault(name, ElasticQuota(name=name, key="", parent=kinds.ROOT, is_parent=True))
    if not found:
        return ElasticQuotaDefinitions()
    for name in _BUILT_IN:
        found.setdefault(name, ElasticQuota(name=name, key="", parent=kinds.ROOT, is_parent=name == kinds.ROOT))
    return ElasticQuotaDefinitions(
        queues=tuple(_queue(quota) for quota in found.values()), quotas=found, by_namespace=_by_namespace(found)
    )


def read_quota(key: str, obj: Object) -> ElasticQuota:
    """Parse an ElasticQuota; invalid values count as absent."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    most = amounts(spec.get("max"))
    for resource, amount in amounts(read_json(notes.get(kinds.LIMIT))).items():
        most[resource] = min(amount, most.get(resource, amount))
    is_root = str(labels.get(kinds.IS_ROOT, "")).lower() == "true"
    for resource, amount in amounts(read_json(notes.get(kinds.TOTAL)) if is_root else None).items():
        most[resource] = min(amount, most.get(resource, amount))
    said = read_json(notes.get(kinds.NAMESPACES))
    return ElasticQuota(
        name=key.rpartition("/")[2],
        key=key,
        parent=str(labels.get(kinds.PARENT) or kinds.ROOT),
        is_parent=is_root or str(labels.get(kinds.IS_PARENT, "")).lower() == "true",
        least=amounts(spec.get("min")),
        most=most,
        weights=amounts(read_json(notes.get(kinds.WEIGHT))) or amounts(spec.get("max")),
        lent=str(labels.get(kinds.LENT, "")).lower() != "false",
        namespaces=tuple(map(str, said)) if isinstance(said, list) else (),
    )


def profile_roots(profiles: Iterable[Object]) -> Iterator[str]:
    """Yield the names of the quotas that ElasticQuotaProfiles create."""
    for profile in profiles:
        if name := (profile.get("spec") or {}).get("quotaName"):
            yield str(name)


def read_json(text: Any) -> Any:
    """Parse an annotation; None: it is absent or invalid."""
    try:
        return msgspec.json.decode(str(text)) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None


# --- inside -----------------------------------------------------------------------------------------------------------


def _by_namespace(quotas: Mapping[str, ElasticQuota]) -> dict[str, str]:
    """Return namespace -> the quota of its pods that name none. A quota in the namespace with the name of the namespace
    takes precedence over a quota whose annotation lists the namespace."""
    found = {namespace: quota.name for quota in quotas.values() for namespace in reversed(quota.namespaces)}
    own = (quota.key.partition("/") for quota in quotas.values())
    return found | {name: name for namespace, _, name in own if namespace == name and name}


def _queue(quota: ElasticQuota) -> Queue:
    own = {name: min(amount, quota.most.get(name, amount)) for name, amount in quota.least.items()}
    kept = () if quota.lent else _bounds(dict.fromkeys(own, 0))
    said = Quota(guaranteed=_bounds(own), limit=_bounds(quota.most), lend=kept)
    weights = ((name, float(min(amount, MAX_AMOUNT))) for name, amount in quota.weights.items() if amount)
    within = WithinQueue.NEVER if quota.name == kinds.DEFAULT else WithinQueue.LOWER
    return Queue(
        name=kinds.tree_quota(quota.name),
        parent="" if quota.name in (kinds.ROOT, kinds.SYSTEM) else kinds.tree_quota(quota.parent),
        quotas=(said,) if said != Quota() else (),
        weights=tuple(sorted(weights)),
        order=QueueOrder.FAIR if quota.is_parent else QueueOrder.PRIORITY,
        borrow=BorrowingPolicy.PREEMPTIBLE,
        preemption=QueuePreemption(within=within),
    )


def _bounds(found: Mapping[str, int]) -> Bounds:
    return tuple(sorted(found.items()))
