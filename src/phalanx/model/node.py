"""The values that describe nodes: nodes, topologies, flavors, advance reservations and node groups.

*Topology.* A hierarchy of levels. Each level is the key of a node label. The levels are ordered from coarse to fine
(zone, block, rack, NVLink domain, host). A *domain* of a level is a set of nodes with equal labels for the level's key
and for the keys of all coarser levels (Kueue's Topology-Aware Scheduling, KEP-2724).

*Flavor.* A named class of nodes with quotas of its own (Kueue's ResourceFlavor). A pod whose queue has several resource
groups gets one flavor of each group. The names of these flavors are then joined by `+`, because no name of an object
contains this character.

*Reservation.* Nodes that are reserved for certain jobs, or closed for maintenance, between two times (Slurm's advance
reservations).

*Node group.* Equal nodes that a provider adds and removes on request (a node group of the Cluster Autoscaler).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from phalanx.model.pod import Amounts, Shape, Toleration


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint. NoSchedule and NoExecute forbid pods without a matching toleration; PreferNoSchedule is only a
    preference.

    `by_name`: whether a toleration must name the taint's key; a toleration of all taints then does not match this
    taint."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    by_name: bool = False


def taint_text(taint: Taint) -> str:
    """Return the taint as `kubectl taint` writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device of a node. `resource`: the resource to which it belongs (such as `nvidia.com/gpu`). `zone`: its NUMA
    zone.
    `counted`: whether the node only reports the number of its devices. A pod with a share of such a device holds it by
    name. For a pod with whole devices, only the number of devices is known."""

    name: str
    resource: str
    memory_bytes: int = 0
    zone: str = ""
    counted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A NUMA zone of a node, with its part of the node's allocatable amounts. Each `Device` states its zone."""

    name: str
    allocatable: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the world describes it.

    `allocatable`: the node's allocatable amounts (not its capacity), including the resource `pods`.
    `ready`: whether the node accepts pods.
    `used`: the measured usage, for load-aware scores; empty if it is not measured.
    `part_of`: the name of the real node, if this node is only a reserved part of it. The amounts of this part are
    subtracted from the real node.
    `group`: the name of its node group; empty if no provider manages the node.
    `protected`: whether an annotation forbids the removal of the node while it is empty."""

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
    group: str = ""
    protected: bool = False


class OnDemand(NamedTuple):
    """The jobs for which another program adds nodes of a group on demand. `queue`: the queue of these jobs. `flavors`:
    each job must have one of these flavors; if empty, any flavor is allowed. `resources`: each job must request one of
    these resources; if empty, any resource is allowed."""

    queue: str
    flavors: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A node group: equal nodes that a provider adds and removes on request.

    `template`: a node of the group; its name has no meaning. `min_nodes`, `max_nodes`: the smallest and the largest
    number of nodes, including requested nodes. `price_per_hour`: the price of one node, in any currency. `delay_s`: the
    expected time from the request for a node to its arrival. `timeout_s`: the time after which a request counts as
    failed if the node has not arrived.
    `idle_s`: the time for which a node must be empty before it is released; infinite if the provider removes empty
    nodes itself.
    `on_demand`: the jobs for which another program adds nodes on demand; None if Phalanx requests the nodes of this
    group. The template of a group on demand has the amounts that all of its jobs together may get."""

    name: str
    template: Node
    min_nodes: int = 0
    max_nodes: int = 1000
    price_per_hour: float = 0.0
    delay_s: float = 180.0
    timeout_s: float = 900.0
    idle_s: float = 600.0
    on_demand: OnDemand | None = None

    def node(self, name: str) -> Node:
        """Return a node of the group with this name. The node is not ready, because it has not arrived yet."""
        return replace(self.template, name=name, group=self.name, ready=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A topology is a hierarchy of levels, from coarse to fine."""

    levels: tuple[str, ...]


class SliceLayer(NamedTuple):
    """A layer of slices. The pods of a role, in the order of their ordinals, are divided into slices of `pods` pods,
    and each slice is placed in one domain of `level`."""

    pods: int
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """The required or preferred closeness of the pods of a job, group or role (like Kueue's TopologyRequest).

    `level`: the label key of a topology level; all pods are to be placed in one domain of this level.
    `required`: whether all pods must be placed in one domain of this level. Otherwise, if no domain has enough capacity
    for all pods, coarser levels are tried, and finally any nodes.
    `balanced`: whether the pods are spread evenly over the domains of the next finer level; otherwise they use as few
    of these domains as possible.
    `slices`: the layers of slices, the largest first; a slice consists of whole slices of the next layer.
    `ranks`: pairs (label value of a domain of `level`, rank). Domains with a lower rank are tried first; domains
    without a rank come last."""

    level: str = ""
    required: bool = True
    balanced: bool = False
    slices: tuple[SliceLayer, ...] = ()
    ranks: tuple[tuple[str, int], ...] = ()


HARD = frozenset({"NoSchedule", "NoExecute"})  # effects of taints that prevent pods from being placed on a node
JOIN = "+"


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return whether one of the tolerations tolerates the taint. The rules are those of Toleration.ToleratesTaint in
    k8s.io/api/core/v1."""
    return any(
        (not toleration.effect or toleration.effect == taint.effect)
        and (toleration.key == taint.key or not (toleration.key or taint.by_name))
        and (
            toleration.operator == "Exists"
            or (toleration.operator in {"", "Equal"} and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A flavor is the class of nodes that have all of `labels`.

    A pod with the flavor is placed on these nodes only. In addition to its own tolerations it gets `tolerations`,
    because these nodes may have taints against other pods. `taints`: only pods that tolerate all of these taints get
    the flavor, even if its nodes do not have these taints."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    taints: tuple[Taint, ...] = ()

    def untolerated(self, shape: Shape) -> Taint | None:
        """Return a taint of the flavor that pods of this shape do not tolerate, so that they cannot get the flavor;
        None if they tolerate all taints."""
        tolerations = (*shape.tolerations, *self.tolerations)
        return next((each for each in self.taints if each.effect in HARD and not tolerates(tolerations, each)), None)

    def applied_to(self, shape: Shape) -> Shape:
        """Return a copy of the shape that fits only on nodes of the flavor and has the tolerations of the flavor."""
        return replace(
            shape,
            selector=tuple(sorted({*shape.selector, *self.labels})),
            tolerations=tuple(dict.fromkeys((*shape.tolerations, *self.tolerations))),
        )


def joined_name(names: Iterable[str]) -> str:
    """Join the names of several flavors by `+`, and return the joined name."""
    return JOIN.join(names)


def parts_of(name: str) -> tuple[str, ...]:
    """Return the names of the flavors that are joined in a name; an empty tuple for an empty name."""
    return tuple(name.split(JOIN)) if name else ()


def joined_flavor(name: str, known: Mapping[str, Flavor]) -> Flavor | None:
    """Return the flavor with this name. If several names are joined, return a flavor for the nodes that belong to all
    of these flavors. Return None if none of the flavors is known."""
    found = [known[part] for part in parts_of(name) if part in known]
    if len(found) < 2:
        return found[0] if found else None
    return Flavor(
        name=name,
        labels=tuple(sorted({pair for each in found for pair in each.labels})),
        tolerations=tuple(dict.fromkeys(one for each in found for one in each.tolerations)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """An advance reservation: the whole `nodes` are reserved from `start_s` to `end_s`.

    Jobs of its `users`, `groups` or `queues` (including the queues below them) may run on these nodes during this time,
    if they request the reservation by name or if it is `magnetic`. A reservation without users, groups and queues is a
    maintenance window, in which no job may run."""

    name: str
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    magnetic: bool = False
