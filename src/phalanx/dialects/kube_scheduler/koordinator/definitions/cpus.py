"""Read the cores and NUMA zones of nodes as Koordinator describes them, and choose the cores that a pod gets
exclusively. A *cpu* is a logical CPU, which is one thread of a core.

koordlet, Koordinator's agent on each node, describes the node's cpus in annotations of a NodeResourceTopology with the
name of the node. A pod with the qosClass LSE or LSR and a priority of koord-prod gets exclusive cpus. Phalanx allocates
them in whole cores: each core is a device of the node with a NUMA zone, and the number of cores is rounded up. So no
two pods share a core. When the scheduler binds the pod, it writes the chosen cpus into an annotation that koordlet
reads. A core is not allocated if the kubelet allocates or reserves one of its cpus.

Nodes may differ in the number of threads per core, but a pod has the same request on all nodes. So Phalanx computes the
number of cores for the nodes with the fewest threads per core, which need the most cores. If a pod on a node has an
annotation with cpus, these cpus count as used by the pod, even if another scheduler wrote the annotation. Another
scheduler may have given the threads of one core to several pods; then the core is charged to the pod with the core's
first thread.

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
# The annotations that Phalanx reads on a NodeResourceTopology, in this order: the cpus of the node, the cpus that the
# kubelet has allocated to pods, the cpus that the node reserves, and the cpus that the kubelet reserves.
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
_MOST_CPUS: Final = 1 << 13  # the maximum number of cpus in Linux (CONFIG_NR_CPUS)
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_ZONE_NAME = re.compile(r"\D*(\d{1,4})")
_NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Core:
    """A core of a node. `name`: the name of the device that represents the core. `zone`: the number of its NUMA node,
    as text. `cpus`: the numbers of its threads."""

    name: str
    zone: str
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The cores and NUMA zones of a node. `cores`: the cores that pods may get. `threads`: the different
    numbers of threads per core on the node."""

    cores: tuple[Core, ...] = ()
    zones: tuple[Zone, ...] = ()
    threads: frozenset[int] = frozenset()

    def devices(self) -> tuple[Device, ...]:
        """Return the cores as devices of the node."""
        return tuple(Device(name=core.name, resource=CORES, zone=core.zone) for core in self.cores)

    def given(self, names: Iterable[str]) -> list[Core]:
        """Return the cores whose devices have these names, in the order of their cpu numbers."""
        known = frozenset(names)
        return [core for core in self.cores if core.name in known]


_NO_CPUS: Final = NodeCpus()


@dataclass(frozen=True, slots=True)
class ClusterCpus:
    """The cores and zones of all nodes that have a NodeResourceTopology with cpus. `nodes`: the cores and zones of each
    node, by the node's name. `threads`: each number of threads per core that occurs on any node. `most_cores`: the
    number of cores of the node with the most cores. `largest_zone_milli`: the cpu of the largest zone, in
    millicores."""

    nodes: Mapping[str, NodeCpus] = field(default_factory=dict)
    threads: frozenset[int] = frozenset()
    most_cores: int = 0
    largest_zone_milli: int = 0

    def of(self, node: str) -> NodeCpus:
        """Return the cores and zones of a node; empty if no NodeResourceTopology describes its cpus."""
        return self.nodes.get(node, _NO_CPUS)


class _Cpu(msgspec.Struct):
    id: int
    core: int = 0
    socket: int = 0
    node: int = 0


class _Topology(msgspec.Struct):
    detail: list[_Cpu] = []


def read_all(objects: Mapping[str, Object]) -> ClusterCpus:
    """Return the cores and zones of all nodes. `objects`: the NodeResourceTopologies by name."""
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
    """Return whether this module applies to the pod, because it gets exclusive cpus or has an annotation about cpus or
    NUMA zones."""
    notes = pod["metadata"].get("annotations") or _NOTHING
    return NUMA in notes or STATUS in notes or is_bound(pod)


def with_cpus(pod: Object, asked: DeviceAsk | None, known: ClusterCpus) -> DeviceAsk | None:
    """Return the device request of a pod with its exclusive cores and its NUMA alignment. `asked`: the pod's request
    for other devices. A pod that is already on a node requests the number of cores that it holds."""
    node = (pod.get("spec") or {}).get("nodeName")
    cores, wrong = cpu_ask(pod, known) if not node else (_held(pod, known.of(str(node))), "")
    aligned = alignment(pod, known)
    if cores and known.largest_zone_milli:  # the pod prefers a single zone, to which its cpu can then be charged
        aligned = aligned or "preferred"
    if not (cores or wrong or aligned):
        return asked
    found = asked or DeviceAsk(instead=frozenset())
    whole = tuple(sorted((*found.whole, (CORES, cores)))) if cores else found.whole
    return replace(found, whole=whole, wrong=found.wrong or wrong, aligned=aligned)


def cpu_ask(pod: Object, known: ClusterCpus) -> tuple[int, str]:
    """Return the number of exclusive cores that the pod needs, and the reason why it cannot get them. The reason is
    empty if the pod can get them."""
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
    """Return `required` if all resources of the pod must come from one NUMA zone, `preferred` if they should, and an
    empty text if the zone does not matter. The policy Restricted requires as few zones as possible. So it requires one
    zone, unless the pod requests more cpu than any zone has."""
    policy = _annotation(pod, NUMA).get("numaTopologyPolicy")
    if not known.largest_zone_milli or policy not in ("BestEffort", "Restricted", "SingleNUMANode"):
        return ""
    fits = pod_requests(pod.get("spec") or {}).get("cpu", 0) <= known.largest_zone_milli
    return "required" if policy == "SingleNUMANode" or (policy == "Restricted" and fits) else "preferred"


