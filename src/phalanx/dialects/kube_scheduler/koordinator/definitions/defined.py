"""All definitions of Koordinator: the tree of quotas, Reservations that have not ended, devices and cpus of nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

import msgspec

from phalanx.dialects.frame.dialect import DeviceAsk, Object, Objects, PartUse, StandIn
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.definitions import cpus, groups
from phalanx.dialects.kube_scheduler.koordinator.definitions.cpus import ClusterCpus
from phalanx.dialects.kube_scheduler.koordinator.definitions.devices import (
    allocated,
    device_ask,
    given_devices,
    read_devices,
)
from phalanx.dialects.kube_scheduler.koordinator.quota import tree
from phalanx.dialects.kube_scheduler.koordinator.quota.tree import ElasticQuotaDefinitions
from phalanx.dialects.kube_scheduler.koordinator.reservation import room, spec
from phalanx.dialects.kube_scheduler.koordinator.reservation.spec import ReservationSpec, read_reservation
from phalanx.model.node import Device, Zone


@dataclass(frozen=True, slots=True, kw_only=True)
class KoordinatorDefinitions(ElasticQuotaDefinitions):
    """The definitions of Koordinator. `reservations`: name -> Reservation that waits for capacity, or keeps capacity on
    a node. `devices`: node -> its healthy devices. `listed`: node -> all devices as its Device object lists them.
    `cpus`: the cores and zones of nodes. `groups`: key of a PodGroup -> the PodGroups that start together with it."""

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
            return asked  # a Reservation keeps amounts only, without cores and zones
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
        return groups.options_of(name, others) if others else {}

    def part_use(self, pod: Object) -> PartUse | None:
        if not self.parts and kinds.AFFINITY not in (pod["metadata"].get("annotations") or ()):
            return None
        if not kinds.is_theirs(pod["metadata"], str((pod.get("spec") or {}).get("schedulerName") or "")):
            return None
        return spec.part_use(pod, [one for one in self.reservations.values() if one.keeps and not one.closed])

    def placed(self, stand_in: StandIn, node: str, now: str) -> Object:
        return room.available(self.reservations[stand_in.key], node, now)

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
    """Return all definitions in these objects."""
    quotas = tree.define(objects)
    there = objects.get(kinds.RESERVATIONS, {})
    read = {name: read_reservation(there[name]) for name in sorted(there)}
    return KoordinatorDefinitions(
        queues=quotas.queues,
        quotas=quotas.quotas,
        by_namespace=quotas.by_namespace,
        parts=tuple(room.part(one) for one in read.values() if one.keeps),
        stand_ins=tuple(room.stand_in(there[name], one) for name, one in read.items() if one.waits),
        devices={node: read_devices(obj) for node, obj in objects.get(kinds.DEVICES, {}).items()},
        cpus=cpus.read_all(objects.get(kinds.NODE_TOPOLOGIES, {})),
        listed={node: _listed(obj) for node, obj in objects.get(kinds.DEVICES, {}).items()},
        groups=groups.grouped(objects.get(kinds.POD_GROUPS, {})),
        reservations={name: one for name, one in read.items() if one.waits or one.keeps},
    )


def _listed(obj: Object) -> tuple[Object, ...]:
    return tuple((obj.get("spec") or {}).get("devices") or ())
