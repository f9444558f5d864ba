"""Koordinator's cpus: the cores and NUMA zones of a node, and the cores that a pod gets for itself.

koordlet, the agent on each node, describes the node's cpus in annotations of the NodeResourceTopology with the node's
name. A pod of the qosClass LSE or LSR with a priority of koord-prod gets cpus for itself. They are allocated in whole
cores: each core is a device of the node, in its zone, and the request is rounded up, so no two pods share a core. The
scheduler counts them with all other needs of a gang, and writes the chosen cpus with the binding, in the form that
koordlet reads. A core is left out if the kubelet allocates one of its cpus, or reserves it for itself.

Nodes may differ in the number of threads per core, but the request of a pod is the same for all nodes. So it is
computed for the nodes with the fewest threads. The cpus of a pod on a node are those in its annotation, even if another
scheduler wrote that. Another scheduler may have given the threads of one core to several pods; then the pod with the
first thread counts as the holder of the core.

Source: pkg/scheduler/plugins/nodenumaresource and apis/extension/{node,resource,numa_aware}.go of v1.8.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from phalanx.dialects.frame.dialect import DeviceAsk, Object
from phalanx.dialects.frame.pod_requests import amounts, pod_requests, quantity
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota_tree import read_json
from phalanx.model.node import Device, Zone
from phalanx.model.pod import ZONE

CORES: Final = "koordinator.sh/physical-core"
_NODE: Final = "node.koordinator.sh/"
# The annotations of a NodeResourceTopology that are read: cpus; the kubelet's allocations; cpus reserved by the node
# and by the kubelet.
SAID: Final = (
    f"{_NODE}cpu-topology",
    f"{_NODE}pod-cpu-allocs",
    f"{_NODE}reservation",
    "kubelet.koordinator.sh/cpu-manager-policy",
)
SPEC, NUMA, STATUS = (
    f"{kinds.SCHEDULING}/{word}" for word in ("resource-spec", "numa-topology-spec", "resource-status")
)
_BOUND: Final = frozenset({"LSE", "LSR"})
_FULL, _SPREAD = "FullPCPUs", "SpreadByPCPUs"
_MILLI: Final = 1000
_MOST_CPUS: Final = 1 << 13  # the most CPUs of Linux (CONFIG_NR_CPUS)
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_ZONE_NAME = re.compile(r"\D*(\d{1,4})")
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Core:
    """A core of a node. `name`: the name of the core as a device. `zone`: its NUMA node. `cpus`: its threads."""

    name: str
    zone: str
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The cores and zones of a node. `threads`: the numbers of threads per core that occur on the node."""

    cores: tuple[Core, ...] = ()
    zones: tuple[Zone, ...] = ()
    threads: frozenset[int] = frozenset()

    def devices(self) -> tuple[Device, ...]:
        """Return the cores as devices of the node."""
        return tuple(Device(name=core.name, resource=CORES, zone=core.zone) for core in self.cores)

    def given(self, names: Iterable[str]) -> list[Core]:
        """Return the cores among these devices, in order."""
        known = frozenset(names)
        return [core for core in self.cores if core.name in known]


_NO_CPUS: Final = NodeCpus()


@dataclass(frozen=True, slots=True)
class ClusterCpus:
    """The cpus of all nodes that have a description. `threads`: the numbers of threads per core that occur on any node.
    `most_cores`: the largest number of cores of one node. `largest_zone_milli`: the cpu of the largest zone."""

    nodes: Mapping[str, NodeCpus] = field(default_factory=dict)
    threads: frozenset[int] = frozenset()
    most_cores: int = 0
    largest_zone_milli: int = 0

    def of(self, node: str) -> NodeCpus:
        """Return the cores and zones of a node; empty if the node has no description."""
        return self.nodes.get(node, _NO_CPUS)


class _Cpu(msgspec.Struct):
    id: int
    core: int = 0
    socket: int = 0
    node: int = 0


class _Topology(msgspec.Struct):
    detail: list[_Cpu] = []


def read_all(objects: Mapping[str, Object]) -> ClusterCpus:
    """Return the cpus of all nodes. `objects`: the NodeResourceTopologies by name."""
    nodes = {name: each for name, obj in objects.items() if (each := read_cpus(obj)).zones}
    return ClusterCpus(
        nodes=nodes,
        threads=frozenset[int]().union(*(each.threads for each in nodes.values())),
        most_cores=max((len(each.cores) for each in nodes.values()), default=0),
        largest_zone_milli=max(
            (dict(zone.allocatable)["cpu"] for each in nodes.values() for zone in each.zones), default=0
        ),
    )


