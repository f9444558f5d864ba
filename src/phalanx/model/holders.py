"""Who holds most of a resource: asked for every reason, so it must not cost a walk over all that runs.

Per resource a heap of (-amount, job) that is pushed to when a job's holding changes; entries that are no longer true
are dropped when they come up."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from phalanx.model.amount import Amount


class Holders:
    def __init__(self) -> None:
        self.held: dict[str, dict[str, Amount]] = {}  # resource -> job -> amount
        self._heaps: dict[str, list[tuple[Amount, str]]] = {}

    def change(self, job: str, resource: str, amount: Amount) -> None:
        """The job holds `amount` more of it (less, if negative)."""
        held = self.held.setdefault(resource, {})
        now = held.get(job, 0) + amount
        if now:
            held[job] = now
        else:
            held.pop(job, None)
        heap = self._heaps.setdefault(resource, [])
        if now:
            heappush(heap, (-now, job))
        if len(heap) > 4 * len(held) + 64:
            heap[:] = [(-amount, job) for job, amount in held.items()]
            heapify(heap)

    def largest(self, resource: str, count: int) -> list[tuple[str, Amount]]:
        """The largest holders, (job, amount), largest first; equal ones by name."""
        held, heap = self.held.get(resource), self._heaps.get(resource)
        if not held or heap is None:
            return []
        found: list[tuple[Amount, str]] = []
        while heap and len(found) < count:
            entry = heappop(heap)
            if held.get(entry[1]) == -entry[0] and entry not in found:
                found.append(entry)
        for entry in found:
            heappush(heap, entry)
        return [(job, -amount) for amount, job in found]

    def copy(self) -> Holders:
        other = Holders()
        other.held = {resource: dict(held) for resource, held in self.held.items()}
        other._heaps = {resource: list(heap) for resource, heap in self._heaps.items()}
        return other
