"""The part of the scenario language about named resources of nodes, and about pods' constraints on them and on each
other.

Options of a node:
    device:gpu0=nvidia.com/gpu/80Gi@z0 (a device with its resource, memory and NUMA zone)
    numa:z0=cpu:4,memory:8Gi (a NUMA zone and its amounts)   used:cpu=3 (the measured usage)
Options of a role:
    labels:app=web ns=team prefer:10:gen=In:3 port:80 port:53/UDP/10.0.0.1 aligned=required
    near:TOPOLOGY:SELECTOR away:TOPOLOGY:SELECTOR (a required affinity or anti-affinity)
        near:zone*50:… (a preferred affinity with weight 50) near:zone@a,b:… (an affinity to pods of these namespaces)
    spread:TOPOLOGY*SKEW:SELECTOR (a required spread)
        spread:zone*1?:… (a preferred spread) spread:zone*1/3:… (a spread over at least 3 domains)
    share:nvidia.com/gpu=500m (half of a device) share:nvidia.com/gpu=2x20Gi (20Gi on each of 2 devices)
    charged:credits=3 charged:cpu=1 (the amounts that queues are charged with, instead of the pod's requests)
A selector is `app=web`, or has the form that `require:` has; `any` selects all pods. A placement lists its devices in
brackets: worker/0@a[gpu0].
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from phalanx.client.quantity import amount
from phalanx.model.job import Placement, Slot
from phalanx.model.node import Device, Node, Zone
from phalanx.model.pod import (
    DeviceShare,
    HostPort,
    NodePreference,
    NodeTerm,
    Operator,
    PodAffinityTerm,
    Requirement,
    TopologySpread,
    amounts,
)
from phalanx.state.nodes.table import NodeTable

if TYPE_CHECKING:
    from .language import Words


def node(words: Words) -> dict[str, Any]:
    used = dict(word.split("=", 1) for word in words.all("used:"))
    return {
        "devices": tuple(device(word) for word in words.all("device:")),
        "zones": tuple(zone(word) for word in words.all("numa:")),
        "used": amounts({name: amount(name, value) for name, value in used.items()}),
        "part_of": words.option("part-of", ""),
    }


def device(word: str) -> Device:
    """Read a device: `gpu0=nvidia.com/gpu/80Gi@z0`. The memory and the zone may be missing."""
    name, _, rest = word.partition("=")
    rest, _, where = rest.partition("@")
    resource, _, memory = rest.rpartition("/")
    if not memory[:1].isdigit():
        resource, memory = rest, "0"
    return Device(name=name, resource=resource, memory_bytes=amount("memory", memory), zone=where)


def zone(word: str) -> Zone:
    name, _, rest = word.partition("=")
    parts = (part.split(":", 1) for part in rest.split(",") if part)
    return Zone(name=name, allocatable=amounts({key: amount(key, value) for key, value in parts}))


def shape(words: Words) -> dict[str, Any]:
    shares, charged = words.all("share:"), dict(word.split("=", 1) for word in words.all("charged:"))
    return {
        **others(words),
        "charged": amounts({name: amount(name, value) for name, value in charged.items()}) if charged else None,
        "preferences": tuple(preference(word) for word in words.all("prefer:")),
        "spread": tuple(spread(word) for word in words.all("spread:")),
        "share": share(shares[-1]) if shares else None,
        "aligned": words.option("aligned", ""),
    }


def others(words: Words) -> dict[str, Any]:
    return {
        "labels": tuple(sorted(tuple(word.split("=", 1)) for word in words.all("labels:"))),
        "namespace": words.option("ns", ""),
        "ports": tuple(port(word) for word in words.all("port:")),
        "near": tuple(pod_term(word) for word in words.all("near:")),
        "away": tuple(pod_term(word) for word in words.all("away:")),
    }


def port(word: str) -> HostPort:
    number, protocol, address = (*word.split("/"), "", "")[:3]
    return HostPort(number=int(number), protocol=protocol or "TCP", address=address)


def preference(word: str) -> NodePreference:
    weight, _, rest = word.partition(":")
    return NodePreference(weight=int(weight), term=selector(rest))


def pod_term(word: str) -> PodAffinityTerm:
    where, _, rest = word.partition(":")
    where, _, namespaces = where.partition("@")
    topology, _, weight = where.partition("*")
    return PodAffinityTerm(
        topology=topology,
        selector=selector(rest),
        namespaces=tuple(namespaces.split(",")) if namespaces else (),
        weight=int(weight or "0"),
    )


def spread(word: str) -> TopologySpread:
    """Read `zone*1`, `zone*1?` or `zone*1/3`, each with a selector after a colon."""
    where, _, rest = word.partition(":")
    topology, _, skew = where.partition("*")
    least, soft = skew.removesuffix("?").partition("/"), skew.endswith("?")
    return TopologySpread(
        topology=topology,
        max_skew=int(least[0]),
        selector=selector(rest),
        required=not soft,
        min_domains=int(least[2] or "1"),
    )


def selector(text: str) -> NodeTerm:
    from .language import requirement

    if text == "any":
        return ()
    parts = []
    for part in text.split("&"):
        key, _, value = part.partition("=")
        parts.append(requirement(part) if ":" in value else Requirement(key, Operator.IN, (value,)))
    return tuple(parts)


def share(word: str) -> DeviceShare:
    resource, _, part = word.partition("=")
    count, _, each = part.rpartition("x")
    if re.fullmatch(r"-?\d+m", each):
        return DeviceShare(resource=resource, milli=int(each[:-1]), count=int(count or "1"))
    return DeviceShare(resource=resource, memory_bytes=amount("memory", each), count=int(count or "1"))


def placement(slot: Slot, node: str) -> Placement:
    """Read a node with or without devices: `a` or `a[gpu0,gpu1]`."""
    name, _, listed = node.removesuffix("]").partition("[")
    return Placement(*slot, name, tuple(listed.split(",")) if listed else ())


def shown(node: str, devices: tuple[str, ...]) -> str:
    return f"{node}[{','.join(devices)}]" if devices else node


def left(columns: NodeTable, node: Node) -> Iterator[str]:
    """Yield the free part of each device of the node: `gpu0 500/1000`, with the free memory if the device has
    memory."""
    row, devices = columns.row_of[node.name], columns.devices
    for at, each in enumerate(node.devices):
        memory = f" {devices.memory[row, at] / 2**30:g}Gi" if each.memory_bytes else ""
        yield f"{each.name} {devices.milli[row, at]}/1000{memory}"
