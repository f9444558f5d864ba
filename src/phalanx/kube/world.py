"""The world that is a Kubernetes API: watches what happens, and carries out what was decided.

It keeps no truth of its own. Informers tell every change; a change is read once, routed to the gang it belongs to (or
to the allocations, for pods of others), and the gang is marked. `events` lets marked gangs draw their conclusions, so
that a burst of changes costs one conclusion each. `apply` hands decisions to their gangs, whose writes go out through
`Writer` and whose answers come back here. Nothing in it costs the number of all objects, except the start.

Use as `async with open_world(connection, informers) as world: await loop.run(world, …)`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import (
    JOBS,
    LIMIT_RANGES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    Kind,
)
from phalanx.dialects import kubeflow, volcano
from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.gang.barrier import GangTimeouts
from phalanx.kube.gang.effects import Stage
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.restart import adoption_order, unfinished_start
from phalanx.kube.gang.seating import SeatedGang
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.install import volcano as volcano_kinds
from phalanx.kube.install.admission_policy import AdmissionMode, install_policy
from phalanx.kube.install.definitions import DEFAULT_QUEUE, FLAVORS, QUEUES, RESERVATIONS, install
from phalanx.kube.install.retry import until_answered
from phalanx.kube.read import labels
from phalanx.kube.read.node import read_node
from phalanx.kube.read.pod import Pod, read_changed_pod, read_pod
from phalanx.kube.read.pod_group import POD_GROUPS, PodGroupCache, pod_group_gang
from phalanx.kube.read.queue import QueueCache
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.adapter import TRAINING_KINDS, adapters
from phalanx.kube.read.workload.batch_job import BatchJob, read_job
from phalanx.kube.routing.quota_headroom import QuotaHeadroom
from phalanx.kube.routing.volume_users import STORAGE, VolumeUsers, volumes_of
from phalanx.kube.status.pod_group_status import PodGroupStatusWriter
from phalanx.kube.status.usage import load_usage
from phalanx.kube.write.effects import ApiEffects
from phalanx.kube.write.events import EventReporter, ReportRate
from phalanx.kube.write.writer import Writer
from phalanx.model.event import Event, NodeGone, NodeSeen, Occupied, OutcomeTold, Refused, Vacated
from phalanx.model.plan import Place, Plan, Preempt, Promise, Shrink, Start, Wait

log = logging.getLogger(__name__)

REQUIRED = (PODS, JOBS, NODES, QUEUES)
# A server may serve fewer of these, or not show them to us.
LOOKED_UP = (LIMIT_RANGES, RUNTIME_CLASSES, PRIORITY_CLASSES, RESOURCE_QUOTAS, FLAVORS, RESERVATIONS, *STORAGE)

VOLCANO = (POD_GROUPS, volcano_kinds.QUEUES)  # looked up where this dialect is enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """`writes`: how many are on their way at once. `dialects`: whose scheduler names we answer to, and whose kinds we
    read, besides our own: `volcano`, `kubeflow`."""

    default_queue: str = DEFAULT_QUEUE
    writes: int = 32
    timeouts: GangTimeouts = field(default_factory=GangTimeouts)
    budget: ReportRate = field(default_factory=ReportRate)
    dialects: frozenset[str] = frozenset()

    @property
    def answers_to(self) -> frozenset[str]:
        return labels.OURS | (self.dialects & {volcano.SCHEDULER_NAME})


@asynccontextmanager
async def open_world(
    api: Connection,
    informers: Callable[[Kind], Informer],
    settings: KubeSettings | None = None,
    clock: Callable[[], float] = time.time,
    fence: Callable[[], float] | None = None,
) -> AsyncIterator[KubeWorld]:
    """A running world, whose first events are what is there. `informers(kind)` gives the running cache of a kind.
    `fence`: the event loop's time after which no write may be sent (`leader`); None: there is no other scheduler."""
    await until_answered(lambda: install(api))
    admission = await until_answered(lambda: install_policy(api))
    settings = settings or KubeSettings()
    if volcano.SCHEDULER_NAME in settings.dialects:
        await until_answered(lambda: volcano_kinds.install(api))
    world = KubeWorld(api, informers, settings, clock, fence)
    world.admission = admission
    async with asyncio.TaskGroup() as group:
        await until_answered(world.sync)
        tasks = [group.create_task(run()) for run in world.writing()]
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()


