"""The stages of a gang, each with exactly the fields that have a meaning in it.

    WAITING ──start──▶ STARTING ──minimum bound──▶ RUNNING ──all over──▶ (finished)
       ▲                  │                           │
       └──no pod left── LEAVING ◀──── taken back ─────┘

Three of the stages share `StartedParts` (the seats, the preemption), which is created at the start of the gang and
dropped at its end.

The times at which a start is taken back, unless enough of its pods run, are bound, or are ready by then.

`lifecycle` looks at the deadlines of a started gang whenever it reconciles the gang, and takes the start back if one
has passed. A Job controller creates pods in growing batches, and a quota, a policy or a webhook may refuse one of them
for ever. If the minimum cannot be bound in time, or its pods are not ready in time, the whole start is taken back.
`effects.GangTimeouts` has the lengths of time; `seats.bind_barrier` is the barrier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import NamedTuple, TypeAlias

from phalanx.kube.gang.departure import Departure, Preemption, PreemptionRequest
from phalanx.kube.gang.effects import RoleStart, WriteOutcome
from phalanx.kube.gang.seats.bind_barrier import BindBarrier, Readiness
from phalanx.kube.gang.seats.elastic import ElasticParallelism, Staleness
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seating import Seating
from phalanx.kube.gang.spec.elsewhere import outside
from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangSpec
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.pod import NodePreference, Operator, Requirement
from phalanx.model.reason import Reason, ReasonCode


class Stage(Enum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedParts:
    """The parts of one start."""

    start: GangStart
    barrier: BindBarrier
    seating: Seating
    elastic: ElasticParallelism
    staleness: Staleness
    preemption: Preemption

    @classmethod
    def of(cls, start: GangStart, marked: Callable[[PreemptionRequest], None]) -> StartedParts:
        """Create the parts of a start. `marked`: called when the start is being preempted and all its objects are
        marked."""
        barrier = BindBarrier(start, gate_open=not start.record.gang)
        return cls(
            start=start,
            barrier=barrier,
            seating=Seating(start, barrier),
            elastic=ElasticParallelism(start, barrier),
            staleness=Staleness(start),
            preemption=Preemption(start, marked),
        )

    def resume_jobs(self, resumed: Callable[[WriteOutcome, str], None]) -> None:
        """Resume every member Job that does not run with the record of this start, and write the record on it. Roles of
        one object are resumed by a single write."""
        start, together = self.start, dict[str, list[BatchJob]]()
        for job in start.objects.jobs.values():
            known = job.record is not None and job.record.attempt == start.record.attempt and not job.suspended
            if job.ours and not job.finished and not known:
                start.resuming.add(job.uid)
                together.setdefault(job.object_uid, []).append(job)
        for jobs in together.values():
            self._resume(jobs, resumed)
        for pod in start.unsent_pods():
            self.send_pod(pod, resumed)

    def send_pod(self, pod: Pod, sent: Callable[[WriteOutcome, str], None]) -> None:
        """Write the record of a start in another cluster on a bare pod."""

        def answered(answer: WriteOutcome, text: str) -> None:
            self.start.resuming.discard(pod.uid)
            sent(answer, text)

        self.start.resuming.add(pod.uid)
        self.start.effects.pods.send(self.start.id, pod, self.start.record, answered)

    def _resume(self, jobs: Sequence[BatchJob], resumed: Callable[[WriteOutcome, str], None]) -> None:
        def answered(answer: WriteOutcome, text: str) -> None:
            self.start.resuming.difference_update(job.uid for job in jobs)
            resumed(answer, text)

        roles = [
            RoleStart(
                job=job,
                parallelism=self.elastic.parallelism(job),
                flavor=self.start.flavor_of(job),
                update=self.start.update_of(job),
                why_there=self.start.why_there,
            )
            for job in jobs
        ]
        self.start.effects.jobs.resume(self.start.id, roles, self.start.record, answered)


@dataclass(slots=True, kw_only=True)
class Waiting:
    """The stage before a start. `spec`: the spec that the core has; None: the core does not know the gang."""

    spec: GangSpec | None = None


@dataclass(slots=True, kw_only=True)
class Starting:
    """The stage in which the Jobs are resumed and the pods are created; no pod is bound before the barrier. `held`:
    nodes and quota are granted, but the Jobs stay suspended until the dialect opens its gate (in Kueue: admission
    checks)."""

    parts: StartedParts
    held: bool = False


@dataclass(slots=True, kw_only=True)
class Running:
    """The stage after the whole minimum of the gang was bound."""

    parts: StartedParts
    readiness: Readiness


@dataclass(slots=True, kw_only=True)
class Leaving:
    """The stage in which a start is taken back or preempted, until no pod of the gang is left."""

    parts: StartedParts
    departure: Departure


State: TypeAlias = Waiting | Starting | Running | Leaving

# Stage -> the stages that may follow. Running follows Waiting if an earlier process has completed the start.
NEXT: Mapping[type[State], frozenset[type[State]]] = {
    Waiting: frozenset({Starting, Running}),
    Starting: frozenset({Running, Leaving, Waiting}),
    Running: frozenset({Leaving, Waiting}),
    Leaving: frozenset({Waiting}),
}


@dataclass(slots=True, kw_only=True)
class StartHistory:
    """Earlier starts that failed. `failures`: the number of failures in a row. `timeouts`: how many of these had bound
    pods that did not become ready. `avoided`: nodes on which pods did not become ready, or whose kubelets refused pods
    of this gang -> until when other nodes are preferred (seconds since the epoch). `left_out`: another cluster that
    could not run this gang -> the time until which the gang is not sent to that cluster."""

    failures: int = 0
    timeouts: int = 0
    avoided: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, float] = field(default_factory=dict)

    def forgive(self) -> None:
        """Note that all pods of a start became ready."""
        self.timeouts = 0
        self.avoided.clear()

    def avoid(self, node: str, until_s: float) -> None:
        """Prefer other nodes until then (seconds since the epoch)."""
        self.avoided[node] = max(until_s, self.avoided.get(node, 0.0))

    def time_out(self, late: Sequence[Pod], attempts: int) -> str:
        """Note that these pods did not become ready in time: their nodes are avoided. Return why the gang is held; ""
        if it may start again. `attempts`: the number of starts after which it is held."""
        self.avoided |= {pod.node: inf for pod in late if pod.node}
        self.timeouts += 1
        self.failures = self.timeouts - 1
        if self.timeouts < attempts:
            return ""
        hold, self.timeouts = f"{self.timeouts} starts in a row came to nothing", 0
        return hold

    def preference(self, now_s: float) -> NodePreference | None:
        """Return a preference for other nodes than the avoided ones; the avoided ones are used if no other node
        fits."""
        nodes = tuple(node for node, until_s in self.avoided.items() if now_s < until_s)
        other = Requirement("metadata.name", Operator.NOT_IN, nodes, field=True)
        return NodePreference(100, (other,)) if nodes else None

    def avoiding(self, spec: GangSpec, now_s: float) -> GangSpec:
        """Return the spec with the preference for other nodes, and without the clusters that could not run the gang."""
        self.left_out = {cluster: until_s for cluster, until_s in self.left_out.items() if now_s < until_s}
        if self.left_out:
            job = replace(spec.job, roles=tuple(outside(role, tuple(self.left_out)) for role in spec.job.roles))
            spec = replace(spec, job=job)
        if (preference := self.preference(now_s)) is None:
            return spec
        shapes = (replace(r.shape, preferences=(*r.shape.preferences, preference)) for r in spec.job.roles)
        roles = tuple(replace(role, shape=shape) for role, shape in zip(spec.job.roles, shapes, strict=True))
        return replace(spec, job=replace(spec.job, roles=roles))


class Overdue(NamedTuple):
    """A deadline that has passed. `hold`: as in `departure.Departure`. `evicts`: True if bare pods are evicted too."""

    why: Reason
    hold: str = ""
    evicts: bool = False


class StartDeadlines:
    """The deadlines of one start at one moment. `wake_s`: the time of the next deadline (seconds since the epoch; 0:
    there is none)."""

    def __init__(self, state: Starting | Running, history: StartHistory, defaults: GangDefaults) -> None:
        self.state, self.parts, self.history, self.defaults = state, state.parts, history, defaults
        self.effects = state.parts.start.effects
        self.queue = state.parts.start.spec.job.queue
        self.now_s, self.wake_s = self.effects.now_s(), 0.0

    def overdue(self) -> Iterator[Overdue]:
        """Yield the deadlines that have passed. A start with bare pods on nodes may continue after a deadline that does
        not evict."""
        if (stale := self._stale()) is not None:
            yield stale
            return
        bound_by_s = self._bound_by_s()
        if bound_by_s and self.now_s >= bound_by_s:
            yield Overdue(self._unbound_reason())
            bound_by_s = 0.0
        if (unready := self._unready()) is not None:
            yield unready
            return
        self._end_holds()
        self.parts.start.end_guard()
        self._wake(bound_by_s, self.parts.start.guarded_s, *self.parts.barrier.resting.values())

    def _wake(self, *times_s: float) -> None:
        self.wake_s = min((at_s for at_s in (self.wake_s, *times_s) if at_s), default=0.0)

    def _stale(self) -> Overdue | None:
        """Return the deadline of a gang of which too few bare pods run, if its grace period has ended; otherwise
        None."""
        said_s, seats = self.parts.start.spec.staleness_grace_s, self.parts.start.seats
        grace_s = self.defaults.staleness_grace_s(self.queue) if said_s is None else said_s
        end_s = self.parts.staleness.ends_s(grace_s)
        if not end_s or self.now_s < end_s:
            self._wake(end_s)
            return None
        waited_s = self.now_s - end_s + grace_s
        why = staleness_reason(bound=seats.minimum_bound, needed=seats.least, waited_s=waited_s)
        return Overdue(why, evicts=True)

    def _bound_by_s(self) -> float:
        """Return the time at which the start is taken back unless its pods are bound (seconds since the epoch); 0:
        never."""
        start, timeouts = self.parts.start, self.effects.timeouts
        if not start.record.gang or start.elsewhere:
            return 0.0
        if isinstance(self.state, Starting):
            return start.since_s + timeouts.barrier_s(start.seats.least)
        return start.since_s + timeouts.place_s if start.seats.lacks_members() else 0.0

    def _unbound_reason(self) -> Reason:
        start, waited_s = self.parts.start, self.now_s - self.parts.start.since_s
        seats = start.seats
        others = " and ".join(sorted({job.scheduler for job in start.objects.jobs.values() if job.pinned}))
        if others and self.parts.barrier.gate_open:
            bound = seats.minimum_bound
            return binding_timeout_reason(
                schedulers=others, bound=bound, needed=seats.least, exist=seats.taken, waited_s=waited_s
            )
        return barrier_timeout_reason(
            ready=seats.minimum_ready, needed=seats.least, exist=seats.taken, waited_s=waited_s
        )

    def _unready(self) -> Overdue | None:
        """Return the end of the time in which all pods must be ready. Their nodes are avoided at the next attempt."""
        if not isinstance(self.state, Running):
            return None
        readiness = self.state.readiness
        end_s = readiness.ends_s(self.defaults.start_timeout_s(self.queue))
        if not end_s or self.now_s < end_s:
            self._wake(end_s)
            return None
        late = [self.parts.start.objects.pods[uid] for uid in readiness.take_late()]
        hold = self.history.time_out(late, self.effects.timeouts.start_attempts)
        return Overdue(start_timeout_reason(late, self.now_s - readiness.bound_s), hold)

    def _end_holds(self) -> None:
        """Release the capacity that was reserved for pods that were not created in time, or not replaced in time after
        their loss; bound pods go on. A start with bound pods that lost another pod has holds too: bare pods are never
        taken back, so it may last for ever."""
        start, barrier = self.parts.start, self.parts.barrier
        seats, hold_s = start.seats, start.spec.hold_s
        hold_s = self.effects.timeouts.hold_s if hold_s is None else hold_s
        vacant = seats.vacant_of_pods()
        if not barrier.gate_open or not vacant or not start.record.gang or start.elsewhere:
            return
        ends = {slot: max(start.record.at_s, seats[slot].lost_s) + hold_s for slot in vacant}
        barrier.release(slot for slot, end_s in ends.items() if end_s <= self.now_s)
        self._wake(*(end_s for end_s in ends.values() if end_s > self.now_s))


def start_timeout_reason(late: Sequence[Pod], waited_s: float) -> Reason:
    """Return the reason of a start that is taken back because pods did not become ready, with the first pod's message
    from its kubelet."""
    first = late[0]
    said = f" ({first.message})" if first.message else ""
    text = (
        f"its start was taken back: {len(late)} of its pods were not ready {waited_s:.0f} s after the last was bound, "
        f"such as {first.name} on {first.node}{said}"
    )
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"late": len(late), "node": first.node})


def staleness_reason(*, bound: int, needed: int, waited_s: float) -> Reason:
    """Return the reason of a running gang of bare pods that is taken back, because only `bound` of the `needed` pods
    were left for longer than its grace period."""
    text = f"it was taken back: only {bound} of the {needed} pods that it needs ran, for {waited_s:.0f} s"
    return Reason(code=ReasonCode.STALE, text=text, numbers={"bound": bound, "needed": needed})


def barrier_timeout_reason(*, ready: int, needed: int, exist: int, waited_s: float) -> Reason:
    """Return the reason for a time-out at the barrier. `ready`: the pods that could be bound. `needed`: the minimum.
    `exist`: the existing pods."""
    text = f"its start was taken back: {ready} of {needed} pods could be bound after {waited_s:.0f} s ({exist} existed)"
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"ready": ready, "needed": needed, "exist": exist})


def binding_timeout_reason(*, schedulers: str, bound: int, needed: int, exist: int, waited_s: float) -> Reason:
    """Return the reason of a start that is taken back because other `schedulers` had to bind its pods, and did not bind
    all of them."""
    text = f"its start was taken back: {schedulers} bound {bound} of {needed} pods in {waited_s:.0f} s"
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"ready": bound, "needed": needed, "exist": exist})


def member_went_reason(member: str) -> Reason:
    """Return the reason for taking a start back before the barrier, because a member will not create the needed pods.
    The gang is then planned again with its remaining members."""
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=f"its start was taken back: {member}")
