"""One pod of a started gang that wants another node: it goes where the others of its gang are.

The domain of the others is a set of node labels, so closeness to them becomes part of the pod's own shape: of what was
required, requirements; of what was preferred, preferences, the finer level the heavier. Two slots with different
domains are then different demands, stand in different lines, and are counted and explained like any other pod.

The others are those of the job, of each group around the role, of the role, and of the slot's slice, each for its own
closeness. Where none of them is left, that closeness asks for nothing: the first pod placed anew decides. (A gang that
has lost all its pods is for the world to take back whole.) A job that was given flavors of nodes keeps to these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from phalanx.core import topology
from phalanx.model.cluster import Cluster, Record
from phalanx.model.demand import Gang
from phalanx.model.job import Slot
from phalanx.model.shape import NodePreference, Operator, Requirement, Shape
from phalanx.model.topology import Closeness, Topology
from phalanx.model.unit import Unit

LIGHTEST = 10  # weight of the coarsest level preferred; each finer one weighs as much more


def gang_of_one(cluster: Cluster, topologies: Sequence[Topology], record: Record, slot: Slot) -> Gang:
    """The pod of that slot, as a gang."""
    role = record.job.roles[slot.role]
    tree, shape = record.gang.tree, role.shape
    for near, nodes in () if tree is None else around(tree, record, slot):
        shape = beside(cluster, topologies, shape, near, nodes)
    one = cluster.interned.one(role if shape is role.shape else replace(role, shape=shape))
    return cluster.flavored(one, (record.flavors[slot.role],)) if record.flavors else one


def around(tree: Unit, record: Record, slot: Slot) -> Iterator[tuple[Closeness, Iterable[str]]]:
    """Each closeness that the slot is bound by, and the nodes of the unit that asks it; then its slice."""
    slicing: Closeness | None = None
    for unit in path(tree, slot.role):
        if (near := unit.closeness) is None:
            continue
        roles = set(unit.roles())
        if near.level:
            yield near, (node for each, node in record.placements.items() if each.role in roles)
        slicing = near if near.level or near.slice_level else slicing
    if slicing is not None and slicing.slice_pods > 1:
        first = slot.ordinal - slot.ordinal % slicing.slice_pods
        slice_ = (Slot(slot.role, ordinal) for ordinal in range(first, first + slicing.slice_pods))
        same = Closeness(level=slicing.slice_level, required=True)
        yield same, (record.placements[each] for each in slice_ if each in record.placements)


def path(unit: Unit, role: int) -> list[Unit]:
    """From the unit down to the role."""
    if unit.role == role:
        return [unit]
    below = (path(member, role) for member in unit.members)
    found = next((each for each in below if each), None)
    return [] if found is None else [unit, *found]


def beside(
    cluster: Cluster, topologies: Sequence[Topology], shape: Shape, near: Closeness, nodes: Iterable[str]
) -> Shape:
    """The shape, bound to the domain of the first of those nodes that is in one of that level."""
    levels = topology.hierarchy(topologies, near.level)
    keys = levels[: levels.index(near.level) + 1]
    for name in nodes:
        node = cluster.columns.node(name)
        labels = {} if node is None else dict(node.labels)
        if all(key in labels for key in keys):
            pairs = tuple((key, labels[key]) for key in keys)
            return required(shape, pairs) if near.required else preferred(shape, pairs)
    return shape


def required(shape: Shape, pairs: tuple[tuple[str, str], ...]) -> Shape:
    return replace(shape, selector=shape.selector + tuple(pair for pair in pairs if pair not in shape.selector))


def preferred(shape: Shape, pairs: tuple[tuple[str, str], ...]) -> Shape:
    weights = (
        NodePreference(LIGHTEST * (depth + 1), (Requirement(key, Operator.IN, (value,)),))
        for depth, (key, value) in enumerate(pairs)
    )
    return replace(shape, preferences=(*shape.preferences, *weights))
