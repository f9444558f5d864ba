"""A node as the world describes it. In the `Cluster` nodes become columns; this is what crosses the boundary."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.model.pod import Amounts


@dataclass(frozen=True, slots=True)
class Taint:
    """`effect`: NoSchedule and NoExecute keep pods away that do not tolerate it; PreferNoSchedule does not."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of a node, by name. `resource`: what counts it (`nvidia.com/gpu`); `zone`: its NUMA zone."""

    name: str
    resource: str
    memory_bytes: int = 0
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A NUMA zone of a node and its part of the allocatable amounts; devices say themselves where they are."""

    name: str
    allocatable: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`allocatable` (never capacity), with `pods` as one of its resources. `used`: what is really in use on it, if
    that is measured, for load-aware scores."""

    name: str
    allocatable: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    devices: tuple[Device, ...] = ()
    zones: tuple[Zone, ...] = ()
    used: Amounts = ()
