"""Decide whether a pod fits on this node, and choose its devices and exclusive CPUs.

The decision depends on the pod, the Node object, and the resources that the pods on this node hold. `allocate` has no
side effects: the caller stores the allocation in the record of the pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.client.connection import Object
from phalanx.client.quantity import QuantityError, amount
from phalanx.embedded.node.machine.cpus import allot_cpus
from phalanx.embedded.node.machine.devices.pool import DevicePool
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.admission import GPU, Amounts, Rejection, admit, demand
from phalanx.embedded.node.pod.allotment import allot_devices, allot_named, sharing_container, told_devices
from phalanx.embedded.node.pod.record import PodRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAllocation:
    """The devices and CPUs of a pod, by the name of the container. `devices`: GPUs. `named`: the other devices, by
    resource name. `cpus`: exclusive CPUs."""

    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldResources:
    """The specs and the records of the pods whose requests count against the node's resources."""

    specs: Sequence[Object] = ()
    records: Sequence[PodRecord] = ()

    def amounts(self) -> Amounts:
        """Return the sum of the requests."""
        total: Amounts = {}
        for spec in self.specs:
            for name, value in demand(spec).items():
                total[name] = total.get(name, 0) + value
        return total

    def cpus(self) -> set[int]:
        """Return the CPUs that are assigned exclusively to a container."""
        return {cpu for record in self.records for cpus in record.cpus.values() for cpu in cpus}

    def addresses(self) -> list[str]:
        return [record.pod_ip for record in self.records]

    def free_devices(self, pool: DevicePool) -> dict[str, Sequence[str]]:
        """Return resource -> the ids of its free devices, which are healthy and allocated to no pod."""
        used: dict[str, list[str]] = {resource: [] for resource in pool.resources}
        for record in self.records:
            for devices in record.named.values():
                for resource, ids in devices.items():
                    used.setdefault(resource, []).extend(ids)
        return {resource: pool.free(resource, used[resource]) for resource in pool.resources}


def allocate(
    pod: Object, node: Object, held: HeldResources, around: Surroundings, cpus: Sequence[tuple[int, ...]]
) -> PodAllocation | Rejection:
    """Return the allocation of the pod, or the reason why the node rejects the pod. `node`: the Node object.
    `cpus`: the machine's CPUs by NUMA node."""
    allocatable = {name: amount(name, text) for name, text in around.allocatable.items()}
    try:
        if rejection := admit(pod, node, allocatable, held.amounts()):
            return rejection
    except QuantityError as error:
        return _unexpected(str(error))
    ids = around.device_ids()
    devices = allot_devices(pod["spec"], ids, held.records, told_devices(pod, ids), sharing_container(pod))
    if devices is None:
        return _unexpected(_too_few_devices(GPU))
    try:
        named = allot_named(pod["spec"], held.free_devices(around.devices))
    except LookupError as error:
        resource, asked, free = error.args
        return _unexpected(_too_few_devices(f"{resource}. Requested: {asked}, Available: {free}"))
    try:
        exclusive = allot_cpus(pod["spec"], cpus, held.cpus()) if around.settings.static_cpus else {}
    except LookupError as error:
        asked, free = error.args
        return _unexpected(f"not enough cpus available to satisfy request: requested={asked}, available={free}")
    return PodAllocation(devices=devices, named=named, cpus=exclusive)


def _too_few_devices(which: str) -> str:
    return f"Allocate failed due to requested number of devices unavailable for {which}, which is unexpected"


def _unexpected(text: str) -> Rejection:
    return Rejection(reason="UnexpectedAdmissionError", message=text)
