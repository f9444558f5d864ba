"""Read Koordinator's groups of gangs and its devices, and collect the results of reading all of Koordinator's objects.

*Groups of gangs.* The gangs of a group start together. An annotation on PodGroups, or on pods without a PodGroup, lists
the gangs of the group. In Phalanx a group is one gang that has a role for each of Koordinator's gangs. Either all these
roles reach their minimum, or no pod of the group starts. All gangs of a group must be in one namespace, so that a user
cannot add gangs to a group of another namespace.

*Devices.* A Device object has the name of its node, and lists GPUs, RDMA cards and FPGAs by their minor numbers. The
healthy devices become devices of the node in Phalanx, each in its NUMA zone. If the node itself lists devices
(`phalanx.dev/devices`), these are used instead. The resource of GPUs is `nvidia.com/gpu`, or the resource of their
vendor's device plugin. A pod requests hundredths of a device: an amount below 100 is a part of one device, and 200 are
two whole devices. The request `gpu.shared` is the number of GPUs over which the pod's other GPU requests are spread.
When the scheduler binds a pod, it writes the pod's devices into an annotation that Koordinator's agent on the node
reads.

*All definitions.* `define` returns the tree of quotas, the Reservations that have not ended, and the devices and cpus
of nodes.

Source: pkg/scheduler/plugins/deviceshare and apis/extension/device_share.go of v1.8.0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

import msgspec

from phalanx.client.quantity import QuantityError, whole
from phalanx.dialects.frame.dialect import DeviceAsk, Object, Objects, PartUse, StandIn
from phalanx.dialects.frame.pod_requests import Asked, pod_requests, quantity
from phalanx.dialects.kube_scheduler.koordinator import kinds, quota_tree, reservation
from phalanx.dialects.kube_scheduler.koordinator.definitions import cpus
from phalanx.dialects.kube_scheduler.koordinator.definitions.cpus import ClusterCpus
from phalanx.dialects.kube_scheduler.koordinator.quota_tree import ElasticQuotaDefinitions, read_json
from phalanx.dialects.kube_scheduler.koordinator.reservation import ReservationSpec, read_reservation
from phalanx.model.node import Device, Zone
from phalanx.model.pod import MAX_DEVICES, DeviceShare, amounts

JOB, ROLE = "phalanx.dev/job", "phalanx.dev/role"
# Prefixes of gang names. No Job and no pod can have a name with such a prefix.
MARK, ALONE, TOGETHER = f"{kinds.SIGS}:", "koordinator:", "koordinator-group:"
_MOST_GANGS: Final = 64  # the maximum number of gangs in one group
_NOTHING: Mapping[str, Any] = {}


def together(text: object, namespace: str, name: str) -> tuple[str, ...]:
    """Return the names of all gangs in the group of the gang `name`, including that gang; empty if the gang is in no
    group. `text`: the annotation that lists the gangs of the group."""
    try:
        named = msgspec.json.decode(str(text), type=list[str]) if text else []
    except (msgspec.MsgspecError, RecursionError):
        return ()
    own = f"{namespace}/"
    found = sorted({one.removeprefix(own) for one in named if one.startswith(own) and "," not in one})
    return tuple(found) if name in found and 1 < len(found) <= _MOST_GANGS else ()


def of_pod_group(group: Object) -> tuple[str, ...]:
    """Return the names of all PodGroups in the same group as this PodGroup, including this PodGroup; empty if it is in
    no group."""
    meta = group.get("metadata") or _NOTHING
    text = (meta.get("annotations") or _NOTHING).get(kinds.GANG_GROUPS)
    return together(text, str(meta.get("namespace")), str(meta.get("name"))) if text else ()


def grouped(pod_groups: Mapping[str, Object]) -> dict[str, tuple[str, ...]]:
    """Return a mapping from the key (`namespace/name`) of each PodGroup that is in a group to the names of all
    PodGroups in that group."""
    return {key: others for key, group in pod_groups.items() if (others := of_pod_group(group))}


def options_of(name: str, others: tuple[str, ...]) -> Mapping[str, str]:
    """Return the Phalanx options that the pods of a PodGroup get if the PodGroup is in a group. `name`: the PodGroup.
    `others`: the names of all PodGroups in the group."""
    return {JOB: _joined(others), ROLE: name}


def gang_of(group: Object) -> str:
    """Return the id of the Phalanx gang to which the pods of this PodGroup belong."""
    meta, others = group.get("metadata") or _NOTHING, of_pod_group(group)
    return f"{meta.get('namespace')}/{_joined(others) if others else MARK + str(meta.get('name'))}"


def _joined(others: tuple[str, ...]) -> str:
    return TOGETHER + ",".join(MARK + other for other in others)


# --- devices ----------------------------------------------------------------------------------------------------------

_K = "koordinator.sh/"
GPU, CORE, RATIO, MEMORY, SHARED = (
    f"{_K}{word}" for word in ("gpu", "gpu-core", "gpu-memory-ratio", "gpu-memory", "gpu.shared")
)
_GPU_WORDS = frozenset({GPU, CORE, RATIO, MEMORY, SHARED})
_COUNTED = {"rdma": f"{_K}rdma", "fpga": f"{_K}fpga"}  # type of a device -> the resource by which pods request it
_ALL = 1000  # a whole device, in thousandths
_VENDOR = "node.koordinator.sh/gpu-vendor"
_GPUS, _OF_VENDORS = "nvidia.com/gpu", {"amd": "amd.com/gpu", "hygon": "dcu.com/gpu"}
_COUNTED_WHOLE = (_GPUS, *_OF_VENDORS.values())
# The valid sets of GPU resources in one pod. With each set except the first, a pod may also request `SHARED`.
_VALID = ({GPU}, {MEMORY}, {RATIO}, {CORE, MEMORY}, {CORE, RATIO})


def read_devices(obj: Object) -> tuple[Device, ...]:
    """Return the healthy devices in a Device object."""
    vendor = str((obj["metadata"].get("labels") or _NOTHING).get(_VENDOR, ""))
    listed = (obj.get("spec") or _NOTHING).get("devices") or ()
    found = (_device(one, _OF_VENDORS.get(vendor, _GPUS)) for one in listed if one.get("health"))
    return tuple(one for one in found if one is not None)


def device_ask(pod: Object) -> DeviceAsk | None:
    """Return the devices that a pod requests by Koordinator's resources; None if the pod requests no such resource."""
    asks = pod_requests(pod.get("spec") or {})
    words = {name: amount for name, amount in asks.items() if name in _GPU_WORDS and amount}
    cards = {name: asks[name] for name in _COUNTED.values() if asks.get(name)}
    if not words and not cards:
        return None
    instead, gpus = frozenset({*words, *cards}), _gpus(words) if words else None
    if isinstance(gpus, str):
        return DeviceAsk(instead=instead, wrong=gpus)
    entire, shares = dict[str, int](), [gpus] if gpus is not None and gpus.milli != _ALL else []
    if gpus is not None and not shares:
        entire[_GPUS] = gpus.count
    for name, percent in cards.items():
        if percent % 100 and percent > 100:
            return DeviceAsk(instead=instead, wrong=f"invalid resource unit {name}: {percent}")
        if percent % 100:
            shares.append(DeviceShare(resource=name, milli=percent * 10))
        else:
            entire[name] = percent // 100
    if len(shares) > 1:
        parts = ", ".join(one.resource for one in shares)
        return DeviceAsk(
            instead=instead, wrong=f"it requests parts of several kinds of devices ({parts}): request whole devices"
        )
    return DeviceAsk(instead=instead, whole=amounts(entire), share=shares[0] if shares else None)


