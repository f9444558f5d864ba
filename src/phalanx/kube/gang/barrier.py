"""The bind barrier: resume is not start.

A Job controller creates pods in growing batches, and a quota, a policy or somebody's webhook may refuse pod k of n for
ever. So nothing of a gang is bound before every pod of its minimum exists, is ungated, is not terminating, has a node
and asks no more than was planned. What is not complete in time is taken back whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phalanx.kube.read.pod import Pod
from phalanx.model.reason import Reason, ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTimeouts:
    """How long things may take, in seconds. `start_s` and `start_share_s` (per pod): from the resume to the barrier.
    `place_s`: a started gang's pod without a node. `hold_s`: room held for pods that a driver has not created yet.
    `avoid_s`: other nodes are preferred to one whose kubelet refused a pod. `regrow_s`: from giving pods up to asking
    for more again. `guarded_s`: nobody tries again to preempt what a PodDisruptionBudget protected. `start_attempts`:
    so often may its pods be bound and not become ready in the time that its queue gives them; then it is held.
    `backoff_s` after a start that came to nothing, doubled each time up to `backoff_most_s`."""

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
        """Return how long to rest after this many starts in a row that came to nothing, in seconds."""
        return min(self.backoff_most_s, self.backoff_s * 2.0 ** min(30, failures - 1))


def start_timeout_reason(late: Sequence[Pod], waited_s: float) -> Reason:
    """Why it is taken back although all were bound: these pods did not become ready. With what their kubelet says."""
    first = late[0]
    said = f" ({first.message})" if first.message else ""
    text = (
        f"its start was taken back: {len(late)} of its pods were not ready {waited_s:.0f} s after the last was bound, "
        f"such as {first.name} on {first.node}{said}"
    )
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"late": len(late), "node": first.node})


def staleness_reason(*, bound: int, needed: int, waited_s: float) -> Reason:
    """Why a gang of bare pods is taken back that ran: `bound` of the `needed` pods were left for longer than its grace
    period."""
    text = f"it was taken back: only {bound} of the {needed} pods that it needs ran, for {waited_s:.0f} s"
    return Reason(code=ReasonCode.STALE, text=text, numbers={"bound": bound, "needed": needed})


def barrier_timeout_reason(*, ready: int, needed: int, exist: int, waited_s: float) -> Reason:
    """Why the barrier was not reached: so many of the pods that are `needed` could be bound, and so many `exist`."""
    text = f"its start was taken back: {ready} of {needed} pods could be bound after {waited_s:.0f} s ({exist} existed)"
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"ready": ready, "needed": needed, "exist": exist})


def binding_timeout_reason(*, schedulers: str, bound: int, needed: int, exist: int, waited_s: float) -> Reason:
    """Why it is taken back though the barrier was reached: other `schedulers` were let bind, and did not bind all."""
    text = f"its start was taken back: {schedulers} bound {bound} of {needed} pods in {waited_s:.0f} s"
    return Reason(code=ReasonCode.BACKOFF, text=text, numbers={"ready": bound, "needed": needed, "exist": exist})


def member_went_reason(member: str) -> Reason:
    """Why it is taken back before the barrier: what it needs will not come. It is planned anew with what is left."""
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=f"its start was taken back: {member}")
