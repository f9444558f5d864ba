"""Convert a Node object into `model.Node`: its allocatable amounts and its taints.

The amounts are those of `allocatable`, never those of `capacity`. A node whose Ready condition is not True gets no new
pods. While an autoscaler removes a node, or has not finished starting it, the node has a taint of that autoscaler.
Phalanx treats this node as unschedulable, even for pods that tolerate all taints. Phalanx places pods on a node with
the taint `DeletionCandidateOfClusterAutoscaler`, but prefers other nodes. There are two reasons. The autoscaler keeps
the node if a pod is placed on it. And while the node exists, the autoscaler adds no other node for that pod.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from phalanx.client.connection import Object
from phalanx.client.quantity import QuantityError, amount, whole
from phalanx.kube.read.labels import DEVICES, NODE_GROUP, ZONES, read_json
from phalanx.model.node import HARD, Device, Node, Taint, Zone
from phalanx.model.pod import MAX_AMOUNT, MAX_DEVICES, Amounts, amounts

log = logging.getLogger(__name__)
_GPU = "nvidia.com/gpu"

# Taints of the Cluster Autoscaler and of Karpenter: nodes that are being removed, and nodes that are still starting.
_LEAVING = {"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"}
_STARTING = ("karpenter.sh/unregistered", "startup-taint.cluster-autoscaler.kubernetes.io/")
# Annotations by which users forbid autoscalers to remove a node. Phalanx does not release such a node either.
_PROTECTED = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")


def read_node(obj: Object) -> Node:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    taints = tuple(Taint(taint["key"], taint.get("value") or "", taint["effect"]) for taint in spec.get("taints") or ())
    leaving = bool(meta.get("deletionTimestamp")) or any(is_closed(taint) for taint in taints)
    annotations = meta.get("annotations") or {}
    return Node(
        name=meta["name"],
        allocatable=_allocatable(status),
        labels=tuple(sorted((meta.get("labels") or {}).items())),
        taints=taints,
        unschedulable=bool(spec.get("unschedulable")) or leaving,
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()),
        devices=_devices(meta) or _discovered(meta, dict(_allocatable(status))),
        zones=_zones(meta),
        group=(meta.get("labels") or {}).get(NODE_GROUP, ""),
        protected=any(annotations.get(key) == "true" for key in _PROTECTED),
    )


def is_closed(taint: Taint) -> bool:
    """Return whether the taint marks a node that an autoscaler removes or has not finished starting."""
    return taint.key in _LEAVING or (taint.key.startswith(_STARTING) and taint.effect in HARD)


class _Device(msgspec.Struct, frozen=True):
    name: str
    resource: str = _GPU
    memory: str | int = 0
    zone: str = ""


class _Zone(msgspec.Struct, frozen=True):
    name: str
    allocatable: dict[str, str | int]


def _devices(meta: Object) -> tuple[Device, ...]:
    """Return the devices that the node's annotation lists: `[{"name": "0", "memory": "80Gi", "zone": "0"}]`. An invalid
    annotation is ignored: the devices of the node then have no names, and are only counted."""
    try:
        listed = read_json((meta.get("annotations") or {}).get(DEVICES, "[]"), list[_Device])
        return tuple(
            Device(name=one.name, resource=one.resource, memory_bytes=max(0, whole(one.memory)), zone=one.zone)
            for one in listed
        )
    except (ValueError, ArithmeticError, QuantityError) as error:
        log.warning("node %s: its annotation %s is ignored: %s", meta["name"], DEVICES, error)
        return ()


def _discovered(meta: Object, allocatable: Mapping[str, int]) -> tuple[Device, ...]:
    """Return the GPUs of a node whose annotation lists none. The memory of each GPU is read from a label of NVIDIA's
    GPU feature discovery (in MiB), and is 0 without this label. Another label contains the number of physical GPUs. If
    the allocatable number differs, the node shares GPUs among several pods or divides them into slices. In this case,
    return no GPUs."""
    labels, count = meta.get("labels") or {}, allocatable.get(_GPU, 0)
    memory = str(labels.get(f"{_GPU}.memory", ""))
    counted = str(labels.get(f"{_GPU}.count", count))
    if counted != str(count) or not 0 < count <= MAX_DEVICES:
        return ()
    size = min(int(memory[:12]) * 2**20, MAX_AMOUNT) if memory.isdecimal() else 0
    names = map(str, range(count))
    return tuple(Device(name=name, resource=_GPU, memory_bytes=size, counted=not size) for name in names)


def _zones(meta: Object) -> tuple[Zone, ...]:
    """Return the NUMA zones that the node's annotation lists: `[{"name": "0", "allocatable": {"cpu": "32", "memory":
    "256Gi"}}]`."""
    try:
        listed = read_json((meta.get("annotations") or {}).get(ZONES, "[]"), list[_Zone])
        each = [{name: amount(name, text) for name, text in one.allocatable.items()} for one in listed]
        return tuple(Zone(name=one.name, allocatable=amounts(has)) for one, has in zip(listed, each, strict=True))
    except (ValueError, ArithmeticError, QuantityError) as error:
        log.warning("node %s: its annotation %s is ignored: %s", meta["name"], ZONES, error)
        return ()


def _allocatable(status: Object) -> Amounts:
    """Return the allocatable amounts. An amount that cannot be read counts as 0, so that no pod that requests this
    resource is placed on the node."""
    found = {}
    for name, text in (status.get("allocatable") or {}).items():
        try:
            found[name] = amount(name, text)
        except QuantityError:
            found[name] = 0
    return amounts(found)
