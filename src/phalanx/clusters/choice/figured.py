"""The workers as one node each, from the figures that the scheduler has written: for commands that decide again on a
snapshot, and have no connection to workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from phalanx.client.kind import Kind
from phalanx.clusters.choice.choices import Choices
from phalanx.clusters.workers.mirror import whole_cluster
from phalanx.clusters.workers.state import read_figures
from phalanx.dialects.kueue.tree.multi import is_active
from phalanx.kube.gang.effects import Member
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import Choose
from phalanx.model.event import Event, NodeSeen
from phalanx.model.reason import Reason


class FiguredClusters:
    """The other clusters of a snapshot, as `kube.routing.watch.OtherClusters`. `clusters`: returns the
    MultiKueueClusters by name."""

    def __init__(self, clusters: Callable[[], Mapping[str, dict[str, Any]]]) -> None:
        self.wake: Callable[[], None] = lambda: None
        self.give_back: Callable[[str, int, Reason, Mapping[str, float]], None] = lambda *about: None
        self.report: Callable[[Member, str, str], None] = lambda *about: None
        self.kinds: Callable[[], Iterable[Kind]] = tuple
        self.mark: Callable[[str], None] = lambda gang: None
        self._clusters = clusters
        self.choose: Choose = Choices({}, clusters, lambda: 0.0, lambda gang: None).choose
        self._ours: dict[str, dict[str, int]] = {}  # cluster -> the requests of jobs that were sent there

    def saw(self, gang: GangLifecycle) -> None:
        """Count the requests of a gang that was sent to a worker. Each gang of a snapshot is seen once."""
        if (record := gang.elsewhere) is None or gang.spec is None:
            return
        total = self._ours.setdefault(record.cluster, {})
        for role in gang.spec.job.roles:
            for resource, amount in role.shape.requests:
                total[resource] = total.get(resource, 0) + role.count * amount

    def events(self) -> Sequence[Event]:
        """Return one node for each worker. The figures count pods of sent jobs as used, and the core charges these jobs
        too, so their requests are added."""
        found = list[Event]()
        for name, obj in self._clusters().items():
            figures, ours = read_figures(obj), self._ours.get(name, {})
            has = {
                resource: max(ours.get(resource, 0), amount - figures.used.get(resource, 0) + ours.get(resource, 0))
                for resource, amount in (figures.has or dict.fromkeys(ours, 0)).items()
            }
            found.append(NodeSeen(whole_cluster(name, has, reachable=is_active(obj))))
        return found

    async def run(self) -> None:
        """Do nothing: a snapshot has no time."""
