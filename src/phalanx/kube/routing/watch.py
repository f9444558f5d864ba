"""Watch all kinds. Existing objects are read in the order in which decisions need them: quotas and nodes before queues,
queues before Jobs, Jobs before pods.

Each change becomes an event for the core, or is passed to the gang of the changed object. Such a gang is marked. Later
it is reconciled once, for all changes that have arrived by then (`reconciler`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, NODES, PODS, RESOURCE_QUOTAS, Kind
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import Choose, any_cluster
from phalanx.kube.gang.spec.gang_spec import GangDefaults, SubmissionTime
from phalanx.kube.install.definitions import FLAVORS, QUEUES, RESERVATIONS
from phalanx.kube.routing.caches import STORAGE, ObjectCaches
from phalanx.kube.routing.capacity_watch import CapacityWatch
from phalanx.kube.routing.fence import Fence, Report, Take
from phalanx.kube.routing.quota_headroom import QuotaHeadroom
from phalanx.kube.routing.volume_users import VolumeUsers
from phalanx.kube.routing.workload_watch import WorkloadWatch
from phalanx.model.event import Event


class ClusterWatch:
    """Route the changes of all watched kinds. `defaults`: the default settings of all gangs. `gangs`: all gangs, by id.
    `new_gang`: a function that creates a gang. `tell`: a function that passes events to the core. `mark`: a function
    that marks a gang to be reconciled. `wake`: a function that is called after a change that may affect the core or a
    gang. `invalid`: a function that is called with an object that cannot be read, and the error. `note`: a function
    that is called if a setting of an object has no effect, with the object and a text about the setting.
    `group_labels`: a map from a label (key, value) of nodes to their node group. `choose`: a function that returns the
    clusters to which a gang may be sent."""

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
        invalid: Report,
        note: Report,
        submitted_s: SubmissionTime = lambda text, uid, created_s: created_s,
        group_labels: Mapping[tuple[str, str], str] = MappingProxyType({}),
        choose: Choose = any_cluster,
    ) -> None:
        self._caches, self._gangs, self._tell, self._mark, self._wake = caches, gangs, tell, mark, wake
        self.headroom, self._fence = QuotaHeadroom(caches), Fence(invalid)
        self._takes: dict[Kind, Take] = {}
        self._storage = VolumeUsers(caches, self._takes)
        self.capacity = CapacityWatch(
            with_places=self._storage.node,
            clock=clock,
            tell=self._tell_now,
            queue_changed=self._on_queue_told,
            dialects=caches.settings.others,
            group_labels=group_labels,
            objects=lambda kind: caches.objects(kind) if caches.watches(kind) else None,
            gang_changed=self._mark_known,
            note=note,
            invalid=invalid,
        )
        caches.words = self.capacity.dialects.options_of
        self.capacity.dialects.pods_changed = self._on_other_pods
        self.workloads = WorkloadWatch(
            caches,
            self._storage,
            self.capacity.allocations,
            self._takes,
            gangs=gangs,
            new_gang=new_gang,
            changed=mark,
            as_defined=self.capacity.overlay.as_defined,
        )
        around = self._fence.around
        self._takes[JOBS] = around(self.workloads.on_job)
        self._takes[PODS] = around(lambda change: wake(), self.headroom.on_pod, self.workloads.on_pod)
        self._takes[NODES] = around(self.capacity.on_node)
        self.defaults = GangDefaults(
            default_queue=caches.settings.default_queue,
            gang=self.capacity.queues.gang,
            start_timeout_s=self.capacity.queues.start_timeout_s,
            staleness_grace_s=self.capacity.queues.staleness_grace_s,
            largest=self.capacity.largest,
            headroom=self.headroom.obstacle,
            claim=self.capacity.dialects.claim,
            dialects=bool(self.capacity.dialects.dialects),
            submitted_s=submitted_s,
            choose=choose,
        )

    def subscribe(self) -> None:
        """Route every change from now on. The objects that already exist are routed at once."""
        for kind, take in self._order():
            self._caches.informer(kind).subscribe(take)

    async def follow(self) -> None:
        """Subscribe as `subscribe` does, but route the existing objects in slices, so that urgent tasks (such as the
        renewal of the Lease) can run in between."""
        for kind, take in self._order():
            await self._caches.informer(kind).follow(take)

    async def follow_more(self, kinds: Collection[Kind]) -> None:
        """Subscribe as `follow` does, to kinds that the API server did not serve before."""
        for kind, take in self._order():
            if kind in kinds:
                await self._caches.informer(kind).follow(take)

    def _order(self) -> list[tuple[Kind, Take]]:
        """Return the watched kinds with the functions that handle their changes, in the order in which existing objects
        are read."""
        around = self._fence.around
        order: tuple[tuple[Kind, Take], ...] = (
            (RESOURCE_QUOTAS, around(self._on_quota)),
            (NODES, self._takes[NODES]),
            *((kind, around(self._storage.on_change)) for kind in STORAGE),
            (FLAVORS, around(self.capacity.on_flavor)),
            (RESERVATIONS, around(self.capacity.on_reservation)),
            *((kind, around(self._on_definition)) for kind in self._defined()),
            (QUEUES, around(self.capacity.on_queue)),
            *((kind, self._takes[JOBS]) for kind in self._caches.job_kinds),
            (PODS, self._takes[PODS]),
        )
        return [(kind, take) for kind, take in order if self._caches.watches(kind)]

    def _defined(self) -> Iterator[Kind]:
        """Yield the kinds whose changes are passed to dialects. Changes of job kinds are passed to gangs instead;
        changes of Volcano's Jobs are passed to both."""
        return (kind for kind in self.capacity.dialects.kinds if kind not in self._caches.gang_kinds)

    # --- changes --------------------------------------------------------------------------------------------------

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
        take = self._fence.around(self.workloads.on_pod)
        for change in changes:
            take(change)

    def _on_quota(self, change: Change) -> None:
        self.headroom.on_quota(change)
        self._wake()

    def _on_queue_told(self, queue: str) -> None:
        for gang in self._gangs.values():
            if gang.waits and gang.queue == queue:
                self._mark(gang.id)