def allocated(pod: Object, node: Iterable[Object], names: Iterable[str]) -> str:
    """Return the value of the annotation `device-allocated` for a pod that gets the devices `names`; empty if no Device
    object lists any of these devices. `node`: the devices of the node, as its Device object lists them."""
    given, asks = frozenset(names), pod_requests(pod.get("spec") or {})
    found: dict[str, list[Object]] = {}
    for one in node:
        if name_of(one) in given:
            entry = {"minor": one.get("minor", 0), "resources": _share_of(one, asks)}
            entry |= {"id": one["id"]} if one.get("id") else {}
            found.setdefault(str(one.get("type")), []).append(entry)
    return msgspec.json.encode(found).decode() if found else ""


def given_devices(pod: Object) -> tuple[str, ...]:
    """Return the names of the devices in the annotation `device-allocated` of a pod, whichever scheduler wrote the
    annotation. If it lists more devices than the pod requests, it is ignored."""
    said = read_json((pod["metadata"].get("annotations") or _NOTHING).get(kinds.DEVICES_ALLOCATED))
    listed = {kind: each for kind, each in said.items() if isinstance(each, list)} if isinstance(said, Mapping) else {}
    found = tuple(
        name_of({**one, "type": kind}) for kind, each in listed.items() for one in each if isinstance(one, Mapping)
    )
    asks = pod_requests(pod.get("spec") or {})
    asked = device_ask(pod) or DeviceAsk(instead=frozenset())
    shares = asked.share.count if asked.share is not None else 0
    most = shares + sum(amount for _, amount in asked.whole) + sum(asks.get(name, 0) for name in _COUNTED_WHOLE)
    return found if len(found) <= most else ()