def read_cpus(obj: Object) -> NodeCpus:
    """Return the cores and zones that a NodeResourceTopology describes."""
    notes = obj["metadata"].get("annotations") or _NOTHING
    described = _described(*(str(notes.get(word) or "") for word in SAID))
    memory = {name: each for zone in obj.get("zones") or () for name, each in _memory(zone)}
    if not memory:
        return described
    zones = (
        Zone(name=zone.name, allocatable=(*zone.allocatable, *memory.get(zone.name, {}).items()))
        for zone in described.zones
    )
    return replace(described, zones=tuple(zones))


def concerns(pod: Object) -> bool:
    """Return whether this module applies to the pod: it gets cpus for itself, or asks for NUMA alignment."""
    notes = pod["metadata"].get("annotations") or _NOTHING
    return NUMA in notes or STATUS in notes or is_bound(pod)


def with_cpus(pod: Object, asked: DeviceAsk | None, known: ClusterCpus) -> DeviceAsk | None:
    """Return the device request of a pod, extended by its cores and its zone. `asked`: the request for other devices. A
    pod on a node requests the cores that it has."""
    node = (pod.get("spec") or {}).get("nodeName")
    cores, wrong = cpu_ask(pod, known) if not node else (_held(pod, known.of(str(node))), "")
    aligned = alignment(pod, known)
    if cores and known.largest_zone_milli:  # such a pod prefers one zone, so that the free cpu of each zone stays known
        aligned = aligned or "preferred"
    if not (cores or wrong or aligned):
        return asked
    found = asked or DeviceAsk(instead=frozenset())
    whole = tuple(sorted((*found.whole, (CORES, cores)))) if cores else found.whole
    return replace(found, whole=whole, wrong=found.wrong or wrong, aligned=aligned)


