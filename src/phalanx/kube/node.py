"""From a Node object to `model.Node`: what it can hold, and whom it repels.

Allocatable, never capacity. A node whose Ready condition is anything but True takes nothing new. Nodes that an
autoscaler is about to remove carry a taint or are cordoned; both are read here like any other.
"""

from __future__ import annotations

from phalanx.client.connection import Object
from phalanx.client.quantity import QuantityError, amount
from phalanx.model.node import Node, Taint
from phalanx.model.shape import Amounts, amounts

# Set by cluster-autoscaler on the node that it drains (its effect may be only PreferNoSchedule until the end).
_TO_BE_DELETED = {"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted"}


def read_node(obj: Object) -> Node:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    taints = tuple(Taint(taint["key"], taint.get("value") or "", taint["effect"]) for taint in spec.get("taints") or ())
    leaving = bool(meta.get("deletionTimestamp")) or any(taint.key in _TO_BE_DELETED for taint in taints)
    return Node(
        name=meta["name"],
        allocatable=_allocatable(status),
        labels=tuple(sorted((meta.get("labels") or {}).items())),
        taints=taints,
        unschedulable=bool(spec.get("unschedulable")) or leaving,
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()),
    )


def _allocatable(status: Object) -> Amounts:
    """A quantity that cannot be read counts as none: the node then takes nothing that asks for it."""
    found = {}
    for name, text in (status.get("allocatable") or {}).items():
        try:
            found[name] = amount(name, text)
        except QuantityError:
            found[name] = 0
    return amounts(found)
