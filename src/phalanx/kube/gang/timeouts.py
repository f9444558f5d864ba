"""How long each step of a gang's start may take, and the reason if it takes longer.

A Job controller creates pods in growing batches, and a quota, a policy or a webhook may refuse one of them for ever. If
the minimum cannot be bound in time, or its pods are not ready in time, the whole start is taken back. `lifecycle`
applies these times; `seats.bind_barrier` is the barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phalanx.kube.read.pod import Pod
from phalanx.model.reason import Reason, ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTimeouts:
    """Time-outs of a gang, in seconds. `start_s` and `start_share_s` (for each pod): from the resume to the barrier.
    `place_s`: how long a pod of a started gang may lack a node. `hold_s`: how long capacity is reserved for pods that a
    driver has yet to create. `avoid_s`: how long other nodes are preferred to a node whose kubelet refused a pod.
    `regrow_s`: from giving up pods to requesting more again. `guarded_s`: how long a job that a PodDisruptionBudget
    protected is not preempted again. `start_attempts`: how often the gang's pods may be bound and not become ready in
    the queue's time; then the gang is held. `backoff_s`: the pause after a failed start, doubled each time up to
    `backoff_most_s`."""

    start_s: float = 60.0
    start_share_s: float = 0.5
    place_s: float = 300.0
    hold_s: float = 600.0
    avoid_s: float = 600.0
    regrow_s: float = 60.0
    guarded_s: float = 300.0
    start_attempts: int = 3
    backoff_s: float = 30.0
    backoff_most_s: float = 600.0

    def barrier_s(self, pods: int) -> float:
        return self.start_s + self.start_share_s * pods

    def rest_s(self, failures: int) -> float:
        """Return the pause after this number of failed starts in a row, in seconds."""
        return min(self.backoff_most_s, self.backoff_s * 2.0 ** min(30, failures - 1))


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
