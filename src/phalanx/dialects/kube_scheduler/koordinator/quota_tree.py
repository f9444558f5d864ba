"""Translate ElasticQuotas to Phalanx Queues, find the quota of a pod, and create the ElasticQuotas of
ElasticQuotaProfiles.

`min` is the guarantee; `max` and the annotation `admission` are the limit. An unused part of `min` is lent to other
quotas, unless the quota forbids it. Quotas with the same parent share the resources beyond their guarantees in
proportion to their `shared-weight`. The default of this weight is `max`. A resource that `max` does not name is
unlimited. Jobs that are not preemptible stay within `min`.

The annotation `total-resource` of a tree's root limits the amounts that all quotas of this tree may use together.

As in Koordinator, borrowed resources are not reclaimed by default. If other quotas have borrowed a part of a quota's
`min`, the jobs of this quota wait until the jobs of the other quotas end. A pod that names a quota that does not exist
uses `koordinator-default-quota`.

Source: pkg/scheduler/plugins/elasticquota of v1.8.0.

Each ElasticQuotaProfile creates the root ElasticQuota of a tree and keeps it up to date.

`min` of the root quota is a fraction of the capacity of the nodes that the profile selects. The annotation
`total-resource` of the root has the whole capacity of these nodes. All quotas of the tree together may use at most this
capacity. The resources are cpu and memory, or the resources that an annotation of the profile names. The quota stays
when its profile is deleted. No quota is created if a quota of that name exists in another namespace. If several
profiles name the same quota, the first by name creates it.

Source: pkg/quota-controller/profile of v1.8.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from math import floor

import msgspec

from phalanx.client.kind import NODES
from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.frame.dialect import Answer, Definitions, Object, Objects
from phalanx.dialects.frame.pod_requests import Asked, amounts, quantity
from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.queue import BorrowingPolicy, Bounds, Queue, QueueOrder, QueuePreemption, Quota, WithinQueue

_BUILT_IN = (kinds.ROOT, kinds.SYSTEM, kinds.DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticQuota:
    """An ElasticQuota. `key`: `namespace/name` of its object. `least`: its `min`. `most`: its limit. `lent`: True if
    other quotas may use the unused part of `least`. `weights`: the quota's weight for each resource. Quotas share the
    amounts beyond all guarantees in proportion to these weights."""

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
    """The ElasticQuotas. `quotas`: the quotas by name. `by_namespace`: a map from a namespace to the quota that the
    namespace's pods use if they name no quota."""

    quotas: Mapping[str, ElasticQuota] = field(default_factory=dict)
    by_namespace: Mapping[str, str] = field(default_factory=dict)

    def quota(self, namespace: str, name: str) -> str:
        """Return the quota that a pod uses; empty if the cluster has no quotas. `name`: the quota that the pod names;
        empty if it names none."""
        if not self.quotas:
            return ""
        return name if name in self.quotas else self.by_namespace.get(namespace, kinds.DEFAULT)


def define(objects: Objects) -> ElasticQuotaDefinitions:
    """Return the queues of all ElasticQuotas, including the built-in quotas."""
    found: dict[str, ElasticQuota] = {}
    quotas = objects.get(kinds.ELASTIC_QUOTAS, {})
    for key in sorted(quotas):
        quota = read_quota(key, quotas[key])
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
    """Parse an ElasticQuota. Invalid values are treated as absent."""
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


def read_json(text: object) -> object:
    """Parse an annotation in JSON. Return None if it is absent or invalid."""
    try:
        return msgspec.json.decode(str(text)) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None


# --- internal ---------------------------------------------------------------------------------------------------------


def _by_namespace(quotas: Mapping[str, ElasticQuota]) -> dict[str, str]:
    """Return a map from a namespace to the quota that the namespace's pods use if they name no quota. A quota that is
    in the namespace and has the namespace's name takes precedence over a quota whose annotation lists the namespace."""
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


_RESOURCES = ("cpu", "memory")
_NO_BOUND = str((2**63 - 1) // 2000)  # the value of `max` that Koordinator writes for "unlimited"


def answers(defined: ElasticQuotaDefinitions, objects: Objects) -> Iterator[Answer]:
    """Yield the desired ElasticQuota of each profile."""
    nodes = objects.get(NODES, {}).values()
    made: set[str] = set()
    for key, profile in sorted(objects.get(kinds.QUOTA_PROFILES, {}).items()):
        name = str((profile.get("spec") or {}).get("quotaName") or "")
        namespace = key.rpartition("/")[0]
        existing = defined.quotas.get(name)
        if name and name not in made and (existing is None or existing.key in ("", f"{namespace}/{name}")):
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


def _resources(notes: Mapping[str, object]) -> tuple[str, ...]:
    said = read_json(notes.get(f"{kinds.QUOTA}resource-keys"))
    return tuple(map(str, said)) if isinstance(said, list) and said else _RESOURCES


def _sum(nodes: Iterable[Object], named: Iterable[str]) -> Asked:
    found = dict.fromkeys(named, 0)
    for node in nodes:
        for resource, amount in amounts((node.get("status") or {}).get("allocatable")).items():
            if resource in found:
                found[resource] += amount
    return found


def _ratio(said: object) -> Fraction:
    """Return the share of the capacity that a profile states; 1 if the share is absent or invalid."""
    try:
        share = parse(str(said))
    except QuantityError:
        return Fraction(1)
    return share if 0 < share <= 1 else Fraction(1)


def _written(found: Asked) -> dict[str, str]:
    return {resource: quantity(resource, amount) for resource, amount in found.items()}


def _text(found: Asked) -> str:
    return msgspec.json.encode(_written(found)).decode()
