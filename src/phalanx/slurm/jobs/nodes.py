"""Nodes as Slurm's commands see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from phalanx.client.quantity import QuantityError, parse
from phalanx.slurm.cluster.api import PODS, Api
from phalanx.slurm.cluster.sight import listed
from phalanx.slurm.cluster.site import FEATURE

PATH = "/api/v1/nodes"
DOWN = "slurm.phalanx.dev/down"  # annotation of nodes that `scontrol update State=DOWN` took down
GPU_PRODUCT = "nvidia.com/gpu.product"  # label of nodes: the type of their GPUs, as NVIDIA's feature discovery names it


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """`shape`: sockets, cores per socket and threads per core, `2:8:1`, if slurm.conf has them. `reason`: the reason of
    the drain (`scontrol update nodename=… reason=…`). `made_s`: the creation time, in seconds since the epoch.
    `down_s`: the time since which the node is not ready; None if it is ready."""

    name: str
    cpus: int
    memory_mib: int
    gpus: int
    ready: bool
    drained: bool
    features: tuple[str, ...] = ()
    reason: str = ""
    reason_by: str = ""
    reason_s: str = ""
    made_s: float = 0.0
    down_s: float | None = None
    shape: str = ""
    gpu_product: str = ""


class _Meta(msgspec.Struct):
    name: str
    creationTimestamp: str = ""  # noqa: N815 - the API's name
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct):
    unschedulable: bool = False


class _Status(msgspec.Struct):
    allocatable: dict[str, str] = {}
    conditions: list[dict[str, Any]] = []


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    items: list[_Node]


def nodes(api: Api) -> list[Node]:
    """Return all nodes, sorted by name."""
    from phalanx.slurm.notation.hostlist import sort_key

    found = msgspec.json.decode(api.call("GET", PATH), type=_List).items
    return sorted((_read(node) for node in found), key=lambda node: sort_key(node.name))


_LIVE = "status.phase!=Succeeded,status.phase!=Failed"


class _Pod(msgspec.Struct):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class _Pods(msgspec.Struct):
    items: list[_Pod]


def used_cpus(api: Api) -> dict[str, int]:
    """Return the CPUs of each node that pods request, whether or not they belong to Slurm jobs: a node full of other
    pods is not idle. Fractions of a CPU that small pods (DaemonSets) request do not count. Pods that have ended are not
    read."""
    milli: dict[str, int] = {}
    for pod in msgspec.json.decode(listed(api, PODS, fieldSelector=_LIVE), type=_Pods).items:
        name = pod.spec.get("nodeName", "")
        if name and pod.status.get("phase") not in ("Succeeded", "Failed"):
            milli[name] = milli.get(name, 0) + sum(map(_cpu_milli, pod.spec.get("containers") or ()))
    return {name: amount // 1000 for name, amount in milli.items()}


def _cpu_milli(container: dict[str, Any]) -> int:
    text = ((container.get("resources") or {}).get("requests") or {}).get("cpu", "0")
    try:
        return int(parse(str(text)) * 1000)
    except QuantityError:
        return 0


def _read(node: _Node) -> Node:
    said = node.metadata.annotations
    condition = next((one for one in node.status.conditions if one.get("type") == "Ready"), {})
    ready, made_s = condition.get("status", "Unknown"), _moment(node.metadata.creationTimestamp)
    return Node(
        name=node.metadata.name,
        cpus=_amount(node, "cpu"),
        memory_mib=_amount(node, "memory") >> 20,
        gpus=_amount(node, "nvidia.com/gpu"),
        ready=ready == "True" and DOWN not in said,
        drained=node.spec.unschedulable,
        features=tuple(key.removeprefix(FEATURE) for key in sorted(node.metadata.labels) if key.startswith(FEATURE)),
        reason=said.get("slurm.phalanx.dev/reason", ""),
        reason_by=said.get("slurm.phalanx.dev/reason-by", ""),
        reason_s=said.get("slurm.phalanx.dev/reason-at", ""),
        made_s=made_s,
        gpu_product=node.metadata.labels.get(GPU_PRODUCT, ""),
        down_s=None if ready == "True" else _moment(condition.get("lastTransitionTime")) or made_s,
    )


def _moment(text: str | None) -> float:
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0


def _amount(node: _Node, name: str) -> int:
    try:
        return int(parse(node.status.allocatable.get(name, "0")))
    except QuantityError:
        return 0
