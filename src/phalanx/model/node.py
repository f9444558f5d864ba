"""A node as the world describes it, and what is said about nodes: topologies, flavors, advance reservations.

*Topology.* Levels are node label keys, from coarse to fine (zone, block, rack, NVLink domain, host). A *domain* of a
level is the set of nodes with the same values of its key and of all coarser ones (Kueue's Topology-Aware Scheduling,
KEP-2724).

*Flavor.* A flavor is a named class of nodes that quotas can tell apart (Kueue's ResourceFlavor).

*Reservation.* Nodes are set aside for a time, for some jobs, or for nobody during maintenance (Slurm's advance
reservations).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from phalanx.model.pod import Amounts, Shape, Toleration


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint. NoSchedule and NoExecute keep pods away that do not tolerate it; PreferNoSchedule only should.
    `by_name`: whoever tolerates everything does not tolerate it, only who names its key."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    by_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device of a node, by name. `resource` is what counts it (`nvidia.com/gpu`); `zone` is its NUMA zone."""

    name: str
    resource: str
    memory_bytes: int = 0
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A NUMA zone of a node and its part of the allocatable amounts. Devices name their zone themselves."""

    name: str
    allocatable: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the world describes it.

    `allocatable`: what pods may ask for in all, with `pods` as one of the resources; never the capacity.
    `ready`: a node that is not ready takes no pods.
    `used`: what is really in use, if that is measured, for load-aware scores.
    `part_of`: the node of which this is a part, kept for some pods, and which is smaller by it; empty: of none."""

    name: str
    allocatable: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    devices: tuple[Device, ...] = ()
    zones: tuple[Zone, ...] = ()
    used: Amounts = ()
    part_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A topology is one hierarchy of levels, coarse to fine."""

    levels: tuple[str, ...]


class SliceLayer(NamedTuple):
    """A layer of slices: every `pods` pods of a role, in order of ordinals, share one domain of `level`."""

    pods: int
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """A topology request says how close to each other the pods of a job, group or role are to be (Kueue's
    TopologyRequest).

    All pods go to one domain of `level`, a label key of some topology. If the request is not `required` and no domain
    holds them, the next coarser level is tried, and at last any nodes.

    `balanced`: the pods are spread evenly over the domains below `level`, instead of over as few as possible.
    `slices`: besides, the layers of slices, the largest first; a slice consists of whole slices of the next layer."""

    level: str = ""
    required: bool = True
    balanced: bool = False
    slices: tuple[SliceLayer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A flavor is a class of nodes that carry all of `labels`.

    A pod that is given the flavor goes to these nodes only, and tolerates `tolerations` besides its own: the taints
    that keep other pods away from such nodes."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def applied_to(self, shape: Shape) -> Shape:
        """Return the shape, restricted to the flavor's nodes."""
        return replace(
            shape,
            selector=tuple(sorted({*shape.selector, *self.labels})),
            tolerations=tuple(dict.fromkeys((*shape.tolerations, *self.tolerations))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """An advance reservation: `nodes` are reserved whole from `start_s` to `end_s`.

    Jobs of its `users`, `groups` or `queues` (with the queues below them) may run there while the reservation lasts, if
    they ask for it by name or if it is `magnetic`. A reservation without users, groups and queues is maintenance:
    nobody may."""

    name: str
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    magnetic: bool = False
