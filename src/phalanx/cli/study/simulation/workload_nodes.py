"""Read the cluster that a workload file describes: its nodes, its topologies and its reservations.

The topologies are parsed by the code for policies, and the reservations by the code for Reservation objects, with two
differences: times count from the beginning of the workload, and a reservation may name an entry of `nodes` instead of
all nodes of this entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from phalanx.dialects.schema.fields import Fields, Misread, duration_s
from phalanx.dialects.schema.policy import read_reservation, read_topologies
from phalanx.model.node import Device, Node, Reservation, Taint, Topology, Zone
from phalanx.model.pod import PODS, amounts
from phalanx.simulator.workload import GPU

MOST_NODES, MOST_DEVICES = 1_000_000, 1024
DEFAULT_PODS = 110  # the kubelet's default for the number of pods on a node
HOSTNAME = "kubernetes.io/hostname"  # the label that every kubelet sets on its node


class Effect(StrEnum):
    """The effect of a taint (k8s.io/api/core/v1)."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSite:
    nodes: tuple[Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    reservations: tuple[Reservation, ...] = ()


def read_site(said: Fields) -> WorkloadSite:
    """Return the cluster that the fields `nodes`, `topologies` and `reservations` describe. Raises Misread."""
    members: dict[str, list[str]] = {}  # name of an entry -> the names of its nodes
    nodes = list[Node]()
    for entry in said.each("nodes"):
        group = list(_nodes(entry))
        members.setdefault(entry.text("name", "node"), []).extend(node.name for node in group)
        nodes += group
    _require_one_each("nodes", (node.name for node in nodes))
    reservations = tuple(_reservation(entry, members) for entry in said.each("reservations"))
    _require_one_each("reservations", (each.name for each in reservations))
    return WorkloadSite(nodes=tuple(nodes), topologies=read_topologies(said), reservations=reservations)


def _require_one_each(kind: str, names: Iterable[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise Misread((kind,), f"there are two {kind} with the name {twice[0]!r}")


def _nodes(said: Fields) -> Iterator[Node]:
    name, count = said.text("name", "node"), said.whole_or_none("count", least=1, most=MOST_NODES)
    room = {PODS: DEFAULT_PODS, **dict(said.amounts("allocatable"))}
    devices = _devices(said, room)
    like = Node(
        name=name,
        allocatable=amounts(room),
        labels=said.pairs("labels"),
        taints=tuple(_taint(entry) for entry in said.each("taints")),
        devices=devices,
        zones=tuple(_zone(entry) for entry in said.each("zones")),
    )
    said.done()
    width = len(str((count or 1) - 1))
    names = [name] if count is None else [f"{name}-{index:0{width}}" for index in range(count)]
    for each in names:
        yield replace(like, name=each, labels=tuple(sorted({HOSTNAME: each, **dict(like.labels)}.items())))


def _taint(said: Fields) -> Taint:
    found = Taint(said.name("key"), said.text("value"), said.choice("effect", Effect.NO_SCHEDULE).value)
    said.done()
    return found


def _devices(said: Fields, room: dict[str, int]) -> tuple[Device, ...]:
    """Return the devices of a node. `room`: the allocatable amounts of the node. If the file lists devices of a
    resource, their number must equal the node's amount of this resource. If the node states no amount, their number is
    added to `room`. If no GPU is listed, each of the node's GPUs becomes a device."""
    listed = [device for entry in said.each("devices") for device in _alike(entry)]
    for resource, count in Counter(device.resource for device in listed).items():
        if room.setdefault(resource, count) != count:
            text = f"{count} devices of {resource} are listed, but allocatable has {room[resource]}"
            raise Misread((*said.path, "devices"), text)
    if twice := [name for name, count in Counter(device.name for device in listed).items() if count > 1]:
        raise Misread((*said.path, "devices"), f"there are two devices {twice[0]!r}")
    if any(device.resource == GPU for device in listed):
        return tuple(listed)
    gpus = min(room.get(GPU, 0), MOST_DEVICES)
    return (*listed, *(Device(name=f"gpu-{index}", resource=GPU) for index in range(gpus)))


def _alike(said: Fields) -> Iterator[Device]:
    name, count = said.name("name"), said.whole_or_none("count", least=1, most=MOST_DEVICES)
    like = Device(
        name=name,
        resource=said.text("resource", GPU),
        memory_bytes=said.amount("memory", "memory"),
        zone=said.text("zone"),
    )
    said.done()
    for index in range(count or 1):
        yield like if count is None else replace(like, name=f"{name}-{index}")


def _zone(said: Fields) -> Zone:
    found = Zone(name=said.name("name"), allocatable=amounts(dict(said.amounts("allocatable"))))
    said.done()
    return found


def _reservation(said: Fields, members: Mapping[str, list[str]]) -> Reservation:
    """Return the reservation, with entries of `nodes` replaced by their nodes. `members`: name of an entry -> its
    nodes. If the file describes no nodes, the reservation names nodes of another file, so the names are not checked."""
    name = said.name("name")
    spec = {key: value for key, value in said.values.items() if key != "name"}
    try:
        found = read_reservation(name, spec, moment=duration_s)
    except Misread as misread:
        raise Misread((*said.path, *misread.path[1:]), misread.text) from None
    known = {node for group in members.values() for node in group}
    for at, node in enumerate(found.nodes):
        if known and node not in known and node not in members:
            raise Misread((*said.path, "nodes", at), f"there is no node {node!r}, and no entry of nodes with this name")
    named = (each for node in found.nodes for each in ((node,) if node in known else members.get(node, (node,))))
    return replace(found, nodes=tuple(dict.fromkeys(named)))
