"""Serve numbers that every user may read, as an API group: the status of each queue, and the reasons why the user's own
jobs wait.

    /apis/visibility.phalanx.dev/v1/queues/NAME/summary
    /apis/visibility.phalanx.dev/v1/namespaces/NAMESPACE/jobs/NAME/reason

The name `-` selects all queues, or all jobs of the namespace. RBAC controls the access: the verb `get` on
`queues/summary` and on `jobs/reason`. No response names a job, user or namespace other than the requested one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from phalanx.cli.cluster.numbers.fetching import ALL, GROUP, VERSION
from phalanx.client.connection import Object
from phalanx.client.moment import write_moment
from phalanx.dashboard.redaction import unnamed
from phalanx.kube.status.queue_status import exact
from phalanx.model.job import Phase
from phalanx.model.pod import Amount
from phalanx.model.reason import Reason
from phalanx.model.status import QueueStatus, ResourceUsage
from phalanx.report.status import waiting_jobs
from phalanx.state.cluster import Cluster, JobRecord

_API: Final = f"{GROUP}/{VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersSource:
    """The data for the responses. `jobs`: id of a live job -> the numbers about the job. `standings`: the status of
    each queue, parents first. `reason`: a function that returns the reason why a job waits. `starts`: job id -> its
    expected start (seconds since the epoch), for jobs with a forecast."""

    jobs: Mapping[str, JobNumbers]
    standings: Sequence[QueueStatus]
    reason: Callable[[str], Reason | None]
    starts: Mapping[str, float] = field(default_factory=dict)


def source_of(
    cluster: Cluster, standings: Sequence[QueueStatus], reason: Callable[[str], Reason | None]
) -> NumbersSource:
    """Return the numbers about all queues and live jobs at this moment."""
    places = [place for standing in standings for place in standing.first]
    return NumbersSource(
        jobs={one.job: one for one in job_numbers(cluster, cluster.jobs)},
        standings=standings,
        reason=reason,
        starts={place.job: place.start_s for place in places if place.start_s is not None},
    )


def answer(source: NumbersSource, path: Sequence[str]) -> Object:
    """Return the response to a request for `path` below the API group: a summary, a reason, a list of either, or a
    Status with the error."""
    match tuple(path):
        case (version, "queues", name, "summary") if version == VERSION:
            found = [queue_summary(one) for one in source.standings if name in {ALL, one.queue}]
            return _one_or_all("QueueSummary", name, found, f'queues.{GROUP} "{name}" not found')
        case (version, "namespaces", namespace, "jobs", name, "reason") if version == VERSION:
            return _one_or_all(
                "JobReason", name, _reasons(source, namespace, name), f'jobs.{GROUP} "{name}" does not wait or run'
            )
        case _:
            return _status(404, "NotFound", "the server could not find the requested resource")


def _reasons(source: NumbersSource, namespace: str, name: str) -> list[Object]:
    if name != ALL:
        found = source.jobs.get(f"{namespace}/{name}")
        return [] if found is None else [_job_reason(source, found)]
    return [_job_reason(source, one) for job, one in source.jobs.items() if job.startswith(f"{namespace}/")]


def _job_reason(source: NumbersSource, one: JobNumbers) -> Object:
    namespace, _, name = one.job.partition("/")
    reason = source.reason(one.job) if one.position else None
    start_s = source.starts.get(one.job)
    found: dict[str, Any] = {
        "apiVersion": _API,
        "kind": "JobReason",
        "metadata": {"namespace": namespace, "name": name},
        "queue": one.queue,
        "state": one.state,
        "own": {"running": _demand(one.own_running), "waiting": _demand(one.own_waiting)},
    }
    if one.position:
        found |= {"position": one.position, "waiting": one.waiting, "ahead": _demand(one.ahead)}
    if reason is not None:
        text, numbers = unnamed(str(reason.code), reason.text, reason.numbers)
        found["reason"] = {"code": str(reason.code), "message": text, "numbers": numbers}
    return found | ({"expectedStart": write_moment(start_s)} if start_s is not None and one.position else {})


def _demand(found: JobSum) -> Object:
    amounts = {name: exact(name, value) for name, value in sorted(found.amounts.items()) if name != "pods"}
    return {"jobs": found.jobs, "pods": found.pods, "amounts": amounts}


def queue_summary(one: QueueStatus) -> Object:
    """Return the quota and the usage of a queue, without the list of its jobs."""
    return {
        "apiVersion": _API,
        "kind": "QueueSummary",
        "metadata": {"name": one.queue},
        "parent": one.parent,
        "depth": one.depth,
        "state": str(one.state),
        "heldBy": one.held_by,
        "fault": one.fault,
        "running": one.running,
        "pending": one.pending,
        "share": round(one.share, 4) if isfinite(one.share) else None,
        "usage": [_usage(each) for each in one.usage],
    }


def _usage(one: ResourceUsage) -> Object:
    amounts = {
        "used": one.used,
        "guaranteed": one.guaranteed,
        "limit": one.limit,
        "borrowed": one.borrowed,
        "lendable": one.lendable,
    }
    said = {name: exact(one.resource, value) for name, value in amounts.items() if value is not None}
    return {"flavor": one.flavor, "resource": one.resource, **said}


def _one_or_all(kind: str, name: str, found: Iterable[Object], missing: str) -> Object:
    items = list(found)
    if name == ALL:
        return {"apiVersion": _API, "kind": f"{kind}List", "metadata": {}, "items": items}
    return items[0] if items else _status(404, "NotFound", missing)


def _status(code: int, reason: str, message: str) -> Object:
    words = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return {"apiVersion": "v1", "kind": "Status", "metadata": {}, **words}


# --- of jobs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSum:
    """Several jobs together: their number, the number of their pods, and the sum of the pods' requests by resource."""

    jobs: int = 0
    pods: int = 0
    amounts: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNumbers:
    """The numbers about one job. `position`: the job's position among the `waiting` jobs of its queue, from 1; 0 if the
    job does not wait.
    `ahead`: the number, pods and requests of the jobs that wait before this job, as sums. `own_running`, `own_waiting`:
    the sums of the running and of the waiting jobs of the same user in the queue."""

    job: str
    queue: str
    state: str
    position: int
    waiting: int
    ahead: JobSum
    own_running: JobSum
    own_waiting: JobSum


