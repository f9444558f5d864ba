"""A job as people see it: a row of `phalanx jobs`, and the page of `phalanx explain`. Pure: a snapshot in, text out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from phalanx.cli.cluster.jobs.ending import failure, in_brief, obstacles, pod_failure, why_stuck
from phalanx.cli.cluster.jobs.finding import controller_of, kind_text, reference_text
from phalanx.cli.cluster.jobs.standing import STUCK
from phalanx.cli.cluster.live_state import Snapshot
from phalanx.cli.terminal.output import amounts_text, counted, duration
from phalanx.cli.views.job import told_numbers
from phalanx.cli.views.job.expected_start import interval, said, start_record
from phalanx.cli.views.job.job_row import MANY_JOBS, RUNS, JobRow
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.clusters.reach import cluster_of
from phalanx.dialects.frame.peer_reasons import words
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import EXPLAINED
from phalanx.kube.read.labels import ARRAY, CLUSTER_CHOICE, JOB, OURS, QUEUE, USER, option
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.read.workload.adapter import TRAINING_KINDS, adapters
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import GangSize, Phase, Role
from phalanx.model.plan import Start
from phalanx.model.pod import format_amount
from phalanx.model.reason import Reason, StartForecast, format_time
from phalanx.report.queue_status import queue_positions
from phalanx.state.cluster import JobRecord, time_limit_s

_NODES_SHOWN = 3
_GPU = "nvidia.com/gpu"
_FORESEEN = 60_000  # jobs of the cluster, times the place of a job of which a forecast is made
_AGAIN_S = 2.0  # the longest time until the Job controller reports that a new Job is suspended
_WAITS = ("queued", "promised")
_OVER = ("Succeeded", "Failed")
GANG = "Gang"  # the kind of a job that several objects form


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """`state`: queued, promised (nominated; its victims terminate), starting, running, stuck (the job has started, and
    one of its pods cannot start), stopping (the job is being preempted), complete or failed. `placed`: pods that have a
    node, of `wanted`. `since_s`: in this state, in seconds since the epoch. `nodes`: node -> pods there. `soon`: the
    next cycle starts it. `preempted`: how often the whole job was preempted. `preempted_by`: the preemptor, while the
    job waits after a preemption. `limit_s`: the time limit of each run; None: no limit, or unknown. `ending`: no pod of
    the job runs or will run, and its end is not reported yet. `fixed`: it starts with as many pods as fit, and does not
    grow. `kind`: the kind of the object that the user created. `made`: the name of that object, if the scheduler knows
    the job by another object. `user`: the submitter. `array`: the name of the array that the task belongs to. `cap`:
    how many tasks of the array may run at a time; 0: all. `cluster`: the other cluster that runs it; `clusters`: what
    is known of each cluster for it, or why that one was chosen."""

    id: str
    queue: str
    state: str
    wanted: int
    placed: int
    since_s: float
    submitted_s: float
    priority: int
    nodes: dict[str, int]
    reason: Reason | None
    message: str  # how it failed, or why it is stuck
    soon: bool
    roles: tuple[Role, ...]
    preempted: int = 0
    preempted_by: str = ""
    limit_s: float | None = None
    ending: bool = False
    fixed: bool = False
    kind: str = kind_text(JOBS)
    made: str = ""
    user: str = ""
    array: str = ""
    cap: int = 0
    cluster: str = ""
    clusters: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        return self.made or self.id.partition("/")[2]

    @property
    def task(self) -> int | None:
        """Return the number of the task within its array; None for other jobs."""
        number = self.name.removeprefix(f"{self.array}-") if self.array else ""
        return int(number) if number.isascii() and number.isdigit() else None

    @property
    def gpus(self) -> int:
        """Return the GPUs that all its pods request."""
        asked = ((role.count, dict(role.shape.requests)) for role in self.roles)
        return sum(count * requests.get(_GPU, 0) for count, requests in asked)

    @property
    def title(self) -> str:
        """Return NAMESPACE/NAME of the object that the user made."""
        return f"{self.namespace}/{self.name}"

    def where(self) -> str:
        """The reason for which the job waits; otherwise its nodes."""
        if self.reason is not None:
            return self.reason.text
        if self.ending:
            return "its pods have ended; how, its Job says in a moment"
        if self.soon:
            return "there is room; it starts in a moment"
        if self.state == "queued" and not (self.message or self.nodes):
            return "the scheduler decides on it in a moment"
        return in_brief(self.message) or _places(self.nodes)

    def row(self, start: StartForecast | None, now_s: float, *, recorded: bool = False) -> JobRow:
        """Return the row of the job. `start`: its expected start, if that is known. `recorded`: with all details."""
        record = {**self.record(), "expected_start": start_record(start)} if recorded else {}
        return JobRow(
            id=self.id,
            name=self.name,
            kind=self.kind,
            user=self.user,
            queue=self.queue,
            state=self.state,
            wanted=self.wanted,
            placed=self.placed,
            since_s=self.since_s,
            submitted_s=self.submitted_s,
            limit_s=self.limit_s,
            priority=self.priority,
            gpus=self.gpus,
            each="; ".join(dict.fromkeys(amounts_text(role.shape.requests) for role in self.roles)),
            where=self.where(),
            expected=said(start, now_s) if start is not None else "",
            array=self.array,
            task=self.task,
            cap=self.cap,
            cluster=self.cluster,
            record=record,
        )

    def record(self) -> dict[str, Any]:
        """For `--json`; docs/guide/command-line.md describes it."""
        reason = self.reason
        return {
            "job": self.id,
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "user": self.user,
            "array": self.array,
            "queue": self.queue,
            "state": self.state,
            "pods": {"wanted": self.wanted, "placed": self.placed},
            "submitted": write_moment(self.submitted_s),
            "since": write_moment(self.since_s),
            "priority": self.priority,
            "time_limit_s": self.limit_s,
            "nodes": self.nodes,
            "cluster": self.cluster,
            "clusters": list(self.clusters),
            "reason": reason
            and {
                "code": reason.code,
                "text": reason.text,
                "numbers": dict(reason.numbers),
                "peers": words(reason.code, reason.numbers),
            },
            "message": self.message,
            "preempted": {"times": self.preempted, "by": self.preempted_by},
            "roles": [
                {"name": role.name, "count": role.count, "minimum": role.minimum, "each": dict(role.shape.requests)}
                for role in self.roles
            ],
        }


def views(snapshot: Snapshot, namespace: str = "", *, finished: bool = False) -> list[JobView]:
    """The jobs of a namespace (or all): what runs first, then what waits in its order; finished Jobs at the end."""
    prefix = f"{namespace}/" if namespace else ""
    live = _live_views(snapshot, (job for job in snapshot.cluster.jobs if job.startswith(prefix)))
    found = sorted(live, key=lambda view: (view.state in _WAITS, -view.priority, view.submitted_s, view.id))
    if finished:
        found += _finished(snapshot)
    return [view for view in found if not namespace or view.namespace == namespace]


def live_view(snapshot: Snapshot, job: str) -> JobView | None:
    """Return the view of a job that waits or runs, by its id."""
    return next(iter(_live_views(snapshot, [job])), None) if job in snapshot.cluster.jobs else None


def _live_views(snapshot: Snapshot, jobs: Iterable[str]) -> list[JobView]:
    reasons, starting, promised = snapshot.reasons, snapshot.starting, snapshot.nominated
    live = [
        _live(snapshot, snapshot.cluster.jobs[job], reasons.get(job), isinstance(starting.get(job), Start))
        for job in jobs
    ]
    return [replace(view, state="promised") if view.id in promised else view for view in live]


def expected_starts(found: Sequence[JobView], snapshot: Snapshot) -> Mapping[str, StartForecast]:
    """Return the expected start of each pending job. With more than `MANY_JOBS` live jobs, return none, because the
    forecast takes too long."""
    if len(snapshot.cluster.jobs) > MANY_JOBS:
        return {}
    return snapshot.expected([view.id for view in found if view.state in _WAITS and not view.soon])


def page(view: JobView, snapshot: Snapshot) -> str:
    """All there is to say about one job."""
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


def whole_record(view: JobView, snapshot: Snapshot) -> dict[str, Any]:
    """All there is to say about one job, for `--json`."""
    told = snapshot.numbers.get(view.id)
    numbers = {} if told is None else {"numbers": told_numbers.record(told)}
    return {**view.record(), "expected_start": start_record(_start(view, snapshot)), **numbers}


def _places(nodes: dict[str, int]) -> str:
    """`a x4, b, c and 7 more nodes`."""
    shown = [f"{node} x{pods}" if pods > 1 else node for node, pods in sorted(nodes.items())[:_NODES_SHOWN]]
    more = len(nodes) - len(shown)
    return ", ".join(shown) + (f" and {counted(more, 'more node')}" if more else "")


# --- the page -----------------------------------------------------------------------------------------------------


def _age(view: JobView, now_s: float) -> str:
    """Return the time in its present state, and the time since its submission if that differs."""
    again = view.state in _WAITS and view.since_s - view.submitted_s >= _AGAIN_S
    return duration(now_s - view.since_s) + (f", submitted {duration(now_s - view.submitted_s)} ago" if again else "")


def _verdict(view: JobView) -> str:
    if view.cluster and view.state == "running":
        return f"It runs in cluster {view.cluster}, which has a copy of it."
    if view.reason is not None:
        return f"{view.reason.code}: {view.reason.text}"
    if view.soon:
        return "There is room for it now: the scheduler starts it in its next cycle. If this stays, does one run?"
    if view.state == "stopping":
        return "It gives way to another: its pods are ending, and then it waits again with its age."
    if view.state == STUCK:
        return (
            f"{view.message}. The job keeps its nodes, and starts once the cause is mended; `phalanx cancel` ends it."
        )
    if view.state == "starting":
        return "Its places are decided; it starts when all pods of its minimum exist and are bound together."
    if view.state != "running" or view.ending:
        return view.message.replace("\n", "\n  ") or view.where() or "It is over."
    if view.placed >= view.wanted:
        return "It has all that it asked for."
    more = "it keeps that size until it starts again" if view.fixed else "more follow as room and its queue allow"
    return f"It runs with {view.placed} of its {view.wanted} pods; {more}."


def _role_lines(roles: Sequence[Role]) -> Iterator[str]:
    if roles:
        yield "roles"
    for role in roles:
        together = "start together" if role.minimum == role.count else f"of which {role.minimum} must start together"
        yield f"  {role.name or 'pods'}: {role.count} x ({amounts_text(role.shape.requests)}), {together}"


def _limit_lines(view: JobView, now_s: float) -> Iterator[str]:
    if view.limit_s is not None:
        ends = f", so it is ended at {format_time(view.since_s + view.limit_s, now_s)}" if view.state in RUNS else ""
        yield "time limit"
        yield f"  {duration(view.limit_s)}{ends}"


def _pod_lines(view: JobView, snapshot: Snapshot) -> Iterator[str]:
    gang = snapshot.gangs.get(view.id)
    pods = sorted(gang.pods.values(), key=lambda pod: pod.name) if gang else []
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
    """Return the lines about the job's place in the queue's order. Order is not a barrier: who fits may start before
    who does not."""
    if (numbers := snapshot.numbers.get(view.id)) is not None:
        yield from told_numbers.lines(numbers)
        yield from _start_lines(view, snapshot)
    if view.state not in _WAITS or snapshot.partial:
        return
    queue = [place.job for place in queue_positions(snapshot.cluster, view.queue, len(snapshot.cluster.jobs))]
    before = queue[: queue.index(view.id)]
    yield "place"
    yield f"  {len(before) + 1} of {len(queue)} that wait in queue {view.queue}" + (
        f", after {', '.join(before[-3:])}" if before else ""
    )
    yield from _start_lines(view, snapshot)


def _start_lines(view: JobView, snapshot: Snapshot) -> Iterator[str]:
    """When it is expected to start, by how long jobs like those that run ran; and at the latest, if limits tell."""
    if (found := _start(view, snapshot)) is None:
        return
    now_s, latest_s = snapshot.now_s, found.latest_s
    yield "expected start"
    if found.nearly_sure_s[0] < latest_s:
        yield f"  {said(found, now_s)} (that holds every other time)"
    if found.nearly_sure_s[0] < min(latest_s, found.nearly_sure_s[1]):
        yield f"  {interval(found.nearly_sure_s, now_s)} (that holds nine times in ten)"
    if latest_s < inf:
        after = f", when {found.after} ends" if found.after else ""
        yield f"  in {duration(latest_s - now_s)} at the latest ({format_time(latest_s, now_s)}){after}"


def _start(view: JobView, snapshot: Snapshot) -> StartForecast | None:
    if view.state not in _WAITS or view.soon or not _is_foreseeable(view, snapshot):
        return None
    return snapshot.expected([view.id]).get(view.id)


def _is_foreseeable(view: JobView, snapshot: Snapshot) -> bool:
    """Return True if the expected start is known, or a forecast takes about two seconds at most. A forecast simulates
    the starts of all jobs before this one, and each simulated cycle costs in proportion to the number of jobs."""
    jobs = len(snapshot.cluster.jobs)
    if jobs <= MANY_JOBS or snapshot.partial or snapshot.starts is not None:
        return True
    first = queue_positions(snapshot.cluster, view.queue, _FORESEEN // jobs)
    return any(place.job == view.id for place in first)


def _holder_lines(view: JobView) -> Iterator[str]:
    numbers = view.reason.numbers if view.reason else {}
    holders, resource = numbers.get("holders"), numbers.get("resource", "")
    if holders:
        yield f"most {resource} is held by" if resource else "those that run"
        for job, amount in holders.items():
            yield f"  {job}: {format_amount(resource, amount)}" if resource else f"  {job}"


# --- views --------------------------------------------------------------------------------------------------------


def _live(snapshot: Snapshot, record: JobRecord, reason: Reason | None, soon: bool) -> JobView:
    job = record.job
    nodes = Counter(record.placements.values())
    gang = snapshot.gangs.get(job.id)
    marks = [member.mark for member in gang.jobs.values() if member.mark is not None] if gang else []
    wanted, whole = (
        sum(role.count for role in job.roles),
        sum(_whole(each) for each in gang.jobs.values()) if gang else 0,
    )
    kind, made = _made(snapshot, job.id)
    stuck = _why_stuck(snapshot, record)
    return JobView(
        id=job.id,
        queue=snapshot.cluster.queue_of(job),
        state=STUCK if stuck else str(record.phase),
        wanted=wanted or whole,
        placed=len(record.placements),
        since_s=_since(snapshot, record),
        submitted_s=job.submitted_s,
        priority=job.priority,
        nodes=dict(nodes),
        reason=None if stuck else reason or job.blocked,
        message=stuck,
        soon=soon,
        roles=job.roles,
        preempted=record.preempted,
        preempted_by=marks[0].by if marks else "",
        limit_s=_limit_s(snapshot, record),
        ending=not wanted and whole > 0 and str(record.phase) == "running",
        kind=kind,
        made=made,
        user=job.user,
        array=job.array,
        cap=job.array_cap or 0,
        fixed=job.size is GangSize.FIXED_AT_START,
        cluster=gang.record.cluster if gang is not None and gang.record is not None else "",
        clusters=_clusters(gang),
    )


def _clusters(gang: GangLifecycle | None) -> tuple[str, ...]:
    """Return what is known of each other cluster for a gang that waits; why one was chosen for a gang that runs."""
    if gang is None or gang.spec is None or not gang.jobs:
        return ()
    if gang.waits:
        facts = gang.spec.choice.facts if gang.spec.choice is not None else {}
        return tuple(f"{name}: {fact}" for name, fact in list(facts.items())[:EXPLAINED])
    said = next(iter(gang.jobs.values())).options.get(CLUSTER_CHOICE, "")
    return tuple(filter(None, said.split("; ")))


def _why_stuck(snapshot: Snapshot, record: JobRecord) -> str:
    """Return why a job that has started is stuck; "" for all others."""
    gang = snapshot.gangs.get(record.job.id)
    if gang is None or record.phase not in (Phase.STARTING, Phase.RUNNING):
        return ""
    return why_stuck(pod for one in gang.pods.values() if (pod := snapshot.pods.get(one.key)) is not None)


def _made(snapshot: Snapshot, job: str) -> tuple[str, str]:
    """Return `kind` and `made` of a job (see `JobView`)."""
    gang = snapshot.gangs.get(job)
    members = [*gang.jobs.values()] if gang is not None else []
    if members:
        alone = len({member.key for member in members}) == 1
        return kind_text(members[0].adapter.kind) if alone else GANG, ""
    namespace, _, name = job.partition("/")
    mark, colon, named = name.rpartition(":")
    if colon and mark == "pod":
        return PODS.name, ""
    pods = [snapshot.pods.get(pod.key) or {} for pod in gang.pods.values()] if gang is not None else []
    groups = [
        (kind, objects[f"{namespace}/{named}"])
        for kind, objects in snapshot.objects.items()
        if colon and kind.name == "PodGroup" and f"{namespace}/{named}" in objects
    ]
    owner = next((one for obj in (*pods, *(obj for _, obj in groups)) if obj and (one := controller_of(obj))), None)
    if owner is not None:
        kind, _, name = reference_text(owner).rpartition("/")
        return kind, name
    return kind_text(groups[0][0]) if groups else GANG, named if colon else ""


def _whole(job: BatchJob) -> int:
    """The pods that it asks for from beginning to end."""
    return job.requested_parallelism if job.completions is None else job.completions


def _since(snapshot: Snapshot, record: JobRecord) -> float:
    """Return the time at which the job entered its state: the decision to start it, its submission, or, if it waits
    again, the last suspension of its Jobs."""
    gang, submitted_s = snapshot.gangs.get(record.job.id), record.job.submitted_s
    if gang is None:
        return submitted_s
    if str(record.phase) == "queued":
        jobs = (snapshot.objects.get(job.adapter.kind, {}).get(job.key) or {} for job in gang.jobs.values())
        return max([submitted_s, *map(_suspended_s, jobs)])
    return (gang.record.at_s if gang.record is not None else 0.0) or submitted_s


def _suspended_s(obj: Object) -> float:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    found = (each for each in conditions if (each["type"], each["status"]) == ("Suspended", "True"))
    return max((epoch_s(each.get("lastTransitionTime")) for each in found), default=0.0)


def _limit_s(snapshot: Snapshot, record: JobRecord) -> float | None:
    """Return the job's own time limit, or else its queue's default; for a running job, the limit at its start."""
    job, gang = record.job, snapshot.gangs.get(record.job.id)
    if str(record.phase) == "queued":
        known = snapshot.cluster.queue_of(job) in snapshot.cluster.queues
        return time_limit_s(snapshot.cluster, job) if known else job.limit_s
    given = gang.record.limit_s if gang is not None and gang.record is not None else None
    return min((limit for limit in (given, job.limit_s) if limit is not None), default=None)


def _finished(snapshot: Snapshot) -> list[JobView]:
    """Jobs that are over and not deleted yet, the latest first."""
    owned = defaultdict[str, list[Object]](list)
    for pod in snapshot.pods.values():
        for owner in pod["metadata"].get("ownerReferences") or ():
            owned[owner["uid"]].append(pod)
    found = [
        _over(
            kind, [form.read(obj) for form in adapters(kind, obj)], sorted(owned[obj["metadata"]["uid"]], key=_ended_s)
        )
        for kind, obj in _job_objects(snapshot)
    ]
    return sorted([*(view for view in found if view), *_ended_pods(snapshot)], key=lambda view: -view.since_s)


def _ended_pods(snapshot: Snapshot) -> Iterator[JobView]:
    """Yield the finished gangs of bare pods. A gang with a pod that still runs is not finished."""
    gangs = defaultdict[str, list[Object]](list)
    for pod in snapshot.pods.values():
        meta = pod["metadata"]
        if pod["spec"].get("schedulerName") in OURS and not any(
            owner.get("controller") for owner in meta.get("ownerReferences") or ()
        ):
            gangs[f"{meta['namespace']}/{option(meta, JOB) or 'pod:' + meta['name']}"].append(pod)
    for job, pods in gangs.items():
        if job not in snapshot.cluster.jobs and all(_phase(pod) in _OVER for pod in pods):
            yield _pods_over(job, pods)


def _pods_over(job: str, pods: Sequence[Object]) -> JobView:
    failed = [pod for pod in pods if _phase(pod) == "Failed"]
    metas = [pod["metadata"] for pod in pods]
    return JobView(
        id=job,
        queue=next((queue for meta in metas if (queue := option(meta, QUEUE))), ""),
        state="failed" if failed else "complete",
        wanted=len(pods),
        placed=len(pods) - len(failed),
        since_s=max(map(_ended_s, pods)),
        submitted_s=min(epoch_s(meta.get("creationTimestamp")) for meta in metas),
        priority=0,
        nodes=dict(Counter(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))),
        reason=None,
        message=pod_failure(min(failed, key=_ended_s)) if failed else "",
        soon=False,
        roles=(),
        kind=PODS.name if job.partition("/")[2].startswith("pod:") else GANG,
    )


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _ended_s(pod: Object) -> float:
    """When its last container ended, as far as its node said."""
    states = [one.get("state") or {} for one in (pod.get("status") or {}).get("containerStatuses") or ()]
    ends = [epoch_s((state.get("terminated") or {}).get("finishedAt")) for state in states]
    return max(ends, default=0.0) or epoch_s(pod["metadata"].get("creationTimestamp"))


def _job_objects(snapshot: Snapshot) -> Iterator[tuple[Kind, Object]]:
    """Jobs, and training jobs where they are served."""
    for kind in (JOBS, *TRAINING_KINDS):
        yield from ((kind, obj) for obj in snapshot.objects.get(kind, {}).values())


def _over(kind: Kind, shown: Sequence[Object], pods: Sequence[Object]) -> JobView | None:
    """Return a job that is over. `shown`: what stands on its object, each role as a Job; `pods`: in order of end."""
    if not shown or QUEUE not in (shown[0]["metadata"].get("labels") or {}):
        return None
    meta, status = shown[0]["metadata"], shown[0].get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
            return JobView(
                id=f"{meta['namespace']}/{meta['name']}",
                queue=meta["labels"][QUEUE],
                state=condition["type"].lower(),
                wanted=sum(one["spec"].get("completions") or one["spec"].get("parallelism") or 1 for one in shown),
                placed=sum((one.get("status") or {}).get("succeeded") or 0 for one in shown),
                since_s=epoch_s(condition.get("lastTransitionTime")),
                submitted_s=epoch_s(meta.get("creationTimestamp")),
                priority=0,
                nodes={},
                reason=None,
                message=failure(shown[0], pods),
                soon=False,
                roles=(),
                kind=kind_text(kind),
                user=(meta.get("annotations") or {}).get(USER, ""),
                array=option(meta, ARRAY) or "",
                cluster=cluster_of(shown),
            )
    return None
