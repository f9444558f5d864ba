"""Place further pods of a gang that has already started: pods that have lost their node, and pods that were never
placed. If the gang has a topology request, the new pods are placed close to the gang's other pods.

A topology domain is given by node labels. So the topology request of the gang can be turned into node constraints of
the new pod. If the request is required, the labels of the domain in which the other pods run become required node
labels. If it is preferred, they become preferred node labels, with a higher weight for finer levels. With these
constraints, the scheduler treats the new pods like all other pods. Slots that belong to different domains have
different demands, so they are in different request classes.

The job, each group that contains the role, the role, and the slot's slice may each have a topology request. For each
topology request, "the other pods" are the placed pods of the unit (job, group, role or slice) that has the request.
Sometimes no other pod is left, or all other pods are on removed nodes, whose domains are unknown. The open slots of the
unit are then placed *together*, as a separate gang with the same topology request. Only the first of these slots is a
request in the queue, and it stands for all of them. If the job was started without some member of a group, the missing
member is placed as a whole in the same way, even if it has no topology request.

A job that was assigned node flavors keeps its flavors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from phalanx.core.placement import topology
from phalanx.model.job import GangSize, GangTree, Group, Placement, Role, Slot
from phalanx.model.node import SliceLayer, Topology, TopologyRequest
from phalanx.model.pod import NodePreference, Operator, Requirement, Shape
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, is_growth

# the weight of the preference for the coarsest level; each finer level has this much more weight
LIGHTEST = 10


def slots_together(cluster: Cluster, record: JobRecord, slot: Slot) -> tuple[Slot, ...]:
    """Return the open slots that must be placed together, sorted; `slot` is one of them. If `slot` can be placed alone,
    return only `slot`.

    If a unit or slice must be placed as a whole, return the open slots of its minimum. If no slot of the minimum is
    open, return all of its open slots. If the ordinals of the open slots of a role with slices have gaps, only the
    slots of the first slice are returned. If a job may only grow by all missing pods at once (Kueue's elastic jobs),
    all open slots of the role are returned."""
    if (unit := missing_unit(cluster, record, slot)) is not None:
        roles = set(unit.roles())
        inside = sorted(each for each in record.open if each.role in roles)
    elif layers := missing_layers(cluster, record, slot):
        inside = slice_of(record.open, slot, layers[0].pods)
    elif record.job.size is GangSize.IN_STEPS and is_growth(record, slot):
        inside = sorted(each for each in record.open if each.role == slot.role)
    else:
        return (slot,)
    wanted = [each for each in inside if not is_growth(record, each)] or inside
    by_role = groupby(wanted, attrgetter("role"))
    return tuple(each for role, some in by_role for each in numbered_alike(list(some), layers_around(record, role)))


def replacement_gang(cluster: Cluster, topologies: Sequence[Topology], record: JobRecord, slot: Slot) -> Gang:
    """Return the replacement gang: a gang with a new pod for this slot and for each slot that must be placed together
    with it."""
    unit, roles = missing_unit(cluster, record, slot), roles_together(cluster, record, slot)
    found = [bound_to_others(cluster, topologies, record, slot, role) for role in roles]
    together = slots_together(cluster, record, slot)
    if unit is not None:
        gang = cluster.interned.gang(*part_of_job(unit, together, roles, found))
    elif layers := missing_layers(cluster, record, slot):
        near, count = TopologyRequest(level=layers[0].level, slices=layers[1:]), len(together)
        part = replace(found[0], count=count, minimum=count, group="", closeness=near)
        gang = cluster.interned.gang((part,), (), None)
    elif len(together) > 1:
        part = replace(found[0], count=len(together), minimum=len(together), group="", closeness=None)
        gang = cluster.interned.gang((part,))
    else:
        gang = cluster.interned.one(found[0])
    return cluster.with_flavors(gang, tuple(record.flavors[role] for role in roles)) if record.flavors else gang


def placements_of_slots(
    cluster: Cluster, record: JobRecord, slot: Slot, placements: Sequence[Placement]
) -> list[Placement]:
    """Translate placements of the replacement gang into placements of the job. Each gets the role and the ordinal of an
    open slot of the job."""
    vacant: dict[int, list[Slot]] = {}
    for each in reversed(slots_together(cluster, record, slot)):
        vacant.setdefault(each.role, []).append(each)
    roles = roles_together(cluster, record, slot)
    return [Placement(*vacant[roles[each.role]].pop(), each.node, each.devices) for each in placements]


def roles_together(cluster: Cluster, record: JobRecord, slot: Slot) -> list[int]:
    """Return the indexes of the job's roles that are part of the replacement gang, in the order in which the gang has
    them."""
    return sorted({each.role for each in slots_together(cluster, record, slot)})


def missing_unit(cluster: Cluster, record: JobRecord, slot: Slot) -> GangTree | None:
    """Return the largest subtree of the gang that contains the slot, must be placed as a whole, has no placed pod, and
    has more than one open slot; None if no subtree meets all four conditions.

    A subtree must be placed as a whole in two cases. First, the subtree has a topology request; in this case pods on
    removed nodes do not count as placed. Second, the queue has gang scheduling, and the group around the subtree can
    start without the subtree."""
    units = [] if record.gang.tree is None else path(record.gang.tree, slot.role)
    for above, unit in zip((None, *units), units, strict=False):
        roles = set(unit.roles())
        placed = any(record.placed[role] for role in roles)
        close = unit.closeness is not None and unit.closeness.level != ""
        if placed and (not close or is_somewhere(cluster, record, roles)):
            continue
        if not (close or can_be_spared(cluster, record, above, unit)):
            continue
        return unit if sum(each.role in roles for each in record.open) > 1 else None
    return None


def missing_layers(cluster: Cluster, record: JobRecord, slot: Slot) -> tuple[SliceLayer, ...]:
    """Return the layers of slices, coarse to fine, whose slice around this slot must be placed as a whole. A slice must
    be placed as a whole if it has several open slots, and none of its pods is on an existing node. Return an empty
    tuple if there is no such layer."""
    layers = layers_around(record, slot.role)
    for at, (pods, _) in enumerate(layers):
        there = (record.placements[each] for each in slice_of(record.placements, slot, pods))
        if not any(cluster.columns.node(node) for node in there):
            return layers[at:] if len(slice_of(record.open, slot, pods)) > 1 else ()
    return ()


def numbered_alike(slots: list[Slot], layers: Sequence[SliceLayer]) -> list[Slot]:
    """Return the slots of a role that can be placed together: all of `slots`, if their ordinals have no gaps. Otherwise
    return only those in the same slice as the first slot. The placed pods are numbered without gaps, so with more slots
    some pods could get into the wrong slice."""
    for pods, _ in layers:
        first, last = slots[0].ordinal, slots[-1].ordinal
        if first % pods == 0 and last - first < len(slots):
            break
        slots = [each for each in slots if each.ordinal // pods == first // pods]
    return slots


def slice_of(slots: Collection[Slot], slot: Slot, pods: int) -> list[Slot]:
    """Return the slots that are in the same slice of `pods` pods, in order."""
    if pods < len(slots):
        first = slot.ordinal - slot.ordinal % pods
        return [each for at in range(first, first + pods) if (each := Slot(slot.role, at)) in slots]
    return sorted(each for each in slots if each.role == slot.role and each.ordinal // pods == slot.ordinal // pods)


def layers_around(record: JobRecord, role: int) -> tuple[SliceLayer, ...]:
    """Return the layers of slices of the role. They come from the topology request of the role or, if it has none, of
    the innermost group around it that has one."""
    around = [] if record.gang.tree is None else [unit.closeness for unit in path(record.gang.tree, role)]
    said = next((near for near in reversed(around) if near is not None and (near.level or near.slices)), None)
    return () if said is None else tuple(layer for layer in said.slices if layer.pods > 1)


def is_somewhere(cluster: Cluster, record: JobRecord, roles: Collection[int]) -> bool:
    """Return whether a pod of one of the roles is on a node that exists."""
    there = (node for slot, node in record.placements.items() if slot.role in roles)
    return any(cluster.columns.node(node) is not None for node in there)


def can_be_spared(cluster: Cluster, record: JobRecord, above: GangTree | None, unit: GangTree) -> bool:
    """Return whether the group `above` can run without the subtree `unit`. If so, the subtree is placed as a whole,
    because a part of it would be of no use."""
    if above is None or above.minimum == len(above.members) or (unit.role >= 0 and unit.minimum < 2):
        return False
    queue = cluster.queues.get(record.queue)
    return queue is None or queue.gang


def part_of_job(
    unit: GangTree, slots: Sequence[Slot], roles: Sequence[int], described: Sequence[Role]
) -> tuple[tuple[Role, ...], tuple[Group, ...], TopologyRequest | None]:
    """Describe the subtree as a job of its own, with one pod for each of `slots`. Return the roles, the groups and the
    topology request of this job."""
    fewer = unit.role < 0 and unit.minimum < len(unit.members)
    # A job cannot have a minimum of members, only a group can. So the group becomes the only member of a new job.
    job = GangTree(name="", members=(unit,)) if fewer else unit
    groups = {each.name: each for each in groups_of(job, "", set(roles))}
    found = []
    for at, role in zip(roles, described, strict=True):
        count = sum(each.role == at for each in slots)
        group = role.group if role.group in groups else ""
        close = None if unit.role == at else role.closeness
        found.append(replace(role, count=count, minimum=min(count, role.minimum), group=group, closeness=close))
    if not any(role.minimum for role in found):
        found[0] = replace(found[0], minimum=1)
    return tuple(found), tuple(groups.values()), job.closeness


def groups_of(unit: GangTree, parent: str, roles: set[int]) -> Iterator[Group]:
    """Yield the groups inside the subtree that contain any of the roles. Members without such a role are left out. If a
    group needs only a minimum of its members, the yielded group needs this minimum, or all of its remaining members if
    they are fewer."""
    for member in unit.members:
        if member.role < 0 and not roles.isdisjoint(member.roles()):
            alive = sum(not roles.isdisjoint(each.roles()) for each in member.members)
            least = None if member.minimum == len(member.members) else min(alive, member.minimum)
            yield Group(name=member.name, parent=parent, minimum=least, closeness=member.closeness)
            yield from groups_of(member, member.name, roles)


def bound_to_others(cluster: Cluster, topologies: Sequence[Topology], record: JobRecord, slot: Slot, role: int) -> Role:
    """Return the role with node constraints that require or prefer the topology domains of the other pods."""
    asked, tree = record.job.roles[role], record.gang.tree
    shape = asked.shape
    for near, nodes in () if tree is None else requests_around(tree, record, slot):
        shape = bound_to_domain(cluster, topologies, shape, near, nodes)
    return asked if shape is asked.shape else replace(asked, shape=shape)


def requests_around(tree: GangTree, record: JobRecord, slot: Slot) -> Iterator[tuple[TopologyRequest, Iterable[str]]]:
    """For each topology request that applies to the slot, yield (the request, nodes of the placed pods of the unit that
    has the request). First come the requests of the job, groups and role, then those of slices."""
    for unit in path(tree, slot.role):
        if (near := unit.closeness) is None:
            continue
        roles = set(unit.roles())
        if near.level:
            yield near, (node for each, node in record.placements.items() if each.role in roles)
    for pods, level in layers_around(record, slot.role):
        beside = slice_of(record.placements, slot, pods)
        yield TopologyRequest(level=level), (record.placements[each] for each in beside)


def path(unit: GangTree, role: int) -> list[GangTree]:
    """Return the subtrees that contain the role, from `unit` down to the role itself."""
    if unit.role == role:
        return [unit]
    below = (path(member, role) for member in unit.members)
    found = next((each for each in below if each), None)
    return [] if found is None else [unit, *found]


def bound_to_domain(
    cluster: Cluster, topologies: Sequence[Topology], shape: Shape, near: TopologyRequest, nodes: Iterable[str]
) -> Shape:
    """Return the shape with node constraints that require or prefer one domain of the requested level. The domain is
    taken from the first of `nodes` that belongs to a domain of this level. If none of `nodes` does, return the shape
    unchanged."""
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
    """Return the shape with a node selector that also requires these labels."""
    return replace(shape, within=tuple(dict.fromkeys((*shape.within, *pairs))))


def preferred(shape: Shape, pairs: tuple[tuple[str, str], ...]) -> Shape:
    """Return the shape with a preference for nodes with these labels. Labels of finer levels have a higher weight."""
    weights = (
        NodePreference(LIGHTEST * (depth + 1), (Requirement(key, Operator.IN, (value,)),))
        for depth, (key, value) in enumerate(pairs)
    )
    return replace(shape, preferences=(*shape.preferences, *weights))