def job_numbers(cluster: Cluster, jobs: Iterable[str]) -> Iterator[JobNumbers]:
    """Yield the numbers about each live job in `jobs`. Jobs are sorted by queue, and within a queue by its order."""
    by_queue = defaultdict[str, set[str]](set)
    for job in jobs:
        if (record := cluster.jobs.get(job)) is not None:
            by_queue[record.queue].add(job)
    for queue, asked in by_queue.items():
        yield from _of_queue(cluster, queue, asked)


def _of_queue(cluster: Cluster, queue: str, asked: set[str]) -> Iterator[JobNumbers]:
    own = _own(cluster, queue)
    waiting = waiting_jobs(cluster, queue)
    ahead = _Sum()
    places: dict[str, tuple[int, JobSum]] = {}
    for position, record in enumerate(waiting, 1):
        if record.job.id in asked:
            places[record.job.id] = position, ahead.sum()
        ahead.add(record)
    for job in sorted(asked, key=lambda job: places[job][0] if job in places else 0):
        record = cluster.jobs[job]
        position, before = places.get(job, (0, JobSum()))
        running, queued = (own[record.job.user, waits].sum() for waits in (False, True))
        yield JobNumbers(
            job=job,
            queue=queue,
            state=str(record.phase),
            position=position,
            waiting=len(waiting),
            ahead=before,
            own_running=running,
            own_waiting=queued,
        )


def _own(cluster: Cluster, queue: str) -> dict[tuple[str, bool], _Sum]:
    """Return the sums of the jobs of each user in the queue. The key is (user, waiting): `waiting` is True for the sum
    of waiting jobs and False for the sum of running jobs. Jobs without a user are left out."""
    found = defaultdict[tuple[str, bool], _Sum](_Sum)
    names = (queue, "") if queue == cluster.policy.default_queue else (queue,)
    for record in (cluster.jobs[job] for name in names for job in cluster.jobs_of.get(name, ())):
        if record.job.user:
            found[record.job.user, record.phase is Phase.QUEUED].add(record)
    return found


class _Sum:
    """A running sum of jobs, pods and requests."""

    def __init__(self) -> None:
        self._jobs = self._pods = 0
        self._amounts = Counter[str]()

    def add(self, record: JobRecord) -> None:
        self._jobs += 1
        for role in record.job.roles:
            self._pods += role.count
            for resource, each in role.shape.requests:
                self._amounts[resource] += each * role.count

    def sum(self) -> JobSum:
        return JobSum(jobs=self._jobs, pods=self._pods, amounts=dict(self._amounts))
