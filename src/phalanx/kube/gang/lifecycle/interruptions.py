"""Find the reasons for which a started gang must end: a user has suspended it, its dialect (the part of Phalanx that
reads another scheduler's objects) no longer allows it to run, or a member is gone."""

from __future__ import annotations

from phalanx.dialects.frame.dialect import Claim
from phalanx.kube.gang.departure import TakeBack
from phalanx.kube.gang.lifecycle.stages import StartedParts
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.spec.gang_spec import GangDefaults, allows, claim_on
from phalanx.model.reason import Reason, ReasonCode

# The reason that is reported if a restarted scheduler finishes undoing a start that the earlier process had begun to
# undo.
OF_BEFORE = TakeBack(Reason(code=ReasonCode.BACKOFF, text="its start was being taken back"))


def interruption(parts: StartedParts, resized: Reason | None, defaults: GangDefaults) -> TakeBack | None:
    """Return why the start must be undone; None if it may continue. There are three possible reasons: a user or another
    program has suspended one of the gang's Jobs; a user has changed the size of a Job, so that the gang must be queued
    again (`resized`); the rules of the gang's dialect forbid the start."""
    start = parts.start
    for job in start.objects.jobs.values():
        if job.suspended and not job.finished and job.uid not in start.resuming:
            return TakeBack(Reason(code=ReasonCode.HELD, text="another client suspended it after it was admitted"))
    why = resized or drain_reason(_resumed_claim(start, defaults))
    return TakeBack(why, evicts=bool(start.bare_pods())) if why is not None else None


def _resumed_claim(start: GangStart, defaults: GangDefaults) -> Claim | None:
    """Return the claim on a gang whose Jobs are resumed (a claim is the set of settings that a dialect declares for a
    gang). Return None if no dialect claims the gang. Also return None for bare pods that are on nodes, unless the claim
    defines a pod condition for their eviction (`Claim.evicted_as`)."""
    if not defaults.dialects or "/" not in start.spec.job.queue:
        return None  # the queue is defined by Phalanx, not by a dialect
    members = start.objects.waiting() if start.spec.evicted_as is None else start.objects.unfinished()
    return claim_on(members, defaults) if members.everyone else None


def drain_reason(claim: Claim | None) -> Reason | None:
    """Return the reason for which the gang's dialect requires the gang to stop, such as a drained queue in Kueue; None
    if the gang may continue."""
    return claim.blocked if claim is not None and claim.drained else None


def forbidden_cluster(parts: StartedParts, claim: Claim | None) -> TakeBack | None:
    """Return why a start in another cluster must be undone, if the gang's dialect does not allow that cluster;
    otherwise None."""
    cluster = parts.start.record.cluster
    if claim is None or allows(claim, cluster):
        return None
    text = f"cluster {cluster} was not nominated for it"
    return TakeBack(Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text))


def loss(parts: StartedParts) -> TakeBack | None:
    """Return why a start must be undone if a needed member was lost before all pods were bound; None if no needed
    member was lost."""
    gone = parts.start.short_member() if parts.start.record.gang else ""
    return TakeBack(_member_went_reason(gone)) if gone else None


def missing_pods(parts: StartedParts) -> TakeBack | None:
    """Return why an earlier process's start must be undone if the start needs more pods than the gang's members request
    now. Return None if they request enough pods, or if any Job of the gang has a succeeded pod."""
    objects, record = parts.start.objects, parts.start.record
    short = record.count - parts.start.seats.least if record.gang else 0
    if short <= 0 or any(map(objects.has_succeeded, objects.jobs.values())):
        return None
    return TakeBack(_member_went_reason(f"{short} of its pods will not be created"))


def _member_went_reason(member: str) -> Reason:
    """Return the reason that is reported if a start is undone before its bind barrier opens, because this member will
    not create all of its needed pods. The core then plans the gang again with the remaining members."""
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=f"its start was taken back: {member}")