def cpu_ask(pod: Object, known: ClusterCpus) -> tuple[int, str]:
    """Return (number of cores that the pod needs for itself, reason why it cannot get them; empty if it can)."""
    policy, required = _policy(_annotation(pod, SPEC))
    if not known.threads or not is_bound(pod) or policy not in (_FULL, _SPREAD):
        return 0, ""
    milli = pod_requests(pod.get("spec") or {}).get("cpu", 0)
    if milli % _MILLI:
        return 0, "the requested CPUs must be integer"
    cpus, fewest = milli // _MILLI, min(known.threads)
    if required and policy == _FULL and all(cpus % threads for threads in known.threads):
        return 0, f"requested cpus not multiple cpus per core: {cpus}, where cores have {fewest}"
    if policy == _SPREAD and (required or cpus <= known.most_cores):
        return cpus, ""
    return -(-cpus // fewest), ""


def alignment(pod: Object, known: ClusterCpus) -> str:
    """Return `required` if all resources of the pod must come from one zone, `preferred` if they should, and an empty
    text if the zone does not matter. The policy Restricted requires as few zones as possible: one zone, unless the pod
    requests more cpu than any zone has."""
    policy = _annotation(pod, NUMA).get("numaTopologyPolicy")
    if not known.largest_zone_milli or policy not in ("BestEffort", "Restricted", "SingleNUMANode"):
        return ""
    fits = pod_requests(pod.get("spec") or {}).get("cpu", 0) <= known.largest_zone_milli
    return "required" if policy == "SingleNUMANode" or (policy == "Restricted" and fits) else "preferred"


def resource_status(pod: Object, node: NodeCpus, names: Sequence[str]) -> str:
    """Return the value of the annotation `resource-status` for a pod that gets these devices: its cpus and its zone;
    empty: it needs no annotation."""
    asks, found = pod_requests(pod.get("spec") or {}), dict[str, Any]()
    if cores := node.given(names):
        found["cpuset"] = listed(_cpus_of(cores, asks.get("cpu", 0) // _MILLI, _policy(_annotation(pod, SPEC))[0]))
    zone = next((name.removeprefix(ZONE) for name in names if name.startswith(ZONE)), "")
    if zone.isdecimal() and _annotation(pod, NUMA).get("numaTopologyPolicy"):
        parts = {name: quantity(name, asks[name]) for name in ("cpu", "memory") if asks.get(name)}
        found["numaNodeResources"] = [{"node": int(zone), "resources": parts}]
    return msgspec.json.encode(found).decode() if found else ""


def given_cores(pod: Object, node: NodeCpus) -> tuple[str, ...]:
    """Return the device names of the cores whose cpus a pod on the node has, whichever scheduler allocated them."""
    cpus = _own(pod)
    return tuple(core.name for core in node.cores if not cpus.isdisjoint(core.cpus))


def is_bound(pod: Object) -> bool:
    """Return whether the pod gets cpus for itself. Without a priority class it counts as koord-prod."""
    labels = pod["metadata"].get("labels") or _NOTHING
    if labels.get(kinds.QOS) not in _BOUND:
        return False
    said, priority = labels.get(kinds.PRIORITY_CLASS), (pod.get("spec") or {}).get("priority")
    if said:
        return bool(said == "koord-prod")
    others = (kinds.BANDS[band] for band in ("mid", "batch", "free"))
    return not any(low <= priority <= high for low, high in others) if isinstance(priority, int) else True


def cpus_in(text: Any) -> frozenset[int]:
    """Parse a cpu list in the kernel's format (cpuset(7), list format); an invalid text gives no cpus."""
    ranges = [_RANGE.fullmatch(part.strip()) for part in str(text or "").split(",")]
    bounds = ((int(found[1]), int(found[2] or found[1])) for found in ranges if found)
    return frozenset(cpu for low, high in bounds for cpu in range(low, min(high, _MOST_CPUS) + 1))


def listed(cpus: Iterable[int]) -> str:
    """Return the cpus as a list in the kernel's format."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


# --- inside -----------------------------------------------------------------------------------------------------------


def _held(pod: Object, node: NodeCpus) -> int:
    """Return the number of cores that a pod on the node holds."""
    cpus = _own(pod)
    return sum(core.cpus[0] in cpus for core in node.cores)


def _own(pod: Object) -> frozenset[int]:
    """Return the cpus in the pod's annotation. Return none if they are more than the pod requests, because no scheduler
    allocates that many."""
    cpus = cpus_in(_annotation(pod, STATUS).get("cpuset"))
    asked = pod_requests(pod.get("spec") or {}).get("cpu", 0) if cpus else 0
    return cpus if len(cpus) * _MILLI <= asked else frozenset()


@lru_cache(maxsize=1 << 12)  # a change of one NodeResourceTopology parses all of them again
def _described(topology: str, allocated: str, reserved: str, kubelet: str) -> NodeCpus:
    """Return the cores that pods may get, and for each zone its cpus, except reserved ones."""
    try:
        detail = msgspec.json.decode(topology, type=_Topology).detail[:_MOST_CPUS] if topology else []
    except (msgspec.MsgspecError, RecursionError):
        detail = []
    kept = cpus_in(_mapping(read_json(reserved)).get("reservedCPUs"))
    kept |= cpus_in(_mapping(read_json(kubelet)).get("reservedCPUs"))
    pods = read_json(allocated)
    of_kubelet = (_mapping(one) for one in (pods if isinstance(pods, list) else ()))
    taken = kept.union(*(cpus_in(one.get("cpuset")) for one in of_kubelet if one.get("managedByKubelet")))
    found: dict[tuple[int, int, int], list[int]] = {}
    for cpu in detail:
        found.setdefault((cpu.node, cpu.socket, cpu.core), []).append(cpu.id)
    cores = [
        Core(f"core/{min(cpus)}", str(node), tuple(sorted(cpus)))
        for (node, _, _), cpus in found.items()
        if taken.isdisjoint(cpus)
    ]
    counts = Counter(str(cpu.node) for cpu in detail if cpu.id not in kept)
    return NodeCpus(
        cores=tuple(sorted(cores, key=lambda core: core.cpus)),
        zones=tuple(Zone(name=zone, allocatable=(("cpu", counts[zone] * _MILLI),)) for zone in sorted(counts)),
        threads=frozenset(len(core.cpus) for core in cores),
    )


def _memory(zone: Any) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the name of a zone that is a NUMA node (`node-0`), and its memory."""
    said = _mapping(zone)
    name = _ZONE_NAME.fullmatch(str(said.get("name")))
    if said.get("type") != "Node" or name is None:
        return
    listed_resources = (_mapping(each) for each in said.get("resources") or ())
    memory = {each["name"]: each.get("allocatable") for each in listed_resources if each.get("name") == "memory"}
    yield name[1], amounts(memory)


def _policy(spec: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the policy for choosing cpus, and whether it is required. The default is Koordinator's."""
    required, preferred = spec.get("requiredCPUBindPolicy"), spec.get("preferredCPUBindPolicy")
    said = str(required or preferred or "Default")
    return (_FULL if said == "Default" else said), bool(required)


def _cpus_of(cores: Sequence[Core], cpus: int, policy: str) -> list[int]:
    """Return `cpus` cpus of these cores: one thread of each core (`SpreadByPCPUs`), or all threads core by core."""
    if policy == _SPREAD and len(cores) >= cpus:
        return [core.cpus[0] for core in cores[:cpus]]
    return [cpu for core in cores for cpu in core.cpus][:cpus]


def _annotation(pod: Object, word: str) -> Mapping[str, Any]:
    return _mapping(read_json((pod["metadata"].get("annotations") or _NOTHING).get(word)))


def _mapping(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else _NOTHING
