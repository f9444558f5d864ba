"""Read nodes, and the amounts that pods request on them, as Slurm's commands show them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from phalanx.client.quantity import QuantityError, parse
from phalanx.slurm.cluster.api import PODS, ApiClient, listed
from phalanx.slurm.cluster.site import FEATURE, POWER, Site

PATH = "/api/v1/nodes"
DOWN = "slurm.phalanx.dev/down"  # annotation of nodes on which `scontrol update State=DOWN` was used
GPU_PRODUCT = "nvidia.com/gpu.product"  # label of nodes: the GPU type, which NVIDIA's GPU feature discovery writes


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node.

    `shape`: sockets, cores per socket and threads per core (`2:8:1`), if slurm.conf describes them. `reason`: why the
    node was drained, from `scontrol update nodename=… reason=…`. `made_s`: when the Node was created, in seconds since
    the epoch. `down_s`: since when the node is not ready, in seconds since the epoch; None if it is ready. `kernel`:
    the version of the node's kernel. `cloud`: True if programs switch the node on and off. `power`: Slurm's suffix of
    the state: `~` for off, `#` while the node is switched on, `%` while it is switched off.
    """

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
    kernel: str = ""
    address: str = ""
    cloud: bool = False
    power: str = ""


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
    nodeInfo: dict[str, Any] = {}  # noqa: N815 - the API's name
    addresses: list[dict[str, str]] = []


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    items: list[_Node]


def nodes(api: ApiClient) -> list[NodeInfo]:
    """Return all nodes, sorted by name."""
    from phalanx.slurm.notation.hostlist import sort_key

    found = msgspec.json.decode(api.call("GET", PATH), type=_List).items
    return sorted((_read(node) for node in found), key=lambda node: sort_key(node.name))


def with_cloud(here: Site, found: list[NodeInfo]) -> list[NodeInfo]:
    """Return the nodes in `found`, and those cloud nodes of the site that are switched off or are being switched on or
    off. These cloud nodes have no Node object, or their Node object is not ready."""
    if not here.cloud:
        return found
    import time

    from phalanx.slurm.notation.hostlist import sort_key

    now_s, data = time.time(), here.read.get("data") or {}
    states = {name: _power(data.get(f"{POWER}{name}", ""), now_s) for name in here.cloud}
    known = {node.name: node for node in found}
    for name, has in here.cloud.items():
        node = known.get(name)
        if node is None:
            node = NodeInfo(
                name=name, cpus=has.cpus, memory_mib=has.memory_mib, gpus=has.gpus, ready=True, drained=False,
                features=tuple(sorted(here.features.get(name, ()))), power=states[name],
            )  # fmt: skip
        elif not node.ready and states[name] == "#":
            node = msgspec.structs.replace(node, ready=True, power="#")
        known[name] = msgspec.structs.replace(node, cloud=True)
    return sorted(known.values(), key=lambda node: sort_key(node.name))


def _power(text: str, now_s: float) -> str:
    """Return Slurm's suffix (`~`, `#` or `%`) for the state of a cloud node. `text`: the scheduler's entry `power.NODE`
    in the site's ConfigMap."""
    match text.split():
        case ["resuming", *_]:
            return "#"
        case ["suspending", until] if until.isdecimal() and now_s < int(until):
            return "%"
        case _:
            return "~"


_LIVE = "status.phase!=Succeeded,status.phase!=Failed"


class _Pod(msgspec.Struct):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class _Pods(msgspec.Struct):
    items: list[_Pod]


class Used(msgspec.Struct):
    """The sum of the resource requests of all pods on a node. `cpus` is rounded down to whole CPUs."""

    milli_cpus: int = 0
    memory_bytes: int = 0
    gpus: int = 0

    @property
    def cpus(self) -> int:
        return self.milli_cpus // 1000

    @property
    def memory_mib(self) -> int:
        return self.memory_bytes >> 20


def used(api: ApiClient) -> dict[str, Used]:
    """Return, for each node, the sum of the resource requests of pods that have not ended. Pods of other workloads
    count as well, so a node that is full of such pods is not shown as idle."""
    found: dict[str, Used] = {}
    for pod in msgspec.json.decode(listed(api, PODS, fieldSelector=_LIVE), type=_Pods).items:
        name = pod.spec.get("nodeName", "")
        if not name or pod.status.get("phase") in ("Succeeded", "Failed"):
            continue
        of_node = found.setdefault(name, Used())
        for container in pod.spec.get("containers") or ():
            requests = (container.get("resources") or {}).get("requests") or {}
            of_node.milli_cpus += _requested(requests, "cpu", 1000)
            of_node.memory_bytes += _requested(requests, "memory", 1)
            of_node.gpus += _requested(requests, "nvidia.com/gpu", 1)
    return found


def _requested(requests: dict[str, object], name: str, times: int) -> int:
    try:
        return int(parse(str(requests.get(name, "0"))) * times)
    except QuantityError:
        return 0


def _read(node: _Node) -> NodeInfo:
    said = node.metadata.annotations
    condition = next((one for one in node.status.conditions if one.get("type") == "Ready"), {})
    ready, made_s = condition.get("status", "Unknown"), _moment(node.metadata.creationTimestamp)
    return NodeInfo(
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
        kernel=str(node.status.nodeInfo.get("kernelVersion") or ""),
        address=next((one.get("address", "") for one in node.status.addresses if one.get("type") == "InternalIP"), ""),
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
