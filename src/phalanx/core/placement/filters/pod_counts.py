"""Count pods by selector and topology domain, with the pods that the draft has placed.

A *tally* is an array: for each row, the number of pods that a selector picks. It is created when a demand first needs
it, from the matching affinity classes of the pod index and from the pods on the draft. From then on every pod that the
draft places or removes is entered in the tallies that pick it. The sum by the codes of a node label is the number of
picked pods in each domain. Only demands that need tallies pay for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.model.pod import HostPort, NodeTerm, PodAffinityTerm
from phalanx.state.classes import AffinityClass
from phalanx.state.nodes.pod_index import selector_matches
from phalanx.state.nodes.table import NodeTable

Counts: TypeAlias = NDArray[np.int64]


class PodCounts:
    """The tallies of one draft.

    `with_affinity`: the affinity classes of running or placed pods that have affinity terms. The set only grows."""

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
        """Add `pods` pods of the class on the row to the tallies (negative: remove them)."""
        if (kind.near or kind.away) and kind not in self.with_affinity:
            self.with_affinity[kind] = None
        rows = self._placed.setdefault(kind, {})
        rows[row] = rows.get(row, 0) + pods
        for tally in self._picking(kind):
            tally[row] += pods

    def note_ports(self, row: int, ports: tuple[HostPort, ...], pods: int) -> None:
        """Add the host ports of `pods` pods on the row (negative: remove them)."""
        used = self._ports.setdefault(row, {})
        for port in ports:
            used[port] = used.get(port, 0) + pods

    def selected(self, terms: tuple[PodAffinityTerm, ...], namespace: str) -> Counts:
        """Return for each row the number of pods that all of the terms select. `namespace`: the namespace of the pod
        with the terms."""
        key = (terms, namespace)
        picks = [(term.selector, term.namespaces or (namespace,)) for term in terms]
        selectors = (term.selector for term in terms)
        return self._tally(key, lambda kind: all(selector_matches(*each, kind) for each in picks), next(selectors))

    def labelled(self, selector: NodeTerm, namespace: str) -> Counts:
        """Return for each row the number of pods of the namespace that the selector picks."""
        return self._tally((selector, namespace), lambda kind: selector_matches(selector, (namespace,), kind), selector)

    def of_kind(self, kind: AffinityClass) -> Counts:
        """Return for each row the number of pods of the class."""
        return self._tally(kind, lambda other: other is kind, None, (kind,))

    def by_domain(self, counts: Counts, topology: str) -> tuple[Counts, NDArray[np.int32]]:
        """Return (sums, codes). `sums`: for each code of a label value, the number of pods in this domain. `codes`: the
        code of each row. So `sums[codes]` is the number of pods in each row's domain. Rows without the label have the
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
    """Return whether the two ports cannot both be open on one node: same number and protocol, and one of them on every
    address, or both on the same."""
    if (port.number, port.protocol) != (other.number, other.protocol):
        return False
    everywhere = {"", "0.0.0.0"}  # noqa: S104  # compared with, not bound to
    return port.address == other.address or bool({port.address, other.address} & everywhere)
