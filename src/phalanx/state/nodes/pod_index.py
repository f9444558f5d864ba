"""Index the pods on each node, for the rules of pod affinity, topology spread and host ports.

For each affinity class the index has the number of pods on each row (node). The index is updated whenever a pod is
charged to a node or released. To evaluate a selector, the numbers of pods of all matching classes are added up. The
time for this depends on the number of classes, not on the number of running pods. A pod without namespace, labels and
affinity terms has no class, because no selector can match it.

`changed`: the affinity classes of pods that have been added or removed since a cycle last examined the pending jobs.
When a pod is added or removed, another pod that waits because of affinity or spread may be able to start.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.model.pod import ALL_NAMESPACES, HostPort, NodeTerm, Operator, PodAffinityTerm, Requirement, Shape
from phalanx.state.classes import AffinityClass


class PodIndex:
    """The pods of each affinity class, and the host ports in use, by row of `NodeTable`.

    `rows`: affinity class -> row -> number of pods of the class on the row.
    `with_affinity`: the classes that have affinity or anti-affinity terms and at least one pod on a node.
    `ports`: row -> host port -> number of pods that use it."""

    def __init__(self) -> None:
        self.rows: dict[AffinityClass, dict[int, int]] = {}
        self.with_affinity: dict[AffinityClass, None] = {}
        self.changed: dict[AffinityClass, None] = {}
        self.ports: dict[int, dict[HostPort, int]] = {}
        self._labelled: dict[tuple[str, str], dict[AffinityClass, None]] = {}

    def add(self, kind: AffinityClass, row: int, pods: int = 1) -> None:
        """Add `pods` pods of the class to the row."""
        rows = self.rows.get(kind)
        if rows is None:
            rows = self.rows[kind] = {}
            for label in kind.labels.items():
                self._labelled.setdefault(label, {})[kind] = None
            if kind.near or kind.away:
                self.with_affinity[kind] = None
        rows[row] = rows.get(row, 0) + pods
        self.changed[kind] = None

    def remove(self, kind: AffinityClass, row: int) -> None:
        """Remove one pod of the class from the row."""
        rows = self.rows[kind]
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
        if not rows:
            self._forget(kind)
        self.changed[kind] = None

    def open_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        """Record that a pod on the row uses these host ports."""
        used = self.ports.setdefault(row, {})
        for port in ports:
            used[port] = used.get(port, 0) + 1

    def close_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        """Record that a pod on the row no longer uses these host ports."""
        used = self.ports[row]
        for port in ports:
            used[port] -= 1
            if not used[port]:
                del used[port]
        if not used:
            del self.ports[row]

    def candidates(self, selector: NodeTerm) -> Iterable[AffinityClass]:
        """Return the classes that may match the selector. If the selector has an `In` requirement, these are the
        classes with a label that meets its first `In` requirement. Otherwise these are all classes."""
        for requirement in selector:
            if requirement.operator is Operator.IN:
                labels = [(requirement.key, value) for value in requirement.values]
                return {kind: None for label in labels for kind in self._labelled.get(label, ())}
        return self.rows

    def copy(self) -> PodIndex:
        other = PodIndex()
        other.rows = {kind: dict(rows) for kind, rows in self.rows.items()}
        other.with_affinity, other.changed = dict(self.with_affinity), dict(self.changed)
        other.ports = {row: dict(used) for row, used in self.ports.items()}
        other._labelled = {label: dict(kinds) for label, kinds in self._labelled.items()}
        return other

    def _forget(self, kind: AffinityClass) -> None:
        del self.rows[kind]
        self.with_affinity.pop(kind, None)
        for label in kind.labels.items():
            kinds = self._labelled[label]
            del kinds[kind]
            if not kinds:
                del self._labelled[label]


def selector_matches(selector: NodeTerm, namespaces: tuple[str, ...], kind: AffinityClass) -> bool:
    """Return whether the selector selects pods of the class, by the rules of LabelSelector in k8s.io/apimachinery. A
    selector without requirements selects every pod of the namespaces."""
    if kind.namespace not in namespaces and ALL_NAMESPACES not in namespaces:
        return False
    return all(requirement_holds(kind.labels.get(requirement.key), requirement) for requirement in selector)


def requirement_holds(value: str | None, requirement: Requirement) -> bool:
    """Return whether a label value meets the requirement. `value`: the label value, or None if the pod has no such
    label. The operators Gt and Lt are only for nodes; for pods the result is False."""
    match requirement.operator:
        case Operator.IN:
            return value is not None and value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
    return False  # Gt and Lt exist only in selectors of nodes


def term_matches(term: PodAffinityTerm, namespace: str, kind: AffinityClass | None) -> bool:
    """Return whether the affinity term selects pods of the class. `namespace`: the namespace of the pod with the
    term."""
    return kind is not None and selector_matches(term.selector, term.namespaces or (namespace,), kind)


def arrival_may_help(shape: Shape, other: AffinityClass) -> bool:
    """Return whether a waiting pod of this shape may be able to start after a pod of class `other` was added to a node.
    This is the case if required affinity or a required spread constraint of the shape selects the added pod."""
    near = any(not term.weight and term_matches(term, shape.namespace, other) for term in shape.near)
    return near or any(
        each.required and selector_matches(each.selector, (shape.namespace,), other) for each in shape.spread
    )


def change_may_help(shape: Shape, kind: AffinityClass | None, other: AffinityClass) -> bool:
    """Return whether a waiting pod of this shape may be able to start after a pod of class `other` was added to a node
    or removed from it. This is the case if a required affinity term or spread constraint of the shape selects the other
    pod, or if required anti-affinity of the other pod selects the waiting pod. `kind`: the affinity class of the
    waiting pod."""
    required = (*shape.near, *shape.away)
    return (
        any(not term.weight and term_matches(term, shape.namespace, other) for term in required)
        or any(each.required and selector_matches(each.selector, (shape.namespace,), other) for each in shape.spread)
        or any(not term.weight and term_matches(term, other.namespace, kind) for term in other.away)
    )
