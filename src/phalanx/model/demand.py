"""Shapes and roles, interned, so that thinking is done once for what thousands of pods and jobs have in common.

One `Demand` object per distinct shape, one `Where` for all shapes that may go to the same nodes, one `Gang` per
distinct tuple of roles. Two of a kind are the same exactly if they are the same object, which makes them cheap keys.
The tables hold their objects weakly: what no job has any more is forgotten."""

from __future__ import annotations

from weakref import WeakValueDictionary

from phalanx.model.job import Role
from phalanx.model.shape import PODS, Amounts, NodeTerm, Shape, Toleration

# Nine petabytes, nine trillion cores: no node has as much, and a thousand such pods still sum within an int64.
MOST = 2**53


def charged(requests: Amounts) -> Amounts:
    """What a pod with these requests holds on its node: the requests, and one of `pods` if they do not say."""
    held = bounded(requests)
    return held if any(resource == PODS for resource, _ in held) else tuple(sorted((*held, (PODS, 1))))


def bounded(requests: Amounts) -> Amounts:
    """The amounts above zero, none beyond `MOST`."""
    return tuple((resource, min(amount, MOST)) for resource, amount in requests if amount > 0)


class Where:
    """Which nodes a pod may go to, amounts aside."""

    __slots__ = ("__weakref__", "affinity", "selector", "tolerations")

    def __init__(
        self,
        selector: tuple[tuple[str, str], ...],
        affinity: tuple[NodeTerm, ...],
        tolerations: tuple[Toleration, ...],
    ) -> None:
        self.selector, self.affinity, self.tolerations = selector, affinity, tolerations


class Demand:
    """`asks`: what each pod holds on its node (`charged`); `amounts`: the same by resource."""

    __slots__ = ("__weakref__", "amounts", "asks", "shape", "where")

    def __init__(self, shape: Shape, where: Where) -> None:
        self.shape, self.where = shape, where
        self.asks = charged(shape.requests)
        self.amounts = dict(self.asks)


class Gang:
    """What alike jobs ask: their roles, and the demand of each."""

    __slots__ = ("__weakref__", "demands", "roles")

    def __init__(self, roles: tuple[Role, ...], demands: tuple[Demand, ...]) -> None:
        self.roles, self.demands = roles, demands


class Interned:
    """The tables."""

    def __init__(self) -> None:
        self._gangs: WeakValueDictionary[tuple[Role, ...], Gang] = WeakValueDictionary()
        self._demands: WeakValueDictionary[Shape, Demand] = WeakValueDictionary()
        self._wheres: WeakValueDictionary[tuple[object, ...], Where] = WeakValueDictionary()

    def gang(self, roles: tuple[Role, ...]) -> Gang:
        gang = self._gangs.get(roles)
        if gang is None:
            gang = self._gangs[roles] = Gang(roles, tuple(self.demand(role.shape) for role in roles))
        return gang

    def demand(self, shape: Shape) -> Demand:
        demand = self._demands.get(shape)
        if demand is None:
            demand = self._demands[shape] = Demand(shape, self._where(shape))
        return demand

    def one(self, role: Role) -> Gang:
        """A single pod of that role."""
        return self.gang((Role(name=role.name, count=1, minimum=1, shape=role.shape),))

    def _where(self, shape: Shape) -> Where:
        key = (shape.selector, shape.affinity, shape.tolerations)
        where = self._wheres.get(key)
        if where is None:
            where = self._wheres[key] = Where(*key)
        return where
