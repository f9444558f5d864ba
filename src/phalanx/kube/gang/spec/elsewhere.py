"""Restrict jobs that run in another cluster to the nodes of that cluster, and define the names of these nodes. (This
cluster is the *manager*; the clusters to which it sends jobs are *workers*.)

The core places all pods of such a job on nodes of one worker. The worker's own scheduler then chooses the nodes again.
So only the worker applies rules about pod affinity and racks, and the manager ignores these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.model.job import Placement, Role
from phalanx.model.node import TopologyRequest
from phalanx.model.pod import Operator, Requirement, Shape, Toleration
from phalanx.model.reason import Reason

ONE_CLUSTER = TopologyRequest(level=CLUSTER)
EXPLAINED = 8  # the maximum number of clusters in the explanation of a choice
ANY_NODE = "*"  # stands for every node of a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The properties of a gang that determine the choice of its cluster. `roles`: the roles of the gang, before a
    requirement on the cluster is added to them. `options`: the labels and annotations of the members. `clusters`: the
    possible clusters; None if any cluster is possible."""

    gang: str
    options: Mapping[str, str]
    roles: tuple[Role, ...]
    priority: int
    limit_s: float | None
    clusters: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The clusters to which a gang may be sent. `clusters`: the possible clusters; None if any cluster is possible.
    `ranks`: the rank of each cluster; a cluster with a lower rank is preferred. `blocked`: why the gang is sent to no
    cluster. `facts`: a map from a cluster to the facts that explain its rank for this gang; the best cluster comes
    first."""

    clusters: tuple[str, ...] | None = None
    ranks: tuple[tuple[str, int], ...] = ()
    blocked: Reason | None = None
    facts: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def closeness(self) -> TopologyRequest:
        return replace(ONE_CLUSTER, ranks=self.ranks)

    def why(self, chosen: str) -> str:
        """Return a text for users about why the cluster `chosen` was chosen and the other clusters were not; empty if
        no facts are known."""
        names = [chosen, *(name for name in self.facts if name != chosen)]
        said = [f"{name}: {self._why_not(name, chosen)}{self.facts[name]}" for name in names if name in self.facts]
        more = [f"{len(said) - EXPLAINED} more"] if len(said) > EXPLAINED else []
        return "; ".join([*said[:EXPLAINED], *more])

    def _why_not(self, name: str, chosen: str) -> str:
        if name == chosen:
            return ""
        if self.clusters is not None and name not in self.clusters:
            return "not possible, "
        ranks = dict(self.ranks)
        if ranks.get(name, 0) > ranks.get(chosen, 0):
            return "after it in the order, "
        return "no room, " if ranks.get(name, 0) < ranks.get(chosen, 0) else "no room, or no tighter fit, "


Choose: TypeAlias = Callable[[Sought], ClusterChoice]


def any_cluster(sought: Sought) -> ClusterChoice:
    """Return a choice that contains all clusters that the gang allows, without a preference."""
    return ClusterChoice(clusters=sought.clusters)


def node_name(cluster: str, node: str) -> str:
    """Return the name that a node of a worker has on the manager. No Node object can have such a name."""
    return f"{cluster}:{node}"


def cluster_of(node: str) -> str:
    """Return the worker to which the node with this name belongs; empty if it is a node of this cluster."""
    cluster, colon, _ = node.partition(":")
    return cluster if colon else ""


def cluster_of_all(placements: Sequence[Placement]) -> str:
    """Return the worker to which the nodes of all placements belong; empty if they do not all belong to one worker."""
    found = {cluster_of(placement.node) for placement in placements}
    return found.pop() if len(found) == 1 else ""


def confined(role: Role, clusters: tuple[str, ...] | None = None) -> Role:
    """Return the role with the requirement that all of its pods start together on nodes of workers. `clusters`: the
    possible workers; None if any worker is possible."""
    anywhere = Requirement(CLUSTER, Operator.EXISTS)
    requirement = anywhere if clusters is None else Requirement(CLUSTER, Operator.IN, clusters)
    tolerations = (*role.shape.tolerations, Toleration(key=CLUSTER, operator="Exists"))
    shape = replace(_with(role.shape, requirement), tolerations=tolerations, near=(), away=(), spread=())
    return replace(role, minimum=role.count, shape=shape, closeness=None, group="")


def outside(role: Role, clusters: tuple[str, ...]) -> Role:
    """Return the role with the requirement that its pods are not in these clusters."""
    return replace(role, shape=_with(role.shape, Requirement(CLUSTER, Operator.NOT_IN, clusters)))


def _with(shape: Shape, rule: Requirement) -> Shape:
    return replace(shape, affinity=tuple((*term, rule) for term in shape.affinity or ((),)))
