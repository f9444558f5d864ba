"""Translate ElasticQuotas to queues. `min` becomes the guarantee and `max` the limit, and other queues may borrow the
unused part of a guarantee.

A namespace has one ElasticQuota; if it has several, the first one by name is used. The queues of all ElasticQuotas are
children of one queue, whose limit is the sum of all `min`. So a quota can only borrow amounts that the `min` of another
quota guarantees. (In scheduler-plugins, a pod beyond this limit waits with the message "total ElasticQuota used is more
than min".) Two rules of scheduler-plugins may surprise users. If `max` is set but does not name cpu, memory or
ephemeral-storage, the limit of this resource is 0. In a namespace with an ElasticQuota, pods may not request resources
that no `min` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.dialects.frame.dialect import Answer, Definitions, GangView, Object, Objects
from phalanx.dialects.frame.pod_requests import Asked, amounts, pod_requests, quantity
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds
from phalanx.model.pod import PODS
from phalanx.model.queue import Bounds, Queue, QueuePreemption, Quota, ReclaimWithinCohort, WithinQueue

NATIVE = ("cpu", "memory", "ephemeral-storage")  # resources that count as 0 if `max` is set but does not name them
_PREEMPTION = QueuePreemption(within=WithinQueue.LOWER, reclaim=ReclaimWithinCohort.ANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDefinitions(Definitions):
    """The ElasticQuotas. `quotas`: the name of the ElasticQuota of each namespace. `known`: the resources that at least
    one `min` names."""

    quotas: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    def unknown(self, asks: Iterable[str]) -> list[str]:
        """Return the resources in `asks` that no `min` names."""
        return sorted(set(asks) - self.known - {*NATIVE, PODS})


def define(objects: Objects) -> QuotaDefinitions:
    """Return the queues of all ElasticQuotas."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for key in sorted(quotas := objects.get(kinds.ELASTIC_QUOTAS, {})):
        namespace, _, name = key.partition("/")
        found.setdefault(namespace, (name, quotas[key].get("spec") or {}))
    if not found:
        return QuotaDefinitions()
    whole = dict.fromkeys(NATIVE, 0)
    queues = []
    for namespace, (_, spec) in found.items():
        guaranteed, limit = amounts(spec.get("min")), _limit(spec)
        for resource, amount in guaranteed.items():
            whole[resource] = whole.get(resource, 0) + amount
        queues.append(_queue(namespace, guaranteed, limit))
    above = Queue(name=kinds.TREE, quotas=(Quota(limit=_bounds(whole)),))
    known = frozenset(resource for _, spec in found.values() for resource in amounts(spec.get("min")))
    return QuotaDefinitions(
        queues=(above, *queues), quotas={namespace: name for namespace, (name, _) in found.items()}, known=known
    )


def statuses(everyone: Iterable[GangView], objects: Objects) -> Iterator[Answer]:
    """Yield the status of every ElasticQuota. It has the requests of the running pods of the namespace, for the
    resources that the quota names."""
    quotas = objects.get(kinds.ELASTIC_QUOTAS, {})
    if not quotas:
        return
    used: dict[str, Asked] = {key.partition("/")[0]: {} for key in quotas}
    for told in everyone:
        if (total := used.get(told.namespace)) is None:
            continue
        for pod in told.owners:
            if (pod.get("status") or {}).get("phase") == "Running":
                for resource, amount in pod_requests(pod.get("spec") or {}).items():
                    total[resource] = total.get(resource, 0) + amount
    for key, obj in quotas.items():
        spec, total = obj.get("spec") or {}, used[key.partition("/")[0]]
        named = {**amounts(spec.get("min")), **amounts(spec.get("max"))}
        yield Answer(
            kind=kinds.ELASTIC_QUOTAS,
            key=key,
            status={"used": {resource: quantity(resource, total.get(resource, 0)) for resource in sorted(named)}},
        )


def notes(spec: Object) -> Iterator[str]:
    """Yield a sentence for users if `max` is set but does not name cpu or memory, because the limit is then 0."""
    if (limit := amounts(spec.get("max"))) and (left := [name for name in NATIVE[:2] if name not in limit]):
        yield (
            f"spec.max does not name {' and '.join(left)}, so the limit is 0, as in scheduler-plugins: "
            "pods that request it wait"
        )


# --- internal ---------------------------------------------------------------------------------------------------------


def _limit(spec: Mapping[str, object]) -> Asked:
    """Return the limit that `max` sets; empty if `max` is not set."""
    said = amounts(spec.get("max"))
    return {**dict.fromkeys(NATIVE, 0), **said} if said else {}


def _queue(namespace: str, guaranteed: Asked, limit: Asked) -> Queue:
    own = {name: min(amount, limit.get(name, amount)) for name, amount in guaranteed.items()}
    return Queue(
        name=kinds.tree_quota(namespace),
        parent=kinds.TREE,
        quotas=(Quota(guaranteed=_bounds(own), limit=_bounds(limit)),),
        preemption=_PREEMPTION,
    )


def _bounds(found: Mapping[str, int]) -> Bounds:
    return tuple(sorted(found.items()))
