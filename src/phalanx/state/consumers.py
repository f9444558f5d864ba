"""Who holds most of a resource: asked for every reason, so it must not cost a walk over all that runs.

For each resource that was ever asked about: a heap of (-amount, job) that is pushed to when a job's holding changes,
whose entries that are no longer true are dropped when they come up; and the last answer, until somebody in it holds
another amount, or somebody else as much."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from phalanx.model.amount import Amount


class LargestConsumers:
    def __init__(self) -> None:
        self.held: dict[str, dict[str, Amount]] = {}  # resource -> job -> amount
        self._heaps: dict[str, list[tuple[Amount, str]]] = {}
        self._largest: dict[str, tuple[int, list[tuple[str, Amount]]]] = {}  # how many were asked for, and the answer

    def change(self, job: str, costs: Iterable[tuple[str, Amount]], pods: int) -> None:
        """The job holds that many pods' worth more (less, if negative)."""
        for resource, amount in costs:
            held = self.held.get(resource)
            if held is None:
                held = self.held[resource] = {}
            before = held.get(job, 0)
            now = before + amount * pods
            if now:
                held[job] = now
            else:
                held.pop(job, None)
            if resource in self._heaps:
                self._note(resource, job, now, max(before, now))

    def _note(self, resource: str, job: str, now: Amount, most: Amount) -> None:
        """`most`: the more of what it holds now and before."""
        if known := self._largest.get(resource):
            count, found = known
            if len(found) < count or most >= found[-1][1]:
                del self._largest[resource]
        heap, held = self._heaps[resource], self.held[resource]
        if now:
            heappush(heap, (-now, job))
        if len(heap) > 4 * len(held) + 64:
            heap[:] = [(-amount, job) for job, amount in held.items()]
            heapify(heap)

    def largest(self, resource: str, count: int) -> list[tuple[str, Amount]]:
        """The largest holders, (job, amount), largest first; equal ones by name."""
        known = self._largest.get(resource)
        if known is None or known[0] != count:
            known = self._largest[resource] = count, self._found(resource, count)
        return known[1]

    def _found(self, resource: str, count: int) -> list[tuple[str, Amount]]:
        held, heap = self.held.get(resource, {}), self._heaps.get(resource)
        if heap is None:
            heap = self._heaps[resource] = [(-amount, job) for job, amount in held.items()]
            heapify(heap)
        found: list[tuple[Amount, str]] = []
        while heap and len(found) < count:
            entry = heappop(heap)
            if held.get(entry[1]) == -entry[0] and entry not in found:
                found.append(entry)
        for entry in found:
            heappush(heap, entry)
        return [(job, -amount) for amount, job in found]

    def copy(self) -> LargestConsumers:
        other = LargestConsumers()
        other.held = {resource: dict(held) for resource, held in self.held.items()}
        return other
