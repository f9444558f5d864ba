"""Demands and gangs. A *demand* describes the requests of one pod on a node; a *gang* describes the requests of one
job. Both are interned: all pods (or jobs) with equal requests share one object.

There is one `Demand` per distinct shape. All shapes with the same node constraints share one `NodeConstraints`. All
pods with the same namespace, labels and affinity terms share one `AffinityClass`. There is one `Gang` per distinct
combination of roles, groups, topology request and `GangSize`. Two demands (or two gangs) are equal if and only if they
are the same object. So it takes little time to compare them, or to use them as keys of dictionaries. The tables hold
weak references, so an object is freed when no job uses it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge
from typing import TypeAlias
from weakref import WeakValueDictionary

from phalanx.model.job import MAX_ROLES, GangSize, Group, Job, Role, gang_error, gang_tree
from phalanx.model.node import TopologyRequest
from phalanx.model.pod import (
    Amount,
    Costs,
    NodeTerm,
    PodAffinityTerm,
    Shape,
    Toleration,
    shape_error,
    with_device_share,
    with_pod_count,
)

MinimumCost: TypeAlias = tuple[tuple[tuple[str, str], Amount], ...]


class NodeConstraints:
    """The node constraints of a pod: its node selector, node affinity and tolerations, and the node labels of the
    topology domain in which its gang already runs (`within`)."""

    __slots__ = ("__weakref__", "affinity", "selector", "tolerations", "within")

    def __init__(
        self,
        selector: tuple[tuple[str, str], ...],
        affinity: tuple[NodeTerm, ...],
        tolerations: tuple[Toleration, ...],
        within: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.selector, self.affinity, self.tolerations, self.within = selector, affinity, tolerations, within


class Demand:
    """A demand is an interned shape, with fields that are computed from the shape.

    `asks`: the amounts that each pod holds on its node, as pairs (resource, amount). `amounts`: the same amounts as a
    dictionary.
    `costs`: the amounts that a queue is charged for each pod: the field `charged` of the shape, or `asks` if that field
    is None. If the pod requests a share of a device, the share is charged, too.
    `where`: the node constraints.
    `kind`: the affinity class; None if the pods have no namespace, no labels and no affinity terms, so that no affinity
        term can select them.
    `unconstrained`: whether only the node constraints and the requested amounts decide on which nodes the pods fit, and
        the pods prefer none of these nodes.
    `tracked`: whether the pod index must count these pods, because of pod affinity or host ports."""

    __slots__ = ("__weakref__", "amounts", "asks", "costs", "kind", "shape", "tracked", "unconstrained", "where")

    def __init__(self, shape: Shape, where: NodeConstraints, kind: AffinityClass | None) -> None:
        self.shape, self.where, self.kind = shape, where, kind
        self.asks = with_pod_count(shape.requests)
        self.amounts = dict(self.asks)
        charged = self.asks if shape.charged is None else with_pod_count(shape.charged)
        self.costs: Costs = charged if shape.share is None else with_device_share(charged, shape.share)
        apart = (shape.preferences, shape.near, shape.away, shape.spread, shape.ports, shape.share, shape.aligned)
        self.unconstrained = not any(apart)
        self.tracked = kind is not None or bool(shape.ports)


class Gang:
    """A gang describes the requests that equal jobs share: the roles, the demand of each role, and the groups of roles.

    `simple`: whether the gang has neither groups nor topology requests. Otherwise `tree` has its groups and topology
    requests.
    `required_roles`: the roles whose minimum must be placed at every start; all other roles may be left out.
    `asked`: resource -> the amount that the minimums of all roles request together.
    `due`: the amounts that the queue is charged for the minimums of all roles. Each key is (flavor, resource) with the
    empty flavor, which stands for all nodes.
    `error`: the error in the roles or groups, as a sentence; empty if there is no error.
    `minimums`: the minimum number of pods of each role. `none`: a tuple with one 0 for each role.
    `rigid`: whether the gang never has more pods than its minimum.
    `optional`: whether the gang can run without some members of its groups."""

    __slots__ = (
        *("__weakref__", "asked", "closeness", "demands", "due", "error", "groups", "minimums", "none", "optional"),
        *("required_roles", "rigid", "roles", "simple", "size", "tree"),
    )

    def __init__(
        self,
        roles: tuple[Role, ...],
        demands: tuple[Demand, ...],
        groups: tuple[Group, ...] = (),
        closeness: TopologyRequest | None = None,
        size: GangSize = GangSize.ELASTIC,
    ) -> None:
        self.roles, self.demands, self.groups, self.closeness, self.size = roles, demands, groups, closeness, size
        self.simple = not groups and closeness is None and all(role.closeness is None for role in roles)
        self.error = gang_error(roles, groups, closeness) or pod_error(roles)
        self.tree = None if self.simple or self.error else gang_tree(roles, groups, closeness)
        self.optional = self.tree is not None and self.tree.optional()
        self.minimums = tuple([role.minimum for role in roles])
        self.none = (0,) * len(roles)
        self.rigid = all(role.count <= role.minimum for role in roles)
        self.required_roles: Sequence[int] = range(len(roles))
        if self.tree is not None:
            self.required_roles = tuple(self.tree.required_roles())
        self.asked, total = dict[str, int](), dict[tuple[str, str], Amount]()
        for demand, minimum in zip(demands, self.minimums, strict=True):
            for resource, amount in demand.asks:
                self.asked[resource] = self.asked.get(resource, 0) + amount * minimum
            for resource, cost in demand.costs if minimum else ():
                total["", resource] = total.get(("", resource), 0) + cost * minimum
        self.due: MinimumCost = tuple(sorted(total.items()))

    def enough(self, pods: Sequence[int]) -> bool:
        """Return whether `pods[role]` pods of each role reach the gang's minimum."""
        if self.tree is not None:
            return self.tree.placed(pods)
        return all(map(ge, pods, self.minimums))

    def does_without(self, role: int, pods: Sequence[int]) -> bool:
        """Return whether a gang that has `pods[r]` pods of each role r can run without the role `role`. This is only
        possible for a role that is not required. In addition, the role must have no pods, or all pods together must
        reach the gang's minimum."""
        return role not in self.required_roles and (not pods[role] or self.enough(pods))


