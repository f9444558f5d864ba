"""Jobs that run in another cluster: which nodes the core may plan for them, and the names of such nodes.

The core places such a job on nodes of a worker, all of its pods on nodes of one. The worker places the pods itself, so
rules about other pods and about racks are left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.model.job import Placement, Role
from phalanx.model.node import TopologyRequest
from phalanx.model.pod import Operator, Requirement, Shape, Toleration

ONE_CLUSTER = TopologyRequest(level=CLUSTER)
ANY_NODE = "*"  # in place of a node's name: every node of the cluster


def node_name(cluster: str, node: str) -> str:
    """Return the name of a worker's node on the manager. No Node can have such a name."""
    return f"{cluster}:{node}"


def cluster_of(node: str) -> str:
    """Return the worker of a node of the manager; empty if it is a node of this cluster."""
    cluster, colon, _ = node.partition(":")
    return cluster if colon else ""


def cluster_of_all(placements: Sequence[Placement]) -> str:
    """Return the worker of all placements; empty if they are not in one worker."""
    found = {cluster_of(placement.node) for placement in placements}
    return found.pop() if len(found) == 1 else ""


def confined(role: Role, clusters: tuple[str, ...] | None = None) -> Role:
    """Return the role, whose pods may be on nodes of workers only, and start all together. `clusters`: the possible
    workers; None: any."""
    anywhere = Requirement(CLUSTER, Operator.EXISTS)
    there = anywhere if clusters is None else Requirement(CLUSTER, Operator.IN, clusters)
    tolerations = (*role.shape.tolerations, Toleration(key=CLUSTER, operator="Exists"))
    shape = replace(_with(role.shape, there), tolerations=tolerations, near=(), away=(), spread=())
    return replace(role, minimum=role.count, shape=shape, closeness=None, group="")


def outside(role: Role, clusters: tuple[str, ...]) -> Role:
    """Return the role, whose pods may not be in these clusters."""
    return replace(role, shape=_with(role.shape, Requirement(CLUSTER, Operator.NOT_IN, clusters)))


def _with(shape: Shape, rule: Requirement) -> Shape:
    return replace(shape, affinity=tuple((*term, rule) for term in shape.affinity or ((),)))
