"""Who runs where, as other pods see it: the part of the book that affinity, spread and host ports count.

A *kind* is a namespace, labels, and what such pods themselves want of others; thousands of pods share one. Per kind the
book has how many of its pods are on which row, kept up to date by every charge. Whoever selects pods sums the kinds
that match, which costs what matches, not what runs. A pod that states neither labels nor a namespace nor a wish is of
no kind: nobody can select it.

`changed`: the kinds of which pods came or went since sleeping lines were last looked at, since either can let a pod
start that affinity or spread kept waiting."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.model.shape import NodeTerm, Operator, PodTerm, Port, Requirement, Shape

ALL_NAMESPACES = "*"


class Kind:
    """Pods that look the same to others. Interned: two of a kind are the same object."""

    __slots__ = ("__weakref__", "away", "labels", "namespace", "near")

    def __init__(
        self, namespace: str, labels: tuple[tuple[str, str], ...], near: tuple[PodTerm, ...], away: tuple[PodTerm, ...]
    ) -> None:
        self.namespace, self.labels, self.near, self.away = namespace, dict(labels), near, away


class Peers:
    """Rows are those of `Columns`."""

    def __init__(self) -> None:
        self.rows: dict[Kind, dict[int, int]] = {}  # kind -> row -> its pods there
        self.wishing: dict[Kind, None] = {}  # kinds that run and want something of others
        self.changed: dict[Kind, None] = {}
        self.ports: dict[int, dict[Port, int]] = {}  # row -> the host ports in use, and by how many pods
        self._labelled: dict[tuple[str, str], dict[Kind, None]] = {}

    def add(self, kind: Kind, row: int, pods: int = 1) -> None:
        rows = self.rows.get(kind)
        if rows is None:
            rows = self.rows[kind] = {}
            for label in kind.labels.items():
                self._labelled.setdefault(label, {})[kind] = None
            if kind.near or kind.away:
                self.wishing[kind] = None
        rows[row] = rows.get(row, 0) + pods
        self.changed[kind] = None

    def remove(self, kind: Kind, row: int) -> None:
        rows = self.rows[kind]
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
        if not rows:
            self._forget(kind)
        self.changed[kind] = None

    def open_ports(self, row: int, ports: Iterable[Port]) -> None:
        used = self.ports.setdefault(row, {})
        for port in ports:
            used[port] = used.get(port, 0) + 1

    def close_ports(self, row: int, ports: Iterable[Port]) -> None:
        used = self.ports[row]
        for port in ports:
            used[port] -= 1
            if not used[port]:
                del used[port]
        if not used:
            del self.ports[row]

    def candidates(self, selector: NodeTerm) -> Iterable[Kind]:
        """The kinds that may match: those with a label that the selector's first In requires, or all."""
        for requirement in selector:
            if requirement.operator is Operator.IN:
                labels = [(requirement.key, value) for value in requirement.values]
                return {kind: None for label in labels for kind in self._labelled.get(label, ())}
        return self.rows

    def copy(self) -> Peers:
        other = Peers()
        other.rows = {kind: dict(rows) for kind, rows in self.rows.items()}
        other.wishing, other.changed = dict(self.wishing), dict(self.changed)
        other.ports = {row: dict(used) for row, used in self.ports.items()}
        other._labelled = {label: dict(kinds) for label, kinds in self._labelled.items()}
        return other

    def _forget(self, kind: Kind) -> None:
        del self.rows[kind]
        self.wishing.pop(kind, None)
        for label in kind.labels.items():
            kinds = self._labelled[label]
            del kinds[kind]
            if not kinds:
                del self._labelled[label]


def selects(selector: NodeTerm, namespaces: tuple[str, ...], kind: Kind) -> bool:
    """LabelSelector of k8s.io/apimachinery; one without requirements picks every pod of the namespaces."""
    if kind.namespace not in namespaces and ALL_NAMESPACES not in namespaces:
        return False
    return all(meets(kind.labels.get(requirement.key), requirement) for requirement in selector)


def meets(value: str | None, requirement: Requirement) -> bool:
    match requirement.operator:
        case Operator.IN:
            return value is not None and value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
    return False  # Gt and Lt are for nodes


def picks(term: PodTerm, namespace: str, kind: Kind | None) -> bool:
    """Whether the term, of a pod in that namespace, selects such pods."""
    return kind is not None and selects(term.selector, term.namespaces or (namespace,), kind)


def awaits(shape: Shape, other: Kind) -> bool:
    """Whether a pod of the other kind that comes can let one of this shape start: it must be near it, or level."""
    near = any(not term.weight and picks(term, shape.namespace, other) for term in shape.near)
    return near or any(each.required and selects(each.selector, (shape.namespace,), other) for each in shape.spread)


def concerns(shape: Shape, kind: Kind | None, other: Kind) -> bool:
    """Whether a pod of the other kind that comes or goes can let one of this shape and kind start: it must be near or
    away from it, or level with it, or the other keeps it away."""
    required = (*shape.near, *shape.away)
    return (
        any(not term.weight and picks(term, shape.namespace, other) for term in required)
        or any(each.required and selects(each.selector, (shape.namespace,), other) for each in shape.spread)
        or any(not term.weight and picks(term, other.namespace, kind) for term in other.away)
    )