def resource_status(pod: Object, node: NodeCpus, names: Sequence[str]) -> str:
    """Return the value of the annotation `resource-status` for a pod that gets the devices `names` of a node. It
    contains the pod's cpus and its zone. It is empty if the pod needs no such annotation."""
    asks, found = pod_requests(pod.get("spec") or {}), dict[str, Any]()
    if cores := node.given(names):
        found["cpuset"] = listed(_cpus_of(cores, asks.get("cpu", 0) // _MILLI, _policy(_annotation(pod, SPEC))[0]))
    zone = next((name.removeprefix(ZONE) for name in names if name.startswith(ZONE)), "")
    if zone.isdecimal() and _annotation(pod, NUMA).get("numaTopologyPolicy"):
        parts = {name: quantity(name, asks[name]) for name in ("cpu", "memory") if asks.get(name)}
        found["numaNodeResources"] = [{"node": int(zone), "resources": parts}]
    return msgspec.json.encode(found).decode() if found else ""


def given_cores(pod: Object, node: NodeCpus) -> tuple[str, ...]:
    """Return the device names of the cores in the annotation of a pod on the node. Any scheduler may have written this
    annotation."""
    cpus = _own(pod)
    return tuple(core.name for core in node.cores if not cpus.isdisjoint(core.cpus))


def is_bound(pod: Object) -> bool:
    """Return whether the pod gets exclusive cpus. A pod that states no priority counts as koord-prod."""
    labels = pod["metadata"].get("labels") or _NOTHING
    if labels.get(kinds.QOS) not in _BOUND:
        return False
    said, priority = labels.get(kinds.PRIORITY_CLASS), (pod.get("spec") or {}).get("priority")
    if said:
        return bool(said == "koord-prod")
    others = (kinds.BANDS[band] for band in ("mid", "batch", "free"))
    return not any(low <= priority <= high for low, high in others) if isinstance(priority, int) else True


def cpus_in(text: object) -> frozenset[int]:
    """Return the cpus in a text in the kernel's list format (cpuset(7)), for example `0-3,8`. Invalid parts are
    ignored."""
    ranges = [_RANGE.fullmatch(part.strip()) for part in str(text or "").split(",")]
    bounds = ((int(found[1]), int(found[2] or found[1])) for found in ranges if found)
    return frozenset(cpu for low, high in bounds for cpu in range(low, min(high, _MOST_CPUS) + 1))


def listed(cpus: Iterable[int]) -> str:
    """Return the cpus as a text in the kernel's list format, for example `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


# --- internal ---------------------------------------------------------------------------------------------------------


def _held(pod: Object, node: NodeCpus) -> int:
    """Return the number of cores that are charged to a pod on the node."""
    cpus = _own(pod)
    return sum(core.cpus[0] in cpus for core in node.cores)


def _own(pod: Object) -> frozenset[int]:
    """Return the cpus in the pod's annotation. If the annotation has more cpus than the pod requests, return no cpus,
    because no scheduler writes such an annotation."""
    cpus = cpus_in(_annotation(pod, STATUS).get("cpuset"))
    asked = pod_requests(pod.get("spec") or {}).get("cpu", 0) if cpus else 0
    return cpus if len(cpus) * _MILLI <= asked else frozenset()


@lru_cache(maxsize=1 << 12)  # whenever one NodeResourceTopology changes, all of them are read again
def _described(topology: str, allocated: str, reserved: str, kubelet: str) -> NodeCpus:
    """Return the cores that pods may get, and the zones with their unreserved cpu. The parameters are the values of the
    annotations in `SAID`."""
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


def _memory(zone: object) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the number of a zone, as text, and its allocatable memory, if the zone is a NUMA node (`node-0`)."""
    said = _mapping(zone)
    name = _ZONE_NAME.fullmatch(str(said.get("name")))
    if said.get("type") != "Node" or name is None:
        return
    listed_resources = (_mapping(each) for each in said.get("resources") or ())
    memory = {each["name"]: each.get("allocatable") for each in listed_resources if each.get("name") == "memory"}
    yield name[1], amounts(memory)


def _policy(spec: Mapping[str, object]) -> tuple[str, bool]:
    """Return the policy for choosing cpus, and whether it is required. `spec`: the annotation `resource-spec`. Without
    a policy, Koordinator's default applies."""
    required, preferred = spec.get("requiredCPUBindPolicy"), spec.get("preferredCPUBindPolicy")
    said = str(required or preferred or "Default")
    return (_FULL if said == "Default" else said), bool(required)


def _cpus_of(cores: Sequence[Core], cpus: int, policy: str) -> list[int]:
    """Return the numbers of `cpus` cpus of these cores. The policy `SpreadByPCPUs` takes one thread of each core; any
    other policy takes all threads of the first core, then all of the next core, and so on."""
    if policy == _SPREAD and len(cores) >= cpus:
        return [core.cpus[0] for core in cores[:cpus]]
    return [cpu for core in cores for cpu in core.cpus][:cpus]


def _annotation(pod: Object, word: str) -> Mapping[str, object]:
    return _mapping(read_json((pod["metadata"].get("annotations") or _NOTHING).get(word)))


def _mapping(said: object) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else _NOTHING