class KubeWorld:
    """`World` of `phalanx.loop`."""

    def __init__(
        self,
        api: Connection,
        informers: Callable[[Kind], Informer],
        settings: KubeSettings,
        clock: Callable[[], float],
        fence: Callable[[], float] | None = None,
    ) -> None:
        self._timeouts, self.allocations, self.tree = settings.timeouts, NodeAllocations(), QueueCache()
        self.effects = ApiEffects(
            writer=Writer(api, fence, settings.writes),
            reporter=EventReporter(api, clock, settings.budget, _may_write(fence)),
            informers=informers,
            allocations=self.allocations,
            timeouts=settings.timeouts,
            flavors=self.tree.flavors,
            clock=clock,
            tell=self._tell,
            conclude=self._mark,
        )
        self.gangs: dict[str, GangLifecycle] = {}
        self._api, self._informers, self._clock, self._fence = api, informers, clock, fence
        self._default_queue, self._answers_to = settings.default_queue, settings.answers_to
        self._training = kubeflow.NAME in settings.dialects
        self._job_kinds: tuple[Kind, ...] = (JOBS,)  # and those of training jobs that are served
        self._owners = frozenset({JOBS.name})
        self._around = AdmissionDefaults(answers_to=self._answers_to)
        self._storage = VolumeUsers(informers, {JOBS: self._on_job, PODS: self._on_pod, NODES: self._on_node})
        self.groups = PodGroupCache(lambda name: self._around.priority({"priorityClassName": name}))
        self._headroom = QuotaHeadroom(self._around, lambda kind: informers(kind).objects)
        self.admission = AdmissionMode.NEITHER  # what makes Jobs ours here
        self.served: frozenset[Kind] = frozenset()  # of those that a server may not serve
        self._remembered: Sequence[Event] = ()  # what the scheduler before us kept
        self._live = False  # recovered: changes are routed as they come
        self._defaults: GangDefaults | None = None
        self._job_gang: dict[str, GangLifecycle] = {}  # Job uid -> its gang
        self._pods: dict[str, Pod] = {}
        self._pod_gang: dict[str, GangLifecycle] = {}  # pod uid -> its gang
        self._pods_of: dict[str, set[str]] = {}  # Job uid -> its pods
        self._occupied: dict[str, Occupied] = {}
        self._read_version = 0  # of `ShapeCache`, when everything was read
        self._dirty: dict[str, None] = {}
        self._touched: dict[str, None] = {}  # pods whose charge may have changed
        self._timers: list[tuple[float, str]] = []
        self._alarms: dict[str, float] = {}  # gang id -> the one of its timers that counts
        self._out: list[Event] = []
        self._news = asyncio.Event()

    def writing(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What is to run as long as this world is open."""
        found = [self.effects.writer.run, self.effects.reporter.run]
        if POD_GROUPS in self.served:
            objects = self._informers(POD_GROUPS).objects
            found.append(
                PodGroupStatusWriter(
                    self._api, self.groups, self.gangs, objects, self._clock, _may_write(self._fence)
                ).run
            )
        return found

    # --- World ----------------------------------------------------------------------------------------------------

    def events(self) -> Sequence[Event]:
        self._news.clear()
        if not self._live:
            self._recover()
        self._read_again()
        self._ring()
        self._dirty.update(dict.fromkeys(self._headroom.quotas.freed()))
        defaults = self._gang_defaults()
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            if (gang := self.gangs.get(name)) is not None:
                self._advance(gang, defaults)
        self._account()
        if self._headroom.quotas.news:
            self._news.set()
        out, self._out = self._out, []
        return out

    def apply(self, plan: Plan) -> None:
        for action in plan.actions:
            gang = self.gangs.get(action.job)
            if gang is None:  # it went while it was decided; the next events say so
                continue
            match action:
                case Start():
                    self._start(gang, action)
                case Place():
                    gang.place(action.placements)
                case Preempt():
                    gang.preempt(action)
                case Shrink():
                    gang.shrink(action)
                case Wait():
                    self.effects.reporter.waits(gang, action.reason)
                    self.groups.waits(gang.id, action.reason)
                case Promise():
                    pass  # the victims' marks say whom they make room for: a restart finds the same room leaving
            if not isinstance(action, Wait | Promise):
                self._mark(gang)

    async def wait(self, timeout_s: float | None) -> None:
        if self._timers:
            until_s = max(0.0, self._timers[0][0] - self._clock())
            timeout_s = until_s if timeout_s is None else min(until_s, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return

    async def sync(self) -> None:
        """Until every cache that decisions need was listed once, and it is known what was used in the past."""
        theirs = VOLCANO if volcano.SCHEDULER_NAME in self._answers_to else ()
        training = TRAINING_KINDS if self._training else ()
        served = [kind for kind in (*LOOKED_UP, *theirs, *training) if await self._serves(kind)]
        for cache in [self._informers(kind) for kind in (*REQUIRED, *served)]:
            await cache.synced.wait()
        self.look_up(served)
        self._remembered = await load_usage(self._api)

    def look_up(self, kinds: Iterable[Kind]) -> None:
        """Of the kinds that a server may not serve, there are caches of these."""
        found: dict[Kind, Mapping[str, Object]] = {kind: self._informers(kind).objects for kind in kinds}
        self._storage.volumes = volumes_of(found)
        self._around = AdmissionDefaults(
            limit_ranges=found.get(LIMIT_RANGES, {}),
            runtime_classes=found.get(RUNTIME_CLASSES, {}),
            priority_classes=found.get(PRIORITY_CLASSES, {}),
            answers_to=self._answers_to,
            volumes=self._storage.volumes,
        )
        self._headroom = QuotaHeadroom(self._around, lambda kind: self._informers(kind).objects)
        self.served = frozenset(found)
        self._job_kinds = (JOBS, *(kind for kind in TRAINING_KINDS if kind in found))
        self._owners = frozenset(kind.name for kind in self._job_kinds)
        self._storage.job_kinds = self._job_kinds
        self._news.set()

    async def _serves(self, kind: Kind) -> bool:
        try:
            await self._api.request("GET", kind.path(), params={"limit": "1"})
        except ApiRefusal as error:
            if error.code not in (403, 404):
                raise
            level = logging.WARNING if error.code == 403 else logging.INFO
            log.log(level, "the server shows us no %s, so none are looked up: %s", kind.plural, error)
            return False
        return True

    # --- inside ---------------------------------------------------------------------------------------------------

    def _start(self, gang: GangLifecycle, action: Start) -> None:
        """Resume it, unless a start decided before it was promised what is left of their quota."""
        whole = self._gang_defaults().gang(gang.queue)
        reason = self._headroom.refusal(gang) if whole else None
        if reason is None:
            gang.start(action, whole)
            self._headroom.settle(gang)
        else:
            self._tell(Refused(gang.id, action.attempt, reason))
        self._mark(gang)

    def _advance(self, gang: GangLifecycle, defaults: GangDefaults) -> None:
        gang.advance(defaults)
        self._headroom.settle(gang)
        if gang.wake_s and self._alarms.get(gang.id) != gang.wake_s:
            self._alarms[gang.id] = gang.wake_s
            heappush(self._timers, (gang.wake_s, gang.id))
        if gang.group is not None:
            self.groups.touch(gang.id)
        if gang.empty and gang.stage is Stage.WAITING:
            self.gangs.pop(gang.id, None)
            self.effects.reporter.forget(gang)

    def _ring(self) -> None:
        now_s = self._clock()
        while self._timers and self._timers[0][0] <= now_s:
            at_s, name = heappop(self._timers)
            if self._alarms.get(name) == at_s:
                del self._alarms[name]
                self._dirty[name] = None

    def _mark(self, gang: SeatedGang) -> None:
        self._dirty[gang.id] = None
        self._news.set()

    def _gang(self, id: str) -> GangLifecycle:
        gang = self.gangs.get(id)
        if gang is None:
            gang = self.gangs[id] = GangLifecycle(id, self.effects)
            gang.group = self.groups[id]
        return gang

    def _gang_defaults(self) -> GangDefaults:
        if self._defaults is None:
            self._defaults = GangDefaults(
                default_queue=self._default_queue,
                gang=self.tree.gang,
                start_timeout_s=self.tree.start_timeout_s,
                largest=self.allocations.largest(),
                headroom=self._headroom.obstacle,
            )
        return self._defaults

    def _account(self) -> None:
        """Pods on nodes that no slot of ours is charged for hold their room as others' pods do."""
        touched, self._touched = self._touched, {}
        for uid in touched:
            pod = self._pods.get(uid)
            held: Occupied | None = None
            if pod is not None and pod.charged:
                gang = self._pod_gang.get(uid)
                if gang is None or not gang.holds(pod):
                    held = _occupying(pod)
                elif excess := gang.excess(pod):
                    held = Occupied(uid, pod.node, excess)
            if held == self._occupied.get(uid):
                continue
            if held is None:
                del self._occupied[uid]
                self._out.append(Vacated(uid))
            else:
                self._occupied[uid] = held
                self._out.append(held)

    # --- changes --------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """The first events: what is there, how jobs ended that are over, for those that wait for them, and then the
        starts of before, in the order in which they hold room."""
        self._live = True
        self._out += self._remembered
        for kind, take in (
            (RESOURCE_QUOTAS, self._on_quota),
            (NODES, self._on_node),
            *((kind, self._storage.on_change) for kind in STORAGE),
            (FLAVORS, lambda change: self._tell_now(*self.tree.on_flavor(change))),
            (RESERVATIONS, lambda change: self._tell_now(*self.tree.on_reservation(change))),
            (volcano_kinds.QUEUES, self._on_queue),
            (QUEUES, self._on_queue),
            (POD_GROUPS, self._on_pod_group),
            *((kind, self._on_job) for kind in self._job_kinds),
            (PODS, self._on_pod),
        ):
            if kind in self.served or kind in REQUIRED:
                self._informers(kind).subscribe(take)
        defaults, adopted = self._gang_defaults(), []
        for gang in self.gangs.values():
            if gang.over:
                self._tell(OutcomeTold(gang.id, gang.outcome))
            begun = unfinished_start(gang, defaults, self._clock(), self._timeouts.hold_s)
            if begun is not None:
                adopted.append((gang, begun))
        for gang, begun in sorted(adopted, key=lambda entry: adoption_order(*entry)):
            gang.adopt(begun.declared, begun.record, leaving=begun.leaving, mark=begun.mark)

    def _read_again(self) -> None:
        """Somebody selects pods by a label that nobody did before: it belongs to the shape of all that carry it."""
        while self._read_version != self._around.shapes.version:
            self._read_version = self._around.shapes.version
            for kind, take in (*((kind, self._on_job) for kind in self._job_kinds), (PODS, self._on_pod)):
                for obj in list(self._informers(kind).objects.values()):
                    take(Change(kind=kind, old=obj, new=obj))

    def _on_quota(self, change: Change) -> None:
        self._headroom.on_quota(change)
        self._news.set()

    def _on_node(self, change: Change) -> None:
        self._defaults = None
        if change.new is None:
            assert change.old is not None
            name = change.old["metadata"]["name"]
            self.allocations.lose_node(name)
            self._tell_now(NodeGone(name))
            return
        node = self._storage.node(read_node(change.new))
        if self.allocations.nodes.get(node.name) != node:
            self.allocations.see_node(node)
            self._tell_now(NodeSeen(node))

    def _on_pod_group(self, change: Change) -> None:
        gang = self.gangs.get(self.groups.on_change(change))
        if gang is not None:
            gang.group = self.groups[gang.id]
            self._mark(gang)

    def _on_queue(self, change: Change) -> None:
        self._defaults = None
        take = self.tree.on_queue if change.kind == QUEUES else self.tree.on_volcano_queue
        told = list(take(change, self._clock()))
        self._tell_now(*told)
        name = (change.new or change.old or {})["metadata"]["name"]
        for gang in self.gangs.values() if told else ():
            if gang.stage is Stage.WAITING and gang.queue == name:
                self._mark(gang)

    def _tell(self, event: Event) -> None:
        """Without a wake-up: who concludes is heard at once."""
        self._out.append(event)

    def _tell_now(self, *events: Event) -> None:
        self._out += events
        if events:
            self._news.set()

    def _on_job(self, change: Change) -> None:
        """A Job, or a training job, which is a member for each of its replica types."""
        before = [] if change.old is None else [form.member(change.old) for form in adapters(change.kind, change.old)]
        jobs: dict[str, BatchJob] = {}
        if change.new is not None:
            read = (read_job(change.new, self._around, form) for form in adapters(change.kind, change.new))
            jobs = {job.uid: job for job in read}
            self._note_claims(change.new, jobs.values())
        for uid in (*(uid for uid in before if uid not in jobs), *jobs):
            self._see_job(uid, jobs.get(uid))

    def _note_claims(self, obj: Object, jobs: Iterable[BatchJob]) -> None:
        for job in jobs:
            if job.requirements.claims and job.ours:
                self._storage.job(job, job.adapter.read(obj)["spec"]["template"]["spec"])

    def _see_job(self, uid: str, job: BatchJob | None) -> None:
        before = self._job_gang.get(uid)
        name = _gang_of_job(job) if job is not None else None
        if before is not None and before.id != name:
            before.lose_job(uid)
            del self._job_gang[uid]
            self._mark(before)
        if job is None or name is None:
            return
        gang = self._job_gang[uid] = self._gang(name)
        gang.see_job(job)
        self._mark(gang)
        if before is not gang:
            for pod_uid in self._pods_of.get(uid, ()):
                self._route(self._pods[pod_uid])

    def _on_pod(self, change: Change) -> None:
        self._news.set()
        self._headroom.on_pod(change)
        if change.new is None:
            assert change.old is not None
            self._lose_pod(change.old["metadata"]["uid"])
            return
        pod = self._read(change.old, change.new)
        self._pods[pod.uid] = pod
        if pod.group:
            self.groups.see(pod)
        self._touched[pod.uid] = None
        if pod.charged:
            self.allocations.allocate(pod.uid, pod.where, pod.requests)
        elif pod.over or not pod.ours:
            self.allocations.release(pod.uid)
        if pod.ours or pod.uid in self._pod_gang:
            if pod.owner is not None:
                self._pods_of.setdefault(pod.owner[1], set()).add(pod.uid)
            self._route(pod)

    def _read(self, old: Object | None, new: Object) -> Pod:
        known = self._pods.get(new["metadata"]["uid"]) if old is not None else None
        if known is not None and old is not None and (same := read_changed_pod(known, old, new)) is not None:
            return same
        return self._storage.pod(read_pod(new, self._around.shapes, self._answers_to, self._owners))

    def _lose_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self.allocations.release(uid)
        self._touched[uid] = None
        if pod.group:
            self.groups.lose(pod)
        self._storage.gone(pod)
        if pod.owner is not None and (siblings := self._pods_of.get(pod.owner[1])) is not None:
            siblings.discard(uid)
            if not siblings:
                del self._pods_of[pod.owner[1]]
        if (gang := self._pod_gang.pop(uid, None)) is not None:
            gang.lose_pod(pod)
            self._mark(gang)

    def _route(self, pod: Pod) -> None:
        """To the gang it belongs to. A pod whose Job is not known yet waits for it, outside of every gang."""
        before, name = self._pod_gang.get(pod.uid), self._gang_of_pod(pod)
        if before is not None and before.id != name:
            before.lose_pod(pod)
            del self._pod_gang[pod.uid]
            self._mark(before)
        if name is not None:
            gang = self._pod_gang[pod.uid] = self._gang(name)
            gang.see_pod(pod)
            self._mark(gang)

    def _gang_of_pod(self, pod: Pod) -> str | None:
        if pod.owner is not None:
            if (gang := self._job_gang.get(pod.owner[1])) is not None:
                return gang.id
            if (known := self._pod_gang.get(pod.uid)) is not None:
                return known.id
            if pod.pinned or not self._exists(f"{pod.namespace}/{pod.owner[0]}", pod.owner[1].partition("/")[0]):
                return None
        if pod.group:
            return pod_group_gang(pod.namespace, pod.group)
        name = pod.options.get(labels.JOB)
        return f"{pod.namespace}/{name}" if name else f"{pod.namespace}/pod:{pod.name}"

    def _exists(self, key: str, uid: str) -> bool:
        """A Job, or training job, of this name and uid."""
        found = (self._informers(kind).objects.get(key) for kind in self._job_kinds)
        return any(obj is not None and obj["metadata"]["uid"] == uid for obj in found)


def _occupying(pod: Pod) -> Occupied:
    """What a pod that is not ours holds, and what others see of it."""
    shape = pod.shape
    return Occupied(
        pod.uid,
        pod.where,
        pod.requests,
        labels=shape.labels,
        namespace=shape.namespace,
        ports=shape.ports,
        near=shape.near,
        away=shape.away,
    )


def _gang_of_job(job: BatchJob) -> str | None:
    return f"{job.namespace}/{job.options.get(labels.JOB, job.name)}" if job.ours else None


def _may_write(fence: Callable[[], float] | None) -> Callable[[], bool]:
    if fence is None:
        return lambda: True
    until = fence
    return lambda: asyncio.get_running_loop().time() < until()
