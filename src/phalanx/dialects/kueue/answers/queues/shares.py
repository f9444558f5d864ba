"""The fair share of ClusterQueues and Cohorts, as Kueue writes it to `status.fairSharing.weightedShare`.

A share is what a queue uses beyond its quota, in thousandths of what its cohort can lend, divided by its weight. It is
computed for each resource, over the sum of its flavors, and the largest result counts. Quota that a queue or cohort
does not lend because of its `lendingLimit` counts neither as quota nor as usage of the cohort above.

Sources: pkg/cache/scheduler/{fair_sharing,resource_node}.go of Kueue's main branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple, TypeAlias

from phalanx.dialects.kueue.tree.definitions import Cell, KueueDefinitions, QuotaNode, weight_of

INFINITE = 2**63 - 1  # an infinite share, as Kueue writes it

Amounts: TypeAlias = Mapping[Cell, int]


class SubtreeAmounts(NamedTuple):
    """The quota and the usage of a node and of all nodes below it. Quota that nodes below do not lend, and usage of
    that quota, are left out."""

    quota: Amounts
    used: Amounts


def shares(defined: KueueDefinitions, used: Mapping[str, Amounts]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the shares of ClusterQueues and of Cohorts, by name; none without fair sharing. `used`: ClusterQueue ->
    its reservation."""
    if not defined.configuration.fair:
        return {}, {}
    tree = CohortTree(defined, used)
    queues = {name: tree.share(each.node, tree.of_queue(name)) for name, each in defined.cluster_queues.items()}
    cohorts = {name: tree.share(node, tree.of_cohorts[name]) for name, node in defined.cohorts.items()}
    return queues, cohorts


class CohortTree:
    """The quota and usage of every Cohort and ClusterQueue. `used`: ClusterQueue -> its reservation."""

    def __init__(self, defined: KueueDefinitions, used: Mapping[str, Amounts]) -> None:
        self.defined, self.used = defined, used
        self.of_cohorts: dict[str, SubtreeAmounts] = {}
        for name in (*defined.wholes, *defined.cohorts):
            self._sum_up(name, ())

    def of_queue(self, name: str) -> SubtreeAmounts:
        return SubtreeAmounts(self.defined.cluster_queues[name].node.nominal, self.used.get(name, {}))

    def share(self, node: QuotaNode, has: SubtreeAmounts) -> int:
        """Return the share of a node; 0 if it has no parent."""
        lendable, borrowed = self._lendable(node.parent), Counter[str]()
        for cell, quota in has.quota.items():
            borrowed[cell[1]] += max(0, has.used.get(cell, 0) - quota)
        parts = [Fraction(1000 * over, lendable[name]) for name, over in borrowed.items() if over and lendable[name]]
        if not parts:
            return 0
        weight = weight_of(node.spec)
        return ceil(max(parts) / Fraction(weight)) if weight > 0 else INFINITE

    def _sum_up(self, cohort: str, above: tuple[str, ...]) -> None:
        """Compute the amounts of the cohort and of all cohorts below it. In a cycle of cohorts (an error), each cohort
        is visited once."""
        if cohort in self.of_cohorts or cohort in above:
            return
        node = self.defined.cohorts.get(cohort)
        quota, used = Counter[Cell](node.nominal if node else {}), Counter[Cell]()
        for child, has in self._children(cohort, above):
            for cell, amount in has.quota.items():
                kept = kept_amount(child, cell, amount)
                quota[cell] += amount - kept
                used[cell] += max(0, has.used.get(cell, 0) - kept)
        self.of_cohorts[cohort] = SubtreeAmounts(quota, used)

    def _children(self, cohort: str, above: tuple[str, ...]) -> Iterator[tuple[QuotaNode, SubtreeAmounts]]:
        for name, queue in self.defined.cluster_queues.items():
            if queue.node.parent == cohort:
                yield queue.node, self.of_queue(name)
        for name, node in self.defined.cohorts.items():
            if node.parent == cohort:
                self._sum_up(name, (*above, cohort))
                yield node, self.of_cohorts.get(name, SubtreeAmounts({}, {}))

    def _lendable(self, cohort: str) -> Counter[str]:
        """Return resource -> the amount that the cohort could use if all queues were empty: the quota of the root of
        its tree, plus the quota that cohorts on the path from the root do not lend, at most the limits on this path.
        Empty if there is no cohort."""
        path, found = [cohort], Counter[str]()
        while (node := self.defined.cohorts.get(path[-1])) and node.parent and node.parent not in path:
            path.append(node.parent)
        root = self.of_cohorts.get(path.pop())
        for cell, amount in root.quota.items() if root else ():
            for name in reversed(path):
                node, quota = self.defined.cohorts[name], self.of_cohorts[name].quota.get(cell, 0)
                amount += kept_amount(node, cell, quota)
                if cell in node.borrowing:
                    amount = min(amount, quota + node.borrowing[cell])
            found[cell[1]] += amount
        return found


def kept_amount(node: QuotaNode, cell: Cell, quota: int) -> int:
    """Return the part of the quota that the node does not lend."""
    return max(0, quota - node.lending[cell]) if cell in node.lending else 0
