"""Find the nodes that match a pod's node constraints, and count how many such pods each node could hold.

The rules are those of kube-scheduler's filters (k8s.io/component-helpers scheduling/corev1, plugins NodeAffinity,
TaintToleration, NodeUnschedulable, NodeResourcesFit), applied to all rows of `NodeAttributes` and `NodeTable` at once.
A node that is not ready never matches. A filter is a pair: the mask of rows that pass the filter, and a text about
nodes that fail it. The texts are used to explain to users why nodes do not match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.model.node import HARD, Taint, taint_text, tolerates
from phalanx.model.pod import Amounts, NodeTerm, Operator, Requirement, Toleration
from phalanx.state.classes import Demand, NodeConstraints
from phalanx.state.nodes.attributes import ABSENT, NodeAttributes
from phalanx.state.nodes.table import NodeTable

Rows: TypeAlias = NDArray[np.bool_]

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable")
REMEMBERED = 4096  # at most this many answers are cached with the node attributes
CELLS = 1 << 26  # the maximum number of entries of all cached masks together; an entry takes one or eight bytes


def matching(facts: NodeAttributes, where: NodeConstraints) -> Rows:
    """Return the mask of rows whose nodes match the constraints. The mask is cached with the node attributes until a
    node changes."""
    known: Rows | None = facts.derived.get(where)
    if known is not None:
        return known
    passed = facts.ready.copy()
    for _, rows in node_filters(facts, where):
        passed &= rows
    cache_answer(facts, where, passed)
    return passed


def selected(facts: NodeAttributes, where: NodeConstraints) -> Rows:
    """Return the mask of rows with a node that matches the node selector and the node affinity. Readiness and taints of
    the nodes are ignored."""
    passed = facts.names != ABSENT
    for key, value in where.selector:
        passed &= _in(facts, facts.labels.get(key), (value,))
    if where.affinity:
        passed &= np.logical_or.reduce([term_matches(facts, term) for term in where.affinity])
    return np.asarray(passed)


def cache_answer(facts: NodeAttributes, key: object, answer: object) -> None:
    """Cache an answer (a mask or a number) in the node attributes until a node changes."""
    if len(facts.derived) >= min(REMEMBERED, CELLS // facts.capacity):
        facts.derived.clear()
    facts.derived[key] = answer


def node_filters(facts: NodeAttributes, where: NodeConstraints) -> Iterator[tuple[str, Rows]]:
    """Yield the filters in the order in which they are applied. Each is a pair (text for nodes that fail the filter,
    such as "do not match …"; mask of rows that pass)."""
    if not tolerates(where.tolerations, UNSCHEDULABLE):
        yield "are unschedulable", ~facts.unschedulable
    for key, value in where.selector:
        yield f"do not match the selector {key}={value}", _in(facts, facts.labels.get(key), (value,))
    for key, value in where.within:
        yield f"are outside of {key}={value}, where its gang is", _in(facts, facts.labels.get(key), (value,))
    if where.affinity:
        passed = np.zeros(facts.capacity, np.bool_)
        for term in where.affinity:
            passed |= term_matches(facts, term)
        yield "do not match the required node affinity", passed
    for index, taints in enumerate(facts.taint_sets):
        if untolerated := next((taint for taint in taints if is_untolerated(taint, where.tolerations)), None):
            yield f"have the taint {taint_text(untolerated)}", facts.taints != index


def term_matches(facts: NodeAttributes, term: NodeTerm) -> Rows:
    """Return the mask of rows whose node meets all requirements of the term. As in Kubernetes, a term without
    requirements matches no node."""
    passed = np.full(facts.capacity, bool(term))
    for requirement in term:
        passed &= requirement_matches(facts, requirement)
    return passed


def requirement_matches(facts: NodeAttributes, requirement: Requirement) -> Rows:
    """Return the mask of rows whose node meets the requirement. The rules are those of labels.Requirement.Matches in
    k8s.io/apimachinery: a node without the label only meets NotIn and DoesNotExist."""
    column = facts.labels.get(requirement.key)
    if requirement.field:
        column = facts.names if requirement.key == "metadata.name" else None
    match requirement.operator:
        case Operator.IN:
            return _in(facts, column, requirement.values)
        case Operator.NOT_IN:
            return ~_in(facts, column, requirement.values)
        case Operator.EXISTS:
            return np.zeros(facts.capacity, np.bool_) if column is None else column != ABSENT
        case Operator.DOES_NOT_EXIST:
            return np.ones(facts.capacity, np.bool_) if column is None else column == ABSENT
        case Operator.GT:
            return _beyond(facts, column, requirement.values, sign=1)
        case Operator.LT:
            return _beyond(facts, column, requirement.values, sign=-1)


def is_untolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether a pod with these tolerations may not be placed on a node with this taint."""
    return taint.effect in HARD and not tolerates(tolerations, taint)


def _in(facts: NodeAttributes, column: NDArray[np.int32] | None, values: tuple[str, ...]) -> Rows:
    """Return the mask of rows whose value in the column is one of `values`."""
    codes = [facts.codes[value] for value in values if value in facts.codes]
    if column is None or not codes:
        return np.zeros(facts.capacity, np.bool_)
    return column == codes[0] if len(codes) == 1 else np.isin(column, codes)


def _beyond(facts: NodeAttributes, column: NDArray[np.int32] | None, values: tuple[str, ...], *, sign: int) -> Rows:
    """Return the mask of rows that meet a requirement with the operator Gt (`sign` 1) or Lt (`sign` -1). A row matches
    only if its value and the value of the requirement are integers."""
    passed = np.zeros(facts.capacity, np.bool_)
    bound = _integer(values[0]) if len(values) == 1 else None
    if column is None or bound is None:
        return passed
    for row in (column != ABSENT).nonzero()[0].tolist():
        value = _integer(facts.values[column[row]])
        passed[row] = value is not None and sign * value > sign * bound
    return passed


def _integer(text: str) -> int | None:
    """Return the integer in the text; None if the text is no integer. As in Go's strconv.ParseInt(text, 10, 64), spaces
    and underscores are not allowed."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    return int(text) if digits.isascii() and digits.isdigit() else None


def empty_capacity(columns: NodeTable, demand: Demand) -> int:
    """Return how many pods of the demand would fit on all matching nodes together if the nodes were empty. The result
    is cached with the node attributes."""
    known: int | None = columns.attributes.derived.get(demand)
    if known is None:
        rows = matching(columns.attributes, demand.where).nonzero()[0]
        known = int(pods_held(columns.allocatable, demand.asks, rows).sum())
        cache_answer(columns.attributes, demand, known)
    return known


def pods_held(columns: Mapping[str, NDArray[np.int64]], asks: Amounts, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return for each of `rows` the number of pods with the requests `asks` that fit. `columns`: resource -> the amount
    of each row."""
    most: NDArray[np.int64] | None = None
    for resource, amount in asks:
        column = columns.get(resource)
        if column is None:
            return np.zeros(len(rows), np.int64)
        pods = column[rows] if amount == 1 else column[rows] // amount
        most = pods if most is None else np.minimum(most, pods, out=most)
    assert most is not None  # every pod requests at least the resource `pods`
    return np.maximum(most, 0, out=most)


def rows_that_fit(columns: Mapping[str, NDArray[np.int64]], asks: Amounts, allowed: Rows) -> NDArray[np.intp]:
    """Return the allowed rows on which at least one pod with the requests `asks` fits."""
    fits = allowed
    for resource, amount in asks:
        column = columns.get(resource)
        if column is None:
            return np.zeros(0, np.intp)
        fits = fits & (column >= amount)
    return fits.nonzero()[0]
