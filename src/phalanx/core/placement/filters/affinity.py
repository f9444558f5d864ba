"""Pod affinity, anti-affinity, topology spread, host ports, and preferences.

The rules are those of kube-scheduler's plugins InterPodAffinity, PodTopologySpread, NodePorts, NodeAffinity and
TaintToleration. Pods of a gang that are already placed count as running pods when the next pod of the gang is placed.

Required rules. Each rule is a pair (text, mask). The text describes nodes that fail the rule. The mask is True for each
row that passes the rule. The rules are:

- *ports*: none of the pod's host ports is in use on the node.
- *affinity*: for every term, the node's topology domain must have a pod that all the terms select. If the terms select
  the new pod itself, but no pod in any domain, the new pod may use any node that has the topology labels.
- *anti-affinity*: no anti-affinity term of the pod selects a pod in the node's domain, and no running pod in that
  domain has an anti-affinity term that selects this pod.
- *spread*: with the new pod, the node's domain would have at most `max_skew` more pods than the domain with the fewest
  pods. A domain counts if it has a node that matches the pod's selector and node affinity and has the labels of all the
  pod's constraints. If there are fewer than `min_domains` domains, the smallest number of pods is taken as 0. Taints
  and readiness of nodes are ignored (nodeTaintsPolicy Ignore). Only pods of the pod's own namespace are counted.

Preferences. The score of each preference is normalized to 0 … 100 over the nodes that pass all rules. It is then
multiplied by kube-scheduler's default weight: taints with PreferNoSchedule (3), node affinity (2), pod affinity (2),
spread (2). The score for pod affinity also counts terms of other pods that select the new pod. A preferred term counts
with its own weight, a required affinity term with the weight 1 (hardPodAffinityWeight).

This module also counts pods by selector and topology domain. The counts include pods that the cycle has placed on its
draft, the view of the free capacity while the cycle decides.

A *tally* is an array: for each row, the number of pods that a selector picks. A tally is computed when a demand first
needs it, from the cluster state's pod index and from the pods on the draft. Whenever a pod is placed on the draft or
removed from it, all existing tallies whose selector picks this pod are updated. The sum of a tally's entries over all
nodes with the same value of a label is the number of picked pods in that domain. Demands without rules about other pods
need no tallies, and so take no time in this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters import matching
from phalanx.core.placement.filters.matching import Rows
from phalanx.model.node import tolerates
from phalanx.model.pod import HostPort, NodeTerm, Operator, PodAffinityTerm, Toleration, TopologySpread
from phalanx.state.classes import AffinityClass, Demand
from phalanx.state.nodes.attributes import ABSENT
from phalanx.state.nodes.pod_index import selector_matches, term_matches
from phalanx.state.nodes.table import NodeTable

Counts: TypeAlias = NDArray[np.int64]


class PodCounts:
    """The tallies of one draft.

    `with_affinity`: the affinity classes of pods that run or were placed on the draft, if the class has affinity terms.
    Classes are never removed."""

    def __init__(self, columns: NodeTable) -> None:
        self.columns = columns
        self.book = columns.pod_index
        self.with_affinity: dict[AffinityClass, None] = dict(self.book.with_affinity)
        # Class -> row -> the number of pods that the draft has added (negative: removed).
        self._placed: dict[AffinityClass, dict[int, int]] = {}
        self._ports: dict[int, dict[HostPort, int]] = {}
        self._tallies: dict[object, tuple[Callable[[AffinityClass], bool], Counts]] = {}
        self._entered: dict[AffinityClass, list[Counts]] = {}  # class -> the tallies that count its pods

    def note(self, kind: AffinityClass, row: int, pods: int) -> None:
        """Count `pods` more pods of the class on the row (fewer pods if `pods` is negative) in all tallies that select
        the class."""
        if (kind.near or kind.away) and kind not in self.with_affinity:
            self.with_affinity[kind] = None
        rows = self._placed.setdefault(kind, {})
        rows[row] = rows.get(row, 0) + pods
        for tally in self._picking(kind):
            tally[row] += pods

    def note_ports(self, row: int, ports: tuple[HostPort, ...], pods: int) -> None:
        """Record that `pods` more pods on the row use these host ports (fewer pods if `pods` is negative)."""
        used = self._ports.setdefault(row, {})
        for port in ports:
            used[port] = used.get(port, 0) + pods

    def selected(self, terms: tuple[PodAffinityTerm, ...], namespace: str) -> Counts:
        """Return for each row the number of pods that all of the terms select. `namespace`: the namespace of the pod
        that has the terms."""
        key = (terms, namespace)
        picks = [(term.selector, term.namespaces or (namespace,)) for term in terms]
        selectors = (term.selector for term in terms)
        return self._tally(key, lambda kind: all(selector_matches(*each, kind) for each in picks), next(selectors))

    def labelled(self, selector: NodeTerm, namespace: str) -> Counts:
        """Return for each row the number of pods that are in the namespace and match the selector."""
        return self._tally((selector, namespace), lambda kind: selector_matches(selector, (namespace,), kind), selector)

    def of_kind(self, kind: AffinityClass) -> Counts:
        """Return for each row the number of pods of the class."""
        return self._tally(kind, lambda other: other is kind, None, (kind,))

    def by_domain(self, counts: Counts, topology: str) -> tuple[Counts, NDArray[np.int32]]:
        """Return (sums, codes). `codes`: the number (code) of each row's domain. `sums`: the number of pods in each
        domain, by code. So `sums[codes]` is the number of pods in each row's domain. Rows without the label have the
        code 0 and the sum 0."""
        codes = self.columns.attributes.labels.get(topology)
        if codes is None:
            codes = np.zeros(len(counts), np.int32)
        sums = np.bincount(codes, weights=counts).astype(np.int64)
        sums[0] = 0
        return sums, codes

    def taken_ports(self, ports: tuple[HostPort, ...]) -> list[int]:
        """Return the rows on which one of the ports is in use."""
        rows: dict[int, None] = {}
        for row in (*self.book.ports, *self._ports):
            used, placed = self.book.ports.get(row, {}), self._ports.get(row, {})
            if any(
                ports_conflict(port, other)
                for other in (*used, *placed)
                if used.get(other, 0) + placed.get(other, 0) > 0
                for port in ports
            ):
                rows[row] = None
        return list(rows)

    def _tally(
        self,
        key: object,
        picks: Callable[[AffinityClass], bool],
        selector: NodeTerm | None,
        kinds: tuple[AffinityClass, ...] = (),
    ) -> Counts:
        known = self._tallies.get(key)
        if known is not None:
            return known[1]
        counts = np.zeros(self.columns.capacity, np.int64)
        for kind in kinds if selector is None else self.book.candidates(selector):
            rows = self.book.rows.get(kind)
            if rows and picks(kind):
                counts[np.fromiter(rows, np.intp, len(rows))] += np.fromiter(rows.values(), np.int64, len(rows))
        for kind, placed in self._placed.items():
            if picks(kind):
                for row, pods in placed.items():
                    counts[row] += pods
        for kind, entered in self._entered.items():
            if picks(kind):
                entered.append(counts)
        self._tallies[key] = (picks, counts)
        return counts

    def _picking(self, kind: AffinityClass) -> list[Counts]:
        known = self._entered.get(kind)
        if known is None:
            known = self._entered[kind] = [counts for picks, counts in self._tallies.values() if picks(kind)]
        return known


def ports_conflict(port: HostPort, other: HostPort) -> bool:
    """Return whether the two ports cannot both be open on one node. Two ports conflict if they have the same number and
    protocol, and the same address. An empty address and 0.0.0.0 mean all addresses, so they conflict with any
    address."""
    if (port.number, port.protocol) != (other.number, other.protocol):
        return False
    everywhere = {"", "0.0.0.0"}  # noqa: S104  # compared with, not bound to
    return port.address == other.address or bool({port.address, other.address} & everywhere)


Points = NDArray[np.float64]

REQUIRED_COUNTS = 1
TAINTS, NODE_AFFINITY, POD_AFFINITY, SPREAD = 3, 2, 2, 2


class PodAffinity:
    """The rules between the pods of one demand and other pods (affinity, spread, ports), evaluated on one draft. Counts
    and masks have one entry for each row of the node table."""

    def __init__(self, company: PodCounts, demand: Demand) -> None:
        self.pod_counts, self.columns = company, company.columns
        shape = demand.shape
        self.shape, self.kind, self.where = shape, demand.kind, demand.where
        self.near = tuple(term for term in shape.near if not term.weight)
        self.away = tuple(term for term in shape.away if not term.weight)
        self.softly = tuple((term, term.weight) for term in shape.near if term.weight)
        self.softly += tuple((term, -term.weight) for term in shape.away if term.weight)
        self.required = tuple(spread for spread in shape.spread if spread.required)
        self.preferred = tuple(spread for spread in shape.spread if not spread.required)

    def rules(self) -> Iterator[tuple[str, Rows]]:
        """Yield a pair for each required rule of the pod: (a text for nodes that fail the rule, the mask of rows that
        pass it)."""
        if self.shape.ports:
            yield "have the host port in use", self.ports()
        if self.near:
            yield from self.affinity()
        for term in self.away:
            counts = self.pod_counts.selected((term,), self.shape.namespace)
            sums, codes = self.pod_counts.by_domain(counts, term.topology)
            yield (
                f"are, by {term.topology}, with a pod ({selector_text(term.selector)}) that it must be away from",
                (sums[codes] == 0),
            )
        for kind, term in self.repelling():
            sums, codes = self.pod_counts.by_domain(self.pod_counts.of_kind(kind), term.topology)
            yield f"are in one {term.topology} with a pod that must be away from it", sums[codes] == 0
        for spread in self.required:
            yield f"would spread it over {spread.topology} by more than {spread.max_skew}", self.level(spread)

    def heeds(self) -> bool:
        """Return whether other pods could prevent the pod from running on a node with enough capacity, because of
        affinity, anti-affinity or spread."""
        return bool(self.near or self.away or self.required) or any(True for _ in self.repelling())

    def ports(self) -> Rows:
        """Return the mask of rows on which the pod's host ports are free."""
        free = np.ones(self.columns.capacity, np.bool_)
        free[self.pod_counts.taken_ports(self.shape.ports)] = False
        return free

    def affinity(self) -> Iterator[tuple[str, Rows]]:
        """Yield a pair (text, mask of rows that pass) for each required affinity term."""
        counts = self.pod_counts.selected(self.near, self.shape.namespace)
        first = self.is_first(counts)
        for term in self.near:
            sums, codes = self.pod_counts.by_domain(counts, term.topology)
            passed = codes != ABSENT if first else sums[codes] > 0
            yield (
                f"are not in one {term.topology} with a pod ({selector_text(term.selector)}) that it must be near",
                passed,
            )

    def is_first(self, counts: Counts | None = None) -> bool:
        """Return whether the pod is the first of its kind: its required affinity terms select the pod itself, but no
        domain has a pod that they select."""
        if counts is None:
            counts = self.pod_counts.selected(self.near, self.shape.namespace)
        if any(self.pod_counts.by_domain(counts, term.topology)[0].any() for term in self.near):
            return False
        return all(term_matches(term, self.shape.namespace, self.kind) for term in self.near)

    def repelling(self) -> Iterator[tuple[AffinityClass, PodAffinityTerm]]:
        """Yield (affinity class of a running pod, term) for each required anti-affinity term of running pods that
        selects this pod."""
        for kind in self.pod_counts.with_affinity:
            for term in kind.away:
                if not term.weight and term_matches(term, kind.namespace, self.kind):
                    yield kind, term

    def level(self, spread: TopologySpread) -> Rows:
        """Return the mask of rows on which the new pod would not exceed the maximal skew of the constraint `spread`."""
        has = self.spreadable(self.required)
        counts = np.where(has, self.pod_counts.labelled(spread.selector, self.shape.namespace), 0)
        sums, codes = self.pod_counts.by_domain(counts, spread.topology)
        domains = np.unique(codes[has])
        least = int(sums[domains].min(initial=2**62)) if len(domains) >= spread.min_domains else 0
        itself = int(self.kind is not None and selector_matches(spread.selector, (self.shape.namespace,), self.kind))
        passed: Rows = (codes != ABSENT) & (sums[codes] + itself - least <= spread.max_skew)
        return passed

    def spreadable(self, spreads: tuple[TopologySpread, ...]) -> Rows:
        """Return the mask of the nodes whose pods are counted for topology spread. A node counts if it matches the
        pod's selector and node affinity, and has the topology labels of all constraints in `spreads`."""
        has = matching.selected(self.columns.attributes, self.where)
        for spread in spreads:
            codes = self.columns.attributes.labels.get(spread.topology)
            has = has & (np.zeros(len(has), np.bool_) if codes is None else codes != ABSENT)
        return has

    # Preferences

    def points(self, rows: NDArray[np.intp]) -> Points | None:
        """Return the preference score of each row in `rows`; None if none of the preferences applies to the pod."""
        total: Points | None = None
        for weight, found in (
            (TAINTS, self.taints(rows)),
            (NODE_AFFINITY, self.preferences(rows)),
            (POD_AFFINITY, self.affinities(rows)),
            (SPREAD, self.evenness(rows)),
        ):
            if found is not None:
                total = weight * found if total is None else total + weight * found
        return total

    def taints(self, rows: NDArray[np.intp]) -> Points | None:
        """Return the score of each row in `rows` by PreferNoSchedule taints; None if no node has such a taint that the
        pod does not tolerate."""
        counted = soft_taints(self.columns, self.where.tolerations)
        return None if counted is None else 100 - normalized(counted[rows])

    def preferences(self, rows: NDArray[np.intp]) -> Points | None:
        """Return the score of each row in `rows` by preferred node affinity; None if the pod has no preferred node
        affinity."""
        if not self.shape.preferences:
            return None
        total = np.zeros(self.columns.capacity, np.float64)
        for preference in self.shape.preferences:
            total += preference.weight * matching.term_matches(self.columns.attributes, preference.term)
        return normalized(total[rows])

    def affinities(self, rows: NDArray[np.intp]) -> Points | None:
        """Return the score of each row in `rows` by pod affinity: by the preferred terms of this pod, and by the terms
        of other pods that select this pod. Return None if neither this pod nor another pod has a term that counts."""
        total: Points | None = None
        for counts, term, weight in self.attractions():
            sums, codes = self.pod_counts.by_domain(counts, term.topology)
            found = weight * sums[codes[rows]].astype(np.float64)
            total = found if total is None else total + found
        if total is None or not len(total):
            return None
        low, high = total.min(), total.max()
        return np.floor(100 * (total - low) / (high - low)) if high > low else np.zeros(len(total))

    def attractions(self) -> Iterator[tuple[Counts, PodAffinityTerm, int]]:
        """Yield (number of pods on each row, term, weight) for each term that affects the score. For a preferred term
        of this pod, the pods that the term selects are counted. For a term of other pods that selects this pod, the
        pods that have the term are counted. The weight of an anti-affinity term is negative."""
        for term, weight in self.softly:
            yield self.pod_counts.selected((term,), self.shape.namespace), term, weight
        for kind in self.pod_counts.with_affinity:
            terms = [(term, term.weight or REQUIRED_COUNTS) for term in kind.near]
            terms += [(term, -term.weight) for term in kind.away if term.weight]
            for term, weight in terms:
                if term_matches(term, kind.namespace, self.kind):
                    yield self.pod_counts.of_kind(kind), term, weight

    def evenness(self, rows: NDArray[np.intp]) -> Points | None:
        """Return the score of each row in `rows` by preferred topology spread. A node whose domain has fewer pods gets
        a higher score. Each constraint has the weight log(number of its domains + 2). Nodes without the topology label
        of every constraint get 0."""
        if not self.preferred or not len(rows):
            return None
        has = self.spreadable(self.preferred)
        cost = np.zeros(len(rows), np.float64)
        for spread in self.preferred:
            counts = np.where(has, self.pod_counts.labelled(spread.selector, self.shape.namespace), 0)
            sums, codes = self.pod_counts.by_domain(counts, spread.topology)
            domains = len(np.unique(codes[rows][has[rows]]))
            cost += sums[codes[rows]] * np.log(domains + 2) + (spread.max_skew - 1)
        there = has[rows]
        if not there.any():
            return np.zeros(len(rows))
        cost = np.round(cost)
        low, high = cost[there].min(), cost[there].max()
        points = np.floor(100 * (high + low - cost) / high) if high else np.full(len(rows), 100.0)
        return np.where(there, points, 0.0)