def pod_error(roles: tuple[Role, ...]) -> str:
    """Return the first error in the pod shapes of the roles, as a sentence; empty if there is no error."""
    for role in roles:
        if found := shape_error(role.shape):
            return f"pods of role {role.name}: {found}" if role.name else f"its pods: {found}"
    return ""


class InternTable:
    """The tables of interned gangs, demands, node constraints and affinity classes."""

    def __init__(self) -> None:
        self._gangs: WeakValueDictionary[tuple[object, ...], Gang] = WeakValueDictionary()
        self._demands: WeakValueDictionary[Shape, Demand] = WeakValueDictionary()
        self._wheres: WeakValueDictionary[tuple[object, ...], NodeConstraints] = WeakValueDictionary()
        self._kinds: WeakValueDictionary[tuple[object, ...], AffinityClass] = WeakValueDictionary()

    def of(self, job: Job) -> Gang:
        """Return the gang of the job."""
        return self.gang(job.roles, job.groups, job.closeness, job.size)

    def gang(
        self,
        roles: tuple[Role, ...],
        groups: tuple[Group, ...] = (),
        closeness: TopologyRequest | None = None,
        size: GangSize = GangSize.ELASTIC,
    ) -> Gang:
        """Return the gang of these roles, groups, topology request and size."""
        if len(roles) > MAX_ROLES:  # the job will be refused, so its roles are not examined
            return Gang(roles, (self.demand(roles[0].shape),) * len(roles), groups, closeness, size)
        key = (roles, groups, closeness, size)
        gang = self._gangs.get(key)
        if gang is None:
            demands = tuple(self.demand(role.shape) for role in roles)
            gang = self._gangs[key] = Gang(roles, demands, groups, closeness, size)
        return gang

    def demand(self, shape: Shape) -> Demand:
        """Return the demand of the shape."""
        demand = self._demands.get(shape)
        if demand is None:
            kind = self.kind(shape.namespace, shape.labels, shape.near, shape.away)
            demand = self._demands[shape] = Demand(shape, self._where(shape), kind)
        return demand

    def one(self, role: Role) -> Gang:
        """Return the gang that consists of a single pod of the role."""
        return self.gang((Role(name=role.name, count=1, minimum=1, shape=role.shape),))

    def kind(
        self,
        namespace: str,
        labels: tuple[tuple[str, str], ...],
        near: tuple[PodAffinityTerm, ...] = (),
        away: tuple[PodAffinityTerm, ...] = (),
    ) -> AffinityClass | None:
        """Return the affinity class of pods with these fields; None if all fields are empty."""
        key = (namespace, labels, near, away)
        if not any(key):
            return None
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = AffinityClass(*key)
        return kind

    def _where(self, shape: Shape) -> NodeConstraints:
        key = (shape.selector, shape.affinity, shape.tolerations, shape.within)
        where = self._wheres.get(key)
        if where is None:
            where = self._wheres[key] = NodeConstraints(*key)
        return where


class AffinityClass:
    """A class of pods that have the same namespace, labels and affinity terms. No affinity term of another pod can
    distinguish between these pods."""

    __slots__ = ("__weakref__", "away", "labels", "namespace", "near")

    def __init__(
        self,
        namespace: str,
        labels: tuple[tuple[str, str], ...],
        near: tuple[PodAffinityTerm, ...],
        away: tuple[PodAffinityTerm, ...],
    ) -> None:
        self.namespace, self.labels, self.near, self.away = namespace, dict(labels), near, away
