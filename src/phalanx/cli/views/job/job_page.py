"""Build the page of `phalanx explain` about one job from its `JobView` and a snapshot, without side effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from phalanx.cli.cluster.jobs.attending import obstacles
from phalanx.cli.cluster.jobs.standing import STUCK
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.terminal.output import amounts_text, counted, duration
from phalanx.cli.views.job import job_view
from phalanx.cli.views.job.job_view import MANY_JOBS, RUNS, WAITS, JobView, interval, said, start_record
from phalanx.kube.read.pod import Pod
from phalanx.model.job import Role
from phalanx.model.pod import format_amount
from phalanx.model.reason import StartForecast, format_time
from phalanx.report.status import queue_positions

# the maximum of (number of jobs in the cluster) x (position of the job) for which a forecast is computed
_FORESEEN = 60_000
_AGAIN_S = 2.0  # the maximum time until the Job controller reports that a new Job is suspended


def page(view: JobView, snapshot: Snapshot) -> str:
    """Return the page of one job as text."""
    sections = [
        f"{view.title}: {view.state} for {_age(view, snapshot.now_s)}, queue {view.queue}",
        f"  {_verdict(view)}",
        "",
        *_role_lines(view.roles),
        *_limit_lines(view, snapshot.now_s),
        *_pod_lines(view, snapshot),
        *_cluster_lines(view),
        *_preempted_lines(view),
        *_line_lines(view, snapshot),
        *_holder_lines(view),
    ]
    return "\n".join(sections).rstrip()


def whole_record(view: JobView, snapshot: Snapshot) -> dict[str, object]:
    """Return the page of one job as a record for `--json`."""
    told = snapshot.numbers.get(view.id)
    numbers = {} if told is None else {"numbers": job_view.record(told)}
    return {**view.record(), "expected_start": start_record(_start(view, snapshot)), **numbers}


def _age(view: JobView, now_s: float) -> str:
    """Return a text with the time since the job's last change of state. For a job that waits again, the text also has
    the time since its submission."""
    again = view.state in WAITS and view.since_s - view.submitted_s >= _AGAIN_S
    return duration(now_s - view.since_s) + (f", submitted {duration(now_s - view.submitted_s)} ago" if again else "")


def _verdict(view: JobView) -> str:
    if view.cluster and view.state == "running":
        return f"It runs in cluster {view.cluster}, which has a copy of it."
    if view.cluster and view.state == "starting":
        return f"It was sent to cluster {view.cluster}, which has not started its copy yet."
    if view.reason is not None:
        return f"{view.reason.code}: {view.reason.text}"
    if view.soon:
        return (
            "There is capacity for it now: the scheduler starts it in its next cycle. If this does not change, check "
            "with `phalanx status` that a scheduler runs."
        )
    if view.state == "stopping":
        return "It is being preempted: its pods are ending. Then it waits again, with its original submission time."
    if view.state == STUCK:
        return (
            f"{view.message}. The job keeps its nodes, and starts when the cause is removed; `phalanx cancel` ends it."
        )
    if view.state == "starting":
        return "Its nodes are chosen; it starts when all pods of its minimum exist and are bound together."
    if view.state != "running" or view.ending:
        return view.message.replace("\n", "\n  ") or view.where() or "It has ended."
    if view.placed >= view.wanted:
        return "All its pods have a node."
    more = "it keeps this size until it starts again" if view.fixed else "more follow as capacity and quota allow"
    least = f" (minimum {view.minimum})" if view.minimum else ""
    return f"It runs with {view.placed} of its {view.wanted} pods{least}; {more}."


def _role_lines(roles: Sequence[Role]) -> Iterator[str]:
    if roles:
        yield "roles"
    for role in roles:
        together = "start together" if role.minimum == role.count else f"minimum {role.minimum}"
        yield f"  {role.name or 'pods'}: {role.count} x ({amounts_text(role.shape.requests)}), {together}"


def _limit_lines(view: JobView, now_s: float) -> Iterator[str]:
    if view.limit_s is not None:
        ends = f", so it is ended at {format_time(view.since_s + view.limit_s, now_s)}" if view.state in RUNS else ""
        yield "time limit"
        yield f"  {duration(view.limit_s)}{ends}"


def _pod_lines(view: JobView, snapshot: Snapshot) -> Iterator[str]:
    gang = snapshot.gangs.get(view.id)
    pods = sorted(gang.objects.pods.values(), key=lambda pod: pod.name) if gang else []
    if pods:
        yield "pods"
    for pod in pods:
        yield f"  {pod.name}: {_pod_state(pod)}"
        if (obj := snapshot.pods.get(pod.key)) is not None:
            yield from (f"    {text}" for text in obstacles(obj))


def _cluster_lines(view: JobView) -> Iterator[str]:
    if view.cluster or view.clusters:
        yield f"cluster {view.cluster}" if view.cluster else "clusters"
        yield from (f"  {line}" for line in view.clusters)


def _pod_state(pod: Pod) -> str:
    if not pod.node:
        return "waits, has no node"
    return f"{'ending' if pod.going else pod.phase.lower()} on {pod.node}"


def _preempted_lines(view: JobView) -> Iterator[str]:
    if view.preempted:
        yield "preempted"
        yield f"  {counted(view.preempted, 'time')}" + (f", last for {view.preempted_by}" if view.preempted_by else "")


def _line_lines(view: JobView, snapshot: Snapshot) -> Iterator[str]:
    """Yield the lines about the job's position in the queue, and about its expected start. A job that fits may start
    before an earlier job that does not fit."""
    if (numbers := snapshot.numbers.get(view.id)) is not None:
        yield from job_view.lines(numbers)
        yield from _start_lines(view, snapshot)
    if view.state not in WAITS or snapshot.partial:
        return
    queue = [place.job for place in queue_positions(snapshot.cluster, view.queue, len(snapshot.cluster.jobs))]
    before = queue[: queue.index(view.id)]
    yield "place"
    yield f"  {len(before) + 1} of {len(queue)} waiting jobs in queue {view.queue}" + (
        f", after {', '.join(before[-3:])}" if before else ""
    )
    yield from _start_lines(view, snapshot)


def _start_lines(view: JobView, snapshot: Snapshot) -> Iterator[str]:
    """Yield the lines about the expected start of the job, which follows from the run times of similar past jobs. If
    the time limits of the jobs before it determine a latest start, yield the latest start too."""
    if (found := _start(view, snapshot)) is None:
        return
    now_s, latest_s = snapshot.now_s, found.latest_s
    yield "expected start"
    if found.nearly_sure_s[0] < latest_s:
        yield f"  {said(found, now_s)} (with a probability of 50 %)"
    if found.nearly_sure_s[0] < min(latest_s, found.nearly_sure_s[1]):
        yield f"  {interval(found.nearly_sure_s, now_s)} (with a probability of 90 %)"
    if latest_s < inf:
        after = f", when {found.after} ends" if found.after else ""
        yield f"  in {duration(latest_s - now_s)} at the latest ({format_time(latest_s, now_s)}){after}"


def _start(view: JobView, snapshot: Snapshot) -> StartForecast | None:
    if view.state not in WAITS or view.soon or not _is_foreseeable(view, snapshot):
        return None
    return snapshot.expected([view.id]).get(view.id)


def _is_foreseeable(view: JobView, snapshot: Snapshot) -> bool:
    """Return True if the expected start is known, or if its computation takes at most about two seconds. The forecast
    simulates the starts of all jobs before this job, and the time for each simulated cycle is proportional to the
    number of jobs."""
    jobs = len(snapshot.cluster.jobs)
    if jobs <= MANY_JOBS or snapshot.partial or snapshot.starts is not None:
        return True
    first = queue_positions(snapshot.cluster, view.queue, _FORESEEN // jobs)
    return any(place.job == view.id for place in first)


def _holder_lines(view: JobView) -> Iterator[str]:
    numbers = view.reason.numbers if view.reason else {}
    holders, resource = numbers.get("holders"), numbers.get("resource", "")
    if holders:
        yield f"most {resource} is used by" if resource else "running jobs"
        for job, amount in holders.items():
            yield f"  {job}: {format_amount(resource, amount)}" if resource else f"  {job}"
