"""Watch all kinds, in the order in which decisions need them: quotas and nodes before queues, queues before Jobs, Jobs
before pods.

A change becomes an event for the core, or is passed to its gang, which is marked. The owner of the gangs reconciles
marked gangs, once for all changes that came together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, NODES, PODS, RESOURCE_QUOTAS, Kind
from phalanx.kube.gang.effects import Member
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.gang_spec import Choose, GangDefaults, SubmissionTime, any_cluster
from phalanx.kube.install.definitions import FLAVORS, QUEUES, RESERVATIONS
from phalanx.kube.routing.caches import STORAGE, ObjectCaches
from phalanx.kube.routing.capacity_watch import CapacityWatch
from phalanx.kube.routing.fence import Fence, Take
from phalanx.kube.routing.quota_headroom import QuotaHeadroom
from phalanx.kube.routing.volume_users import VolumeUsers
from phalanx.kube.routing.workload_watch import WorkloadWatch
from phalanx.model.event import Event
from phalanx.model.reason import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerWorld:
    """The ways in which other clusters report news to the world of the cluster that sends jobs to them. `wake`: called
    when there are events. `give_back`: called with a gang, the number of its start, the reason why it is taken back,
    and the clusters that do not get it for a time (in seconds). `report`: writes an Event about a job: its reason and
    text. `kinds`: returns the kinds of jobs that are read. `mark`: called with a gang whose choice of a cluster has
    changed."""

    wake: Callable[[], None] = lambda: None
    give_back: Callable[[str, int, Reason, Mapping[str, float]], None] = lambda *about: None
    report: Callable[[Member, str, str], None] = lambda *about: None
    kinds: Callable[[], Iterable[Kind]] = lambda: (JOBS,)
    mark: Callable[[str], None] = lambda gang: None


class OtherClusters(Protocol):
    """The clusters to which jobs are sent, as `clusters.dispatch` has them. `choose`: returns the clusters that a gang
    may be sent to."""

    choose: Choose

    def join(self, world: ManagerWorld) -> None:
        """Report to this world from now on."""

    def events(self) -> Sequence[Event]:
        """Return the events about nodes of these clusters since the last call."""

    def saw(self, gang: GangLifecycle) -> None:
        """Take note of the present state of a gang: it may have to be sent, updated or withdrawn."""

    async def run(self) -> None:
        """Send jobs and follow them, until cancelled."""


class ClusterWatch:
    """The routing of all watched kinds. `gangs`: all gangs, by id; `gang_of` creates missing ones. `tell`: passes
    events to the core. `mark`: marks a gang to be reconciled. `wake`: called after a change that may affect the core or
    a gang. `invalid`: called with an object that cannot be read, and the error. `note`: called with settings of an
    object that have no effect, and the reason."""

    def __init__(
        self,
        caches: ObjectCaches,
        clock: Callable[[], float],
        *,
        gangs: dict[str, GangLifecycle],
        new_gang: Callable[[str], GangLifecycle],
        tell: Callable[[Event], None],
        mark: Callable[[str], None],
        wake: Callable[[], None],
        invalid: Callable[[Kind, Object, str], None],
        note: Callable[[Kind, Object, str], None],
        submitted_s: SubmissionTime = lambda text, uid, created_s: created_s,
    ) -> None:
        self._caches, self._gangs, self._new_gang = caches, gangs, new_gang
        self._tell, self._mark, self._wake, self._submitted_s = tell, mark, wake, submitted_s
        self.choose: Choose = any_cluster
        self.headroom = QuotaHeadroom(caches)
        self._fence = Fence(invalid)
        around = self._fence.around
        self._take_job, self._take_pod = around(self._on_job), around(self._on_pod)
        self._take_node = around(self._on_node)
        self._storage = VolumeUsers(caches, {JOBS: self._take_job, PODS: self._take_pod, NODES: self._take_node})
        self.capacity = CapacityWatch(
            with_places=self._storage.node,
            clock=clock,
            tell=self._tell_now,
            queue_changed=self._on_queue_told,
            dialects=caches.settings.others,
            objects=lambda kind: caches.objects(kind) if caches.watches(kind) else None,
            gang_changed=self._mark_known,
            note=note,
            invalid=invalid,
        )
        caches.words = self.capacity.dialects.options_of
        self.capacity.dialects.pods_changed = self._on_other_pods
        self._workloads = WorkloadWatch(
            caches,
            self._storage,
            self.capacity.allocations,
            gang_of=self._gang,
            changed=mark,
            as_defined=self.capacity.dialects.as_defined,
        )

    def subscribe(self) -> None:
        """Route changes as they come from now on; what there is already comes at once."""
        for kind, take in self._order():
            self._caches.informer(kind).subscribe(take)

    async def follow(self) -> None:
        """Subscribe as `subscribe` does, in pieces, so that urgent tasks (the Lease) can run in between."""
        for kind, take in self._order():
            await self._caches.informer(kind).follow(take)

    async def follow_more(self, kinds: Collection[Kind]) -> None:
        """As `follow`, for kinds that the API server did not serve before."""
        for kind, take in self._order():
            if kind in kinds:
                await self._caches.informer(kind).follow(take)

    def _order(self) -> list[tuple[Kind, Take]]:
        """Return the watched kinds with their handlers, in the order of `ClusterWatch`."""
        around = self._fence.around
        order: tuple[tuple[Kind, Take], ...] = (
            (RESOURCE_QUOTAS, around(self._on_quota)),
            (NODES, self._take_node),
            *((kind, around(self._storage.on_change)) for kind in STORAGE),
            (FLAVORS, around(self.capacity.on_flavor)),
            (RESERVATIONS, around(self.capacity.on_reservation)),
            *((kind, around(self._on_definition)) for kind in self._defined()),
            (QUEUES, around(self.capacity.on_queue)),
            *((kind, self._take_job) for kind in self._caches.job_kinds),
            (PODS, self._take_pod),
        )
        return [(kind, take) for kind, take in order if self._caches.watches(kind)]

    def _defined(self) -> Iterator[Kind]:
        """Yield the kinds whose changes go to the dialects; changes of job kinds go to gangs. Changes of Volcano's Jobs
        go to both."""
        return (kind for kind in self.capacity.dialects.kinds if kind not in self._caches.gang_kinds)

    def read_again(self) -> Iterator[None]:
        """Read again, in pieces, the objects whose shape changes because pods are now selected by a new label."""
        yield from self._workloads.read_again(self._take_job, self._take_pod)

    def gang_of_pod(self, uid: str) -> str | None:
        """Return the gang of a pod, finished or not; None if the pod was deleted or belongs to no gang."""
        return self._workloads.gang_of_pod(uid)

    def foreign_pods(self) -> Iterator[Event]:
        """Yield the changed usage of pods that no gang is charged for."""
        return self._workloads.foreign_pods.events()

    def with_headroom(self) -> Iterator[str]:
        """Yield the gangs that waited for a ResourceQuota and would be admitted now."""
        yield from self.headroom.quotas.unblocked_gangs()

    def defaults(self) -> GangDefaults:
        """Return the present defaults of all gangs."""
        queues = self.capacity.queues
        return GangDefaults(
            default_queue=self._caches.settings.default_queue,
            gang=queues.gang,
            start_timeout_s=queues.start_timeout_s,
            staleness_grace_s=queues.staleness_grace_s,
            largest=self.capacity.largest(),
            headroom=self.headroom.obstacle,
            claim=self.capacity.dialects.claim,
            dialects=bool(self.capacity.dialects.dialects),
            submitted_s=self._submitted_s,
            choose=self.choose,
        )

    # --- changes --------------------------------------------------------------------------------------------------

    def _gang(self, id: str) -> GangLifecycle:
        gang = self._gangs.get(id)
        if gang is None:
            gang = self._gangs[id] = self._new_gang(id)
        return gang

    def _tell_now(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._tell(event)
        if events:
            self._wake()

    def _mark_known(self, gang: str) -> None:
        if gang in self._gangs:
            self._mark(gang)

    def _on_definition(self, change: Change) -> None:
        if self.capacity.dialects.on_change(change):
            self._wake()

    def _on_other_pods(self, changes: Iterable[Change]) -> None:
        take = self._fence.around(self._workloads.on_pod)
        for change in changes:
            take(change)

    def _on_node(self, change: Change) -> None:
        self.capacity.on_node(change)

    def _on_quota(self, change: Change) -> None:
        self.headroom.on_quota(change)
        self._wake()

    def _on_queue_told(self, queue: str) -> None:
        for gang in self._gangs.values():
            if gang.waits and gang.queue == queue:
                self._mark(gang.id)

    def _on_job(self, change: Change) -> None:
        self._workloads.on_job(change)

    def _on_pod(self, change: Change) -> None:
        self._wake()
        self.headroom.on_pod(change)
        self._workloads.on_pod(change)
