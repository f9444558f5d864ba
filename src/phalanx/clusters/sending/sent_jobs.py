"""The jobs that are meant for other clusters, each with its latest start."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.clusters.copies.content import Sent, sent_of
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.sending.keys import Keys
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.read.workload.batch_job import BatchJob


class SentJobs:
    """The jobs by key. `keys`: the queue that gets each job whose start has changed."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._starts: dict[Key, Sent] = {}
        self._of_gang: dict[str, frozenset[Key]] = {}  # gang -> its jobs

    def __iter__(self) -> Iterator[Key]:
        return iter(self._starts)

    def __contains__(self, key: Key) -> bool:
        return key in self._starts

    def get(self, key: Key) -> Sent | None:
        """Return the latest start of the job; None if the job is not meant for another cluster."""
        return self._starts.get(key)

    def see(self, gang: GangLifecycle) -> None:
        """Store the jobs of a gang that are meant for other clusters, with their latest start."""
        now = {} if (record := gang.elsewhere) is None else dict(sent_of(gang, record))
        before = self._of_gang.pop(gang.id, frozenset())
        if now:
            self._of_gang[gang.id] = frozenset(now)
        for key in before - now.keys():
            self._starts.pop(key, None)
            self._keys.put(key)
        for key, sent in now.items():
            known = self._starts.get(key)
            self._starts[key] = sent
            if not sent.same(known):
                self._keys.put(key)

    def in_cluster(self, cluster: str) -> list[Key]:
        """Return the jobs that are meant for this cluster."""
        return [key for key, sent in self._starts.items() if sent.cluster == cluster]

    def resources(self) -> frozenset[str]:
        """Return the resources that the jobs request."""
        members = [one for sent in self._starts.values() for one in sent.members]
        shapes = (one.requirements.shape if isinstance(one, BatchJob) else one.shape for one in members)
        return frozenset(resource for shape in shapes for resource, _ in shape.requests)
