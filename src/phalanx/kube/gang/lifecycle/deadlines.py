"""The deadlines of a started gang: the times by which enough of its pods must be bound, ready or running. If a deadline
passes, the start is undone.

`reconcile` checks these deadlines. A start needs deadlines because a Job controller creates pods in growing batches,
and a quota, a policy or a webhook may refuse one of these pods forever. If the minimum number of pods cannot be bound
in time, or if these pods are not ready in time, the whole start is undone. `effects.GangTimeouts` contains the
time-outs from which the deadlines are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phalanx.kube.gang.departure import TakeBack
from phalanx.kube.gang.lifecycle.stages import Running, Starting
from phalanx.kube.gang.lifecycle.start_history import StartHistory
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.read.pod import Pod
from phalanx.model.reason import Reason, ReasonCode


def earliest_s(*times_s: float) -> float:
    """Return the earliest of these times; an argument 0 means never and is ignored. Return 0 if no time is left."""
    return min((at_s for at_s in times_s if at_s), default=0.0)


class StartDeadlines:
    """A check of the deadlines of one start at the present time. `wake_s`: the time of the next check (seconds since
    the epoch; 0 means never). It is the next deadline, or the time that the caller requested if that is earlier."""

    def __init__(
        self, state: Starting | Running, history: StartHistory, defaults: GangDefaults, wake_s: float = 0.0
    ) -> None:
        self.state, self.parts, self.history, self.defaults = state, state.parts, history, defaults
        self.effects = state.parts.start.effects
        self.queue = state.parts.start.spec.job.queue
        self.now_s, self.wake_s = self.effects.now_s(), wake_s

    def overdue(self) -> Iterator[TakeBack]:
        """For each deadline that has passed, yield a reason to undo the start. If bare pods of the start are on nodes,
        `requeue.take_back` ignores the reasons without `evicts`, because bare pods can only be evicted."""
        if (stale := self._stale()) is not None:
            yield stale
            return
        bound_by_s = self._bound_by_s()
        if bound_by_s and self.now_s >= bound_by_s:
            yield TakeBack(self._unbound_reason())
            bound_by_s = 0.0
        if (unready := self._unready()) is not None:
            yield unready
            return
        self._end_holds()
        if self.parts.start.guarded_s:
            self.parts.start.end_guard()
        self._wake(bound_by_s, self.parts.start.guarded_s, *self.parts.barrier.resting.values())

    def _wake(self, *times_s: float) -> None:
        self.wake_s = earliest_s(self.wake_s, *times_s)

    def _stale(self) -> TakeBack | None:
        """Return why the start is undone if the gang has run with fewer bare pods than its minimum for longer than its
        grace period; otherwise None."""
        said_s, seats = self.parts.start.spec.staleness_grace_s, self.parts.start.seats
        grace_s = self.defaults.staleness_grace_s(self.queue) if said_s is None else said_s
        end_s = self.parts.staleness.ends_s(grace_s)
        if not end_s or self.now_s < end_s:
            self._wake(end_s)
            return None
        waited_s = self.now_s - end_s + grace_s
        why = staleness_reason(bound=seats.minimum_bound, needed=seats.least, waited_s=waited_s)
        return TakeBack(why, evicts=True)

    def _bound_by_s(self) -> float:
        """Return the time at which the start is undone unless its pods are bound by then (seconds since the epoch). 0
        means never."""
        start, timeouts = self.parts.start, self.effects.timeouts
        if not start.record.gang or start.record.cluster:
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

    def _unready(self) -> TakeBack | None:
        """Return why the start is undone if its pods did not all become ready in time; otherwise None. The next start
        avoids the nodes of the pods that were not ready."""
        if not isinstance(self.state, Running):
            return None
        readiness = self.state.readiness
        end_s = readiness.ends_s(self.defaults.start_timeout_s(self.queue))
        if not end_s or self.now_s < end_s:
            self._wake(end_s)
            return None
        late = [self.parts.start.objects.pods[uid] for uid in readiness.take_late()]
        hold = self.history.time_out(late, self.effects.timeouts.start_attempts)
        return TakeBack(start_timeout_reason(late, self.now_s - readiness.bound_s), hold)

    def _end_holds(self) -> None:
        """Release the capacity that was reserved for missing pods: pods that were not created in time, and lost pods
        that were not replaced in time. Bound pods continue to run. A start with bound bare pods is not undone when one
        of its pods is lost. Without this method, the capacity of the lost pod could stay reserved forever."""
        start, barrier = self.parts.start, self.parts.barrier
        seats, hold_s = start.seats, start.spec.hold_s
        hold_s = self.effects.timeouts.hold_s if hold_s is None else hold_s
        if not barrier.gate_open or not start.record.gang or start.record.cluster:
            return
        ends = {slot: max(start.record.at_s, seats[slot].lost_s) + hold_s for slot in seats.vacant_of_pods()}
        if not ends:
            return
        barrier.release(slot for slot, end_s in ends.items() if end_s <= self.now_s)
        self._wake(*(end_s for end_s in ends.values() if end_s > self.now_s))


def start_timeout_reason(late: Sequence[Pod], waited_s: float) -> Reason:
    """Return the reason for undoing a start whose pods did not become ready. The reason contains the kubelet's message
    about the first of these pods."""
    first = late[0]
    said = f" ({first.message})" if first.message else ""
    text = (
        f"its start was taken back: {len(late)} of its pods were not ready {waited_s:.0f} s after the last was bound, "
        f"such as {first.name} on {first.node}{said}"
    )
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"late": len(late), "node": first.node})


def staleness_reason(*, bound: int, needed: int, waited_s: float) -> Reason:
    """Return the reason for undoing the start of a stale gang of bare pods: for `waited_s` seconds, which is longer
    than the gang's grace period, only `bound` of the `needed` pods ran."""
    text = f"it was taken back: only {bound} of the {needed} pods that it needs ran, for {waited_s:.0f} s"
    return Reason(code=ReasonCode.STALE, text=text, numbers={"bound": bound, "needed": needed})


def barrier_timeout_reason(*, ready: int, needed: int, exist: int, waited_s: float) -> Reason:
    """Return the reason for undoing a start that did not reach its bind barrier in time. `ready`: the number of pods
    that could be bound. `needed`: the minimum number. `exist`: the number of existing pods."""
    text = f"its start was taken back: {ready} of {needed} pods could be bound after {waited_s:.0f} s ({exist} existed)"
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"ready": ready, "needed": needed, "exist": exist})


def binding_timeout_reason(*, schedulers: str, bound: int, needed: int, exist: int, waited_s: float) -> Reason:
    """Return the reason for undoing a start because other schedulers did not bind enough of its pods in time.
    `schedulers`: the names of these schedulers."""
    text = f"its start was taken back: {schedulers} bound {bound} of {needed} pods in {waited_s:.0f} s"
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"ready": bound, "needed": needed, "exist": exist})
