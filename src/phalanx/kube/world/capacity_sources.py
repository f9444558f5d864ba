"""The sources of capacity beyond the present nodes of the cluster: node groups, which can add nodes, and other
clusters, to which jobs are sent.

`providers.provision` implements the node groups, and `clusters.dispatch` the other clusters. This module defines the
interfaces that these two modules implement, and the functions of the world that these modules may call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from phalanx.client.kind import JOBS, Kind
from phalanx.kube.gang.effects import Member
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import Choose, any_cluster
from phalanx.model.event import Event
from phalanx.model.plan import ReleaseNodes, RequestNodes
from phalanx.model.reason import Reason


class NodeProvisioning(Protocol):
    """The node groups of a cluster, which can add and remove nodes (implemented by `providers.provision`). `wake`: a
    function that the implementation calls when it has events. `group_labels`: a map from a label (key, value) of nodes
    to the name of their group, in addition to the label `phalanx.dev/node-group`."""

    wake: Callable[[], None]
    group_labels: Mapping[tuple[str, str], str]

    def events(self) -> Sequence[Event]:
        """Return the events since the last call. The events about groups come first."""

    def apply(self, action: RequestNodes | ReleaseNodes) -> None:
        """Execute the action in the background."""

    async def run(self) -> None:
        """Execute the actions by calls to the cloud providers, until this task is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerWorld:
    """The functions that `clusters.dispatch` calls to report changes in other clusters to this cluster, which sends
    jobs to them. `wake`: called when there are events. `give_back`: called to undo a start. Its arguments are the gang,
    the number of the start, the reason, and a map from a cluster to the seconds for which the gang is not sent to that
    cluster. `report`: writes an Event about a job, with its reason and text. `kinds`: returns the kinds of jobs that
    are read. `mark`: called with a gang that must be reconciled, because another cluster may be chosen for it now."""

    wake: Callable[[], None] = lambda: None
    give_back: Callable[[str, int, Reason, Mapping[str, float]], None] = lambda *about: None
    report: Callable[[Member, str, str], None] = lambda *about: None
    kinds: Callable[[], Iterable[Kind]] = lambda: (JOBS,)
    mark: Callable[[str], None] = lambda gang: None


class OtherClusters(Protocol):
    """The clusters to which jobs are sent (implemented by `clusters.dispatch`). `choose`: a function that returns the
    clusters to which a gang may be sent."""

    choose: Choose

    def join(self, world: ManagerWorld) -> None:
        """From now on, report changes in these clusters to `world`."""

    def events(self) -> Sequence[Event]:
        """Return the events about nodes of these clusters since the last call."""

    def saw(self, gang: GangLifecycle) -> None:
        """Record the present state of a gang. The gang may then be sent to another cluster, or its copy in that cluster
        may be updated or deleted."""

    async def run(self) -> None:
        """Send jobs to the clusters and follow their state, until cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySources:
    """The sources of additional capacity for one world. `nodes`: its node groups. `clusters`: the other clusters that
    run its jobs. A source that does not exist is None."""

    nodes: NodeProvisioning | None = None
    clusters: OtherClusters | None = None

    @property
    def all(self) -> tuple[NodeProvisioning | OtherClusters, ...]:
        """Return the sources that exist, in the order in which their events are reported."""
        return tuple(source for source in (self.clusters, self.nodes) if source is not None)

    @property
    def group_labels(self) -> Mapping[tuple[str, str], str]:
        return self.nodes.group_labels if self.nodes is not None else {}

    @property
    def choose(self) -> Choose:
        return self.clusters.choose if self.clusters is not None else any_cluster

    def join(self, world: ManagerWorld) -> None:
        """Report changes to `world` from now on."""
        if self.nodes is not None:
            self.nodes.wake = world.wake
        if self.clusters is not None:
            self.clusters.join(world)