def name_of(device: Object) -> str:
    """Return a name for a device of a Device object. The name is unique on the node."""
    kind, minor = str(device.get("type")), device.get("minor", 0)
    return str(minor) if kind == "gpu" else f"{kind}-{minor}"


def _device(listed: Object, gpus: str) -> Device | None:
    kind, zone = str(listed.get("type")), (listed.get("topology") or _NOTHING).get("nodeID", -1)
    resource = gpus if kind == "gpu" else _COUNTED.get(kind)
    if resource is None:
        return None
    size = _bytes((listed.get("resources") or _NOTHING).get(MEMORY, 0))
    zone_name = str(zone) if isinstance(zone, int) and zone >= 0 else ""
    return Device(name=name_of(listed), resource=resource, memory_bytes=size, zone=zone_name)


def _gpus(words: Asked) -> DeviceShare | str:
    """Return the number of GPUs that a pod requests and the share of each GPU; or an error message if the request is
    invalid. The share is in thousandths of a GPU or in bytes of its memory. `words`: the requested amounts of
    Koordinator's GPU resources."""
    named, count = set(words) - {SHARED}, words.get(SHARED, 1)
    if named not in _VALID or (SHARED in words and named == {GPU}):
        return f"invalid resource device requests: [{' '.join(sorted(words))}]"
    percent = max(words.get(name, 0) for name in (GPU, CORE, RATIO))
    if count > MAX_DEVICES or any(words.get(name, 0) % count for name in (CORE, RATIO)) or percent > 100 * MAX_DEVICES:
        return f"invalid resource device requests: [{' '.join(sorted(words))}]"
    if MEMORY in words:
        return DeviceShare(resource=_GPUS, memory_bytes=words[MEMORY] // count, count=count)
    percent //= count
    if percent > 100 and (percent % 100 or SHARED in words):
        return f"invalid resource unit: {percent} hundredths of a GPU"
    if percent >= 100:
        return DeviceShare(resource=_GPUS, milli=_ALL, count=count * percent // 100)
    return DeviceShare(resource=_GPUS, milli=percent * 10, count=count)


def _share_of(device: Object, asks: Asked) -> dict[str, str]:
    """Return the amounts of one device that a pod with the requests `asks` gets, by Koordinator's resources. `device`:
    the device as its Device object lists it."""
    kind = str(device.get("type"))
    if kind != "gpu":
        name = _COUNTED.get(kind, kind)
        return {name: str(min(100, asks.get(name, 100)))}
    size, count = _bytes((device.get("resources") or _NOTHING).get(MEMORY, 0)), asks.get(SHARED, 1)
    words = {name: asks[name] // count for name in (CORE, RATIO, MEMORY) if asks.get(name)}
    if not words:
        words = dict.fromkeys((CORE, RATIO), asks.get(GPU, 100))
    words = {name: amount if name == MEMORY else min(100, amount) for name, amount in words.items()}
    if MEMORY not in words:
        words[MEMORY] = size * words[RATIO] // 100
    elif size:
        words[RATIO] = words[MEMORY] * 100 // size
    return {name: quantity("memory" if name == MEMORY else name, amount) for name, amount in sorted(words.items())}


def _bytes(text: object) -> int:
    try:
        return max(0, whole(text))
    except (QuantityError, TypeError):
        return 0


# --- all definitions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KoordinatorDefinitions(ElasticQuotaDefinitions):
    """The definitions from all of Koordinator's objects. `reservations`: the Reservations, by name, that wait for
    capacity or reserve capacity on a node. `devices`: the healthy devices of each node. `listed`: all devices of each
    node, as its Device object lists them. `cpus`: the cores and zones of nodes. `groups`: key of a PodGroup -> the
    names of the PodGroups that start together with it."""

    reservations: Mapping[str, ReservationSpec] = field(default_factory=dict)
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    listed: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    cpus: ClusterCpus = field(default_factory=ClusterCpus)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def about_pods(self) -> bool:
        return True

    def topology_key(self) -> Hashable:
        return tuple(sorted(self.devices.items())), tuple(sorted(self.cpus.nodes.items(), key=itemgetter(0)))

    def node_zones(self, node: str) -> tuple[Zone, ...]:
        return self.cpus.of(node).zones

    def node_devices(self, node: str) -> tuple[Device, ...]:
        return (*self.devices.get(node, ()), *self.cpus.of(node).devices())

    def device_ask(self, pod: Object) -> DeviceAsk | None:
        asked = device_ask(pod) if self.devices else None
        if not self.cpus.nodes or not cpus.concerns(pod) or self.part_use(pod) is not None:
            return asked  # a Reservation reserves amounts of resources, and no cores or zones
        return cpus.with_cpus(pod, asked, self.cpus)

    def devices_given(self, pod: Object) -> tuple[str, ...]:
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        given = given_devices(pod) if node in self.devices else ()
        return (*given, *cpus.given_cores(pod, self.cpus.of(node)))

    def options_key(self) -> Hashable:
        return tuple(sorted(self.groups.items()))

    def pod_options(self, pod: Object) -> Mapping[str, str]:
        if not self.groups:
            return {}
        meta = pod["metadata"]
        name = str((meta.get("labels") or {}).get(kinds.GROUP_LABEL, ""))
        others = self.groups.get(f"{meta.get('namespace')}/{name}")
        return options_of(name, others) if others else {}

    def part_use(self, pod: Object) -> PartUse | None:
        if not self.parts and kinds.AFFINITY not in (pod["metadata"].get("annotations") or ()):
            return None
        if not kinds.is_theirs(pod["metadata"], str((pod.get("spec") or {}).get("schedulerName") or "")):
            return None
        return reservation.part_use(pod, [one for one in self.reservations.values() if one.keeps and not one.closed])

    def placed(self, stand_in: StandIn, node: str, now: str) -> Object:
        return reservation.available(self.reservations[stand_in.key], node, now)

    def at_binding(self, pod: Object, node: str, part: str, devices: tuple[str, ...]) -> Mapping[str, str]:
        found = dict[str, str]()
        kept = next((one for one in self.reservations.values() if one.part == part), None)
        if kept is not None:
            found[kinds.ALLOCATED] = msgspec.json.encode({"name": kept.name, "uid": kept.uid}).decode()
        if devices and (text := allocated(pod, self.listed.get(node, ()), devices)):
            found[kinds.DEVICES_ALLOCATED] = text
        if devices and (text := cpus.resource_status(pod, self.cpus.of(node), devices)):
            found[cpus.STATUS] = text
        return found


def define(objects: Objects) -> KoordinatorDefinitions:
    """Return the definitions from all of Koordinator's objects. `objects`: the objects of the cluster, by kind and
    key."""
    quotas = quota_tree.define(objects)
    existing = objects.get(kinds.RESERVATIONS, {})
    read = {name: read_reservation(existing[name]) for name in sorted(existing)}
    return KoordinatorDefinitions(
        queues=quotas.queues,
        quotas=quotas.quotas,
        by_namespace=quotas.by_namespace,
        parts=tuple(reservation.part(one) for one in read.values() if one.keeps),
        stand_ins=tuple(reservation.stand_in(existing[name], one) for name, one in read.items() if one.waits),
        devices={node: read_devices(obj) for node, obj in objects.get(kinds.DEVICES, {}).items()},
        cpus=cpus.read_all(objects.get(kinds.NODE_TOPOLOGIES, {})),
        listed={node: _listed(obj) for node, obj in objects.get(kinds.DEVICES, {}).items()},
        groups=grouped(objects.get(kinds.POD_GROUPS, {})),
        reservations={name: one for name, one in read.items() if one.waits or one.keeps},
    )


def _listed(obj: Object) -> tuple[Object, ...]:
    return tuple((obj.get("spec") or {}).get("devices") or ())
