"""Make a `JobView` of each job in a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from phalanx.cli.cluster.jobs.attending import why_stuck
from phalanx.cli.cluster.jobs.standing import STUCK
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.views.job.ended import ended_views
from phalanx.cli.views.job.gang_facts import (
    cluster_texts,
    created_object,
    effective_limit_s,
    state_since_s,
    wanted_pods,
)
from phalanx.cli.views.job.job_view import MANY_JOBS, WAITS, JobView
from phalanx.clusters.copies.content import waits_elsewhere
from phalanx.model.job import GangSize, Phase, Role
from phalanx.model.plan import Start
from phalanx.model.reason import Reason, ReasonCode, StartForecast
from phalanx.state.cluster import JobRecord


def views(snapshot: Snapshot, namespace: str = "", *, finished: bool = False) -> list[JobView]:
    """Return the jobs of a namespace ("": of all namespaces): first the running jobs, then the pending jobs by priority
    and submission. With `finished`, ended jobs that still have objects follow."""
    prefix = f"{namespace}/" if namespace else ""
    live = _live_views(snapshot, (job for job in snapshot.cluster.jobs if job.startswith(prefix)))
    found = sorted(live, key=lambda view: (view.state in WAITS, -view.priority, view.submitted_s, view.id))
    if finished:
        found += ended_views(snapshot)
    return [view for view in found if not namespace or view.namespace == namespace]


def live_view(snapshot: Snapshot, job: str) -> JobView | None:
    """Return the view of the waiting or running job with this id; None if there is no such job."""
    return next(iter(_live_views(snapshot, [job])), None) if job in snapshot.cluster.jobs else None


def _live_views(snapshot: Snapshot, jobs: Iterable[str]) -> list[JobView]:
    reasons, starting, promised = snapshot.reasons, snapshot.starting, snapshot.nominated
    live = [
        _live(snapshot, snapshot.cluster.jobs[job], reasons.get(job), isinstance(starting.get(job), Start))
        for job in jobs
    ]
    return [replace(view, state="promised") if view.id in promised else view for view in live]


def expected_starts(found: Sequence[JobView], snapshot: Snapshot) -> Mapping[str, StartForecast]:
    """Return the expected start of each pending job. If more than `MANY_JOBS` jobs are live, the result is empty,
    because the forecast would take too long."""
    if len(snapshot.cluster.jobs) > MANY_JOBS:
        return {}
    return snapshot.expected([view.id for view in found if view.state in WAITS and not view.soon])


def _live(snapshot: Snapshot, record: JobRecord, reason: Reason | None, soon: bool) -> JobView:
    job = record.job
    nodes = Counter(record.placements.values())
    gang = snapshot.gangs.get(job.id)
    marks = [member.mark for member in gang.objects.jobs.values() if member.mark is not None] if gang else []
    roles = _roles(record)
    wanted, least = sum(role.count for role in roles), sum(role.minimum for role in roles)
    whole = sum(wanted_pods(each) for each in gang.objects.jobs.values()) if gang else 0
    kind, made = created_object(snapshot, job.id)
    stuck = _why_stuck(snapshot, record)
    waits = gang is not None and waits_elsewhere(gang, snapshot.objects)
    reason = reason or job.blocked
    # while a gang waits for members, its roles count only the pods that exist
    if reason is not None and reason.code is ReasonCode.WAITING_FOR_MEMBERS:
        wanted = max(wanted, int(reason.numbers.get("wanted", 0)))
    return JobView(
        id=job.id,
        queue=snapshot.cluster.queue_of(job),
        state=STUCK if stuck else "starting" if waits else str(record.phase),
        wanted=wanted or whole,
        minimum=least if 0 < least < wanted and not job.groups else None,
        placed=len(record.placements),
        since_s=state_since_s(snapshot, record),
        submitted_s=job.submitted_s,
        priority=job.priority,
        nodes=dict(nodes),
        reason=None if stuck else reason,
        message=stuck,
        soon=soon,
        roles=roles,
        preempted=record.preempted,
        preempted_by=marks[0].by if marks else "",
        limit_s=effective_limit_s(snapshot, record),
        ending=not wanted and whole > 0 and str(record.phase) == "running",
        kind=kind,
        made=made,
        user=job.user,
        array=job.array,
        cap=job.array_cap or 0,
        fixed=job.size is GangSize.FIXED_AT_START,
        cluster=gang.record.cluster if gang is not None and gang.record is not None else "",
        clusters=cluster_texts(gang),
    )


def _roles(record: JobRecord) -> tuple[Role, ...]:
    """Return the roles of the job, with the numbers of their pods. The numbers include bare pods that were created
    after the start of their gang."""
    pods = Counter(slot.role for slot in (*record.placements, *record.open) if slot not in record.leaving)
    roles = record.job.roles
    return tuple(replace(role, count=max(role.count, pods[at])) for at, role in enumerate(roles)) if pods else roles


def _why_stuck(snapshot: Snapshot, record: JobRecord) -> str:
    """Return the reason why a started job is stuck; "" if it is not stuck or has not started."""
    gang = snapshot.gangs.get(record.job.id)
    if gang is None or record.phase not in (Phase.STARTING, Phase.RUNNING):
        return ""
    return why_stuck(pod for one in gang.objects.pods.values() if (pod := snapshot.pods.get(one.key)) is not None)
