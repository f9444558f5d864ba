"""Find the jobs that hold most of a resource on the nodes that a pod may use.

The cluster state stores how much each job holds on all nodes together (`state.running.LargestConsumers`). If a
selector, taints, a flavor or cordons exclude nodes, this module computes the amounts on the remaining nodes job by job,
beginning with the largest job, until the largest jobs on these nodes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.core.placement.filters import matching
from phalanx.lazy import lazy
from phalanx.model.job import Placement
from phalanx.model.pod import Amount
from phalanx.state.classes import Gang, NodeConstraints
from phalanx.state.cluster import Cluster
from phalanx.state.running import LargestConsumers

LARGEST = 3  # the number of holders that a reason names
SEARCHED = 64  # the number of largest holders that are examined to find the largest ones on some of the nodes
NOTHING: Amount = 0
PODS = 4096  # the largest number of pods that are examined for amounts on some of the nodes; further jobs are left out


class CycleGrants(LargestConsumers):
    """The grants of a cycle so far: jobs and their placements."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, list[tuple[Gang, Sequence[Placement]]]] = {}  # job -> its grants
        self._holds: dict[tuple[str, NodeConstraints], ResourceConsumers] = {}  # a cache that each grant empties

    def note(self, gang: Gang, job: str, placements: Sequence[Placement]) -> None:
        """Note a grant."""
        self.forget()
        self.given.setdefault(job, []).append((gang, placements))
        for role, demand in enumerate(gang.demands):
            pods = sum([placement.role == role for placement in placements])
            if pods:
                self.change(job, demand.costs, pods)

    def forget(self) -> None:
        """Drop the computed consumers, because they include the grants of that time."""
        self._holds.clear()

    def holds(self, cluster: Cluster, resource: str, where: NodeConstraints) -> ResourceConsumers:
        """Return the consumers of the resource on the nodes that match now."""
        known = self._holds.get((resource, where))
        if known is None:
            known = self._holds[resource, where] = ResourceConsumers(cluster, self, resource, where)
        return known


class ResourceConsumers:
    """The amounts of one resource that jobs hold on the nodes that a pod may use. The grants of this cycle count."""

    def __init__(self, cluster: Cluster, granted: CycleGrants, resource: str, where: NodeConstraints) -> None:
        self.cluster, self.granted, self.resource = cluster, granted, resource
        facts, rows = cluster.columns.attributes, cluster.columns.row_of
        everywhere = matching.matches_all(facts, where) and matching.ready_nodes(facts) == len(rows)
        self.usable = None if everywhere else matching.matching(facts, where).tobytes()
        self.held: Mapping[str, Amount] = cluster.consumers.held.get(resource, {})
        self.given: Mapping[str, Amount] = granted.held.get(resource, {})
        self._known: dict[str, Amount] = {}
        self._pods = 0  # the number of pods that were examined so far

    def by(self, job: str) -> Amount:
        """Return the amount that the job holds on these nodes."""
        if self.usable is None:
            return self.held.get(job, 0) + self.given.get(job, 0)
        if job not in self._known:
            self._known[job] = self._looked_up(job) if self._pods < PODS else 0
        return self._known[job]

    def _looked_up(self, job: str) -> Amount:
        record, total = self.cluster.jobs[job], NOTHING
        pods = [(slot.role, node, record.gang) for slot, node in record.placements.items()]
        for gang, placements in self.granted.given.get(job, ()):
            pods += [(each.role, each.node, gang) for each in placements]
        self._pods += len(pods)
        for role, node, gang in pods:
            if self.is_usable(node):
                total += dict(gang.demands[role].costs).get(self.resource, 0)
        return total

    def is_usable(self, node: str) -> bool:
        """Return whether the pod may use the node."""
        return self.usable is None or bool(self.usable[self.cluster.columns.row_of[node]])

    @lazy
    def largest(self) -> tuple[tuple[str, Amount, str], ...]:
        """Return the largest consumers of the resource: (job, amount, its queue)."""
        cluster, default = self.cluster, self.cluster.policy.default_queue
        found = self.consumers()[:LARGEST] if self.usable is None else self.largest_there()
        return tuple([(job, amount, cluster.jobs[job].job.queue or default) for job, amount in found])

    def largest_there(self) -> list[tuple[str, Amount]]:
        """Return the largest consumers on the nodes that the pod may use, if these are not all nodes."""
        found: list[tuple[Amount, str]] = []
        for job, in_all in self.consumers():
            if len(found) == LARGEST and -found[-1][0] >= in_all:
                break
            if held := self.by(job):
                found = sorted([*found, (-held, job)])[:LARGEST]
        return [(job, -amount) for amount, job in found]

    def consumers(self) -> list[tuple[str, Amount]]:
        """Return the largest consumers on all nodes, the largest first."""
        most = LARGEST if self.usable is None else SEARCHED
        largest = self.cluster.consumers.largest(self.resource, most)
        held, given = self.held, self.given
        if not given:
            return largest
        more = list(given.items()) if len(given) <= most else self.granted.largest(self.resource, most)
        jobs = dict.fromkeys([job for job, _ in (*largest, *more)])
        both = sorted([(-held.get(job, 0) - given.get(job, 0), job) for job in jobs])
        return [(job, -amount) for amount, job in both]

    def by_others(self) -> int:
        """Return the amount that pods of other schedulers hold on these nodes."""
        if self.usable is None:
            return self.cluster.foreign_usage.get(self.resource, 0)
        held = ((node, amounts.get(self.resource, 0)) for node, amounts in self.cluster.foreign_usage_on.items())
        return sum(amount for node, amount in held if amount and self.is_usable(node))

    def nominated(self) -> int:
        """Return the amount on these nodes that is nominated to jobs, without jobs that start in this cycle."""
        has, total = self.granted.held.get(self.resource, {}), 0
        for record in (self.cluster.jobs[job] for job in self.cluster.nominated if job not in has):
            for slot, node in record.nominated.items():
                if self.is_usable(node):
                    total += record.gang.demands[slot.role].amounts.get(self.resource, 0)
        return total
