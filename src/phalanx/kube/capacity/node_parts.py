"""Represent reserved parts of nodes as nodes. The core sees each part as a node of its own, and the rest of the node as
a smaller node.

So the core cannot grant reserved capacity twice, and needs no special case for it. Some pods of a gang may be in a
reserved part, and others on ordinary nodes. A part is named `NODE/PART`, which is not a valid node name. In the API a
pod is bound to NODE, and the annotation `phalanx.dev/part` names its part. A part has a taint against pods that may not
use it; pods that may use the part prefer it to other nodes. A part has the labels and the readiness of its node. When
the reservation of a part ends, the node has its full size again, and the pods in the part become pods of the node.

The devices of a part have no names. On a node with parts, the core only counts devices, both of the node and of its
parts. It does not choose particular devices for pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from phalanx.dialects.frame.dialect import NodePart, PartUse
from phalanx.kube.read.labels import PART
from phalanx.kube.read.pod import Pod
from phalanx.model.node import Node, Taint
from phalanx.model.pod import NodePreference, Operator, Requirement, Shape, Toleration, amounts

_RATHER = 100  # the highest weight that a preference may have


def name_of(node: str, part: str) -> str:
    """Return the name of the node that represents this reserved part of `node` in the core."""
    return f"{node}/{part}"


def node_and_part(name: str) -> tuple[str, str]:
    """Return the name of the node in the API, and the name of the part. The name of the part is "" if `name` is the
    name of a whole node."""
    node, _, part = name.partition("/")
    return node, part


def split(node: Node, parts: Iterable[NodePart]) -> Iterator[Node]:
    """Yield the node without the capacity of its reserved parts, then each part as a node of its own."""
    parts = tuple(parts)
    left = dict(node.allocatable)
    for part in parts:
        for resource, amount in part.allocatable:
            left[resource] = max(0, left.get(resource, 0) - amount)
    yield node if not parts else replace(node, allocatable=amounts(left))
    for part in parts:
        yield Node(
            name=name_of(node.name, part.name),
            allocatable=part.allocatable,
            labels=tuple(sorted((*node.labels, (PART, part.name)))),
            taints=(*node.taints, Taint(PART, part.name, by_name=True)),
            unschedulable=node.unschedulable or part.closed,
            ready=node.ready,
            part_of=node.name,
        )


def in_parts(pod: Pod, use: PartUse | None, name: str, part: NodePart | None) -> Pod:
    """Return the pod in the form that the core gets. It has tolerations for the reserved parts that it may use (`use`),
    and its node is the part in which it runs. `name`: the name of this part; "" if the pod is in no part. `part`: the
    part; None if it no longer exists."""
    if use is None and not name:
        return pod
    shape = pod.shape if use is None else _using(pod.shape, use)
    in_part = part is not None and part.node == pod.node
    return msgspec.structs.replace(pod, shape=shape, part=name, node=name_of(pod.node, name) if in_part else pod.node)


def _using(shape: Shape, use: PartUse) -> Shape:
    requirement = Requirement(PART, Operator.IN, use.names)
    opened = tuple(Toleration(key=PART, value=name) for name in use.names)
    affinity = shape.affinity
    if use.required:
        affinity = tuple((*term, requirement) for term in shape.affinity or ((),))
    rather = (NodePreference(_RATHER, (requirement,)),) if use.names and not use.required else ()
    return replace(
        shape,
        affinity=affinity,
        tolerations=(*shape.tolerations, *opened),
        preferences=(*shape.preferences, *rather),
    )