def soft_taints(columns: NodeTable, tolerations: tuple[Toleration, ...]) -> Points | None:
    """Return for each row the number of PreferNoSchedule taints that the pod does not tolerate; None if no node has
    such a taint."""
    facts = columns.attributes
    counted = np.zeros(len(facts.taint_sets), np.float64)
    for index, taints in enumerate(facts.taint_sets):
        counted[index] = sum(
            taint.effect == "PreferNoSchedule" and not tolerates(tolerations, taint) for taint in taints
        )
    return counted[facts.taints] if counted.any() else None


def normalized(points: Points) -> Points:
    """Scale the scores so that the highest is 100 (DefaultNormalizeScore)."""
    high = points.max(initial=0.0)
    return np.floor(100 * points / high) if high > 0 else points


def selector_text(selector: NodeTerm) -> str:
    """Return the selector as kubectl writes it: `app=web,tier in (a, b)`."""
    parts = []
    for each in selector:
        listed = ", ".join(each.values)
        match each.operator:
            case Operator.IN if len(each.values) == 1:
                parts.append(f"{each.key}={listed}")
            case Operator.IN | Operator.NOT_IN:
                parts.append(f"{each.key} {'in' if each.operator is Operator.IN else 'notin'} ({listed})")
            case Operator.DOES_NOT_EXIST:
                parts.append(f"!{each.key}")
            case _:
                parts.append(each.key)
    return ",".join(parts) or "any"
