"""A node as the world describes it. In the `Cluster` nodes become columns; this is what crosses the boundary.

Topology: how close to each other the pods of a gang must, or should, be.

Levels are node label keys, from coarse to fine (zone, block, rack, NVLink domain, host). A *domain* of a level is the
set of nodes with the same values of its key and all coarser ones. (Kueue's Topology-Aware Scheduling, KEP-2724.)

A flavor: a named class of nodes, which quotas can tell apart (Kueue's ResourceFlavor).

A reservation: room that is set aside for a time, for some, or for nobody (maintenance).

As Slurm's advance reservations: a job starts on reserved nodes only if it may use the reservation, or states a time
limit and ends before the reservation begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from phalanx.model.pod import Amounts, Shape, Toleration


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One hierarchy of levels, coarse to fine."""

    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """All pods go to one domain of `level`, a label key of some topology. If it is not `required` and no domain holds
    them, the next coarser level is tried, and at last any nodes. `balanced`: over the domains below `level` evenly,
    instead of as few as possible. `slice_pods`: besides, every so many pods of a role (in order of ordinals) share one
    domain of `slice_level`."""

    level: str = ""
    required: bool = True
    balanced: bool = False
    slice_level: str = ""
    slice_pods: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """Its nodes carry all of `labels`. A pod that is given the flavor goes to them only, and tolerates `tolerations`
    besides its own (the taints that keep others away from such nodes)."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def applied_to(self, shape: Shape) -> Shape:
        """That shape, kept to the flavor's nodes."""
        return replace(
            shape,
            selector=tuple(sorted({*shape.selector, *self.labels})),
            tolerations=tuple(dict.fromkeys((*shape.tolerations, *self.tolerations))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """`nodes` are reserved whole from `start_s` to `end_s` (seconds since the epoch). Jobs of its `users`, `groups` or
    `queues` (with the queues below them) may run there while it lasts, if they ask for it by name, or, with
    `magnetic`, without asking. No users, groups and queues: maintenance, nobody may."""

    name: str
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    magnetic: bool = False
