"""Describe a job for users, without side effects.

- `JobView` is the value from which rows and pages are made.
- `JobTableRow` is a row of `phalanx jobs`. It may come from the scheduler itself, so this part of the module imports no
  scheduling code.
- `said`, `interval` and `start_record` describe when a waiting job is expected to start.
- `lines`, `page` and `record` are for users who may not list the jobs of other users. They show the numbers that the
cluster publishes about the user's own job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf
from typing import Any, Literal

from phalanx.cli.cluster.jobs.attending import in_brief
from phalanx.cli.cluster.jobs.finding import kind_text
from phalanx.cli.cluster.numbers.fetching import forecast_of
from phalanx.cli.terminal.output import amounts_text, counted, duration
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS
from phalanx.client.moment import write_moment
from phalanx.dialects.frame.peer_reasons import words
from phalanx.model.job import Role
from phalanx.model.reason import Reason, StartForecast, format_time
from phalanx.slurm.notation.arrays import shown

COLUMNS = ("JOB", "QUEUE", "STATE", "PODS", "SINCE", "WHERE, OR WHY NOT")
GIVES_WAY = ("SINCE", "QUEUE")
WIDE = ("JOB", "USER", "QUEUE", "STATE", "PODS", "GPUS", "EACH POD", "SINCE", "LEFT", "EXPECTED", "WHERE, OR WHY NOT")
WIDE_GIVES_WAY = ("EACH POD", "SINCE", "USER", "QUEUE", "LEFT", "GPUS", "EXPECTED")
StateName = Literal["queued", "promised", "starting", "running", "stuck", "stopping", "complete", "failed"]
MANY_JOBS = 200  # with more live jobs, commands compute no forecast
GANG = "Gang"  # the kind of a job that consists of several objects
RUNS = ("running", "stuck")  # states that count against the time limit of a job
_TOGETHER = frozenset({"queued", "complete", "failed"})  # a line stands for an array's tasks in one of these states


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTableRow:
    """A row of `phalanx jobs`.

    `id`: the id of the job in the scheduler, NAMESPACE/NAME. `name`, `kind`: the name and kind of the object that the
    user created. `placed`: the number of the `wanted` pods that have a node. `minimum`: the number of pods that must
    start together; None if these are all pods, or if the job has groups. `each`: the request of each pod. `where`: the
    nodes, or the reason why the job waits. `expected`: the expected start, as text.
    `task`: the number of a task within its `array`. `cap`: the maximum number of running tasks of the array; 0 for no
    limit. `cluster`: the other cluster that runs the job. `record`: all fields that `--json` prints, if they were
    requested.
    Times are in seconds since the epoch."""

    id: str
    name: str
    kind: str
    user: str
    queue: str
    state: str
    wanted: int
    placed: int
    since_s: float
    submitted_s: float
    limit_s: float | None
    priority: int
    gpus: int
    each: str
    where: str
    expected: str = ""
    array: str = ""
    task: int | None = None
    cap: int = 0
    cluster: str = ""
    minimum: int | None = None
    record: Mapping[str, object] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.id.partition("/")[0]

    @property
    def title(self) -> str:
        """Return NAMESPACE/NAME of the object that the user created."""
        return f"{self.namespace}/{self.name}"


def short_row(row: JobTableRow, now_s: float, *, with_namespace: bool) -> list[str]:
    """Return the cells of the job's row in the narrow table, one for each of `COLUMNS`."""
    return [
        row.title if with_namespace else row.name,
        row.queue,
        row.state,
        f"{row.placed}/{row.wanted}" + (f" (min {row.minimum})" if row.minimum else ""),
        duration(now_s - row.since_s),
        f"{row.expected}; {row.where}" if row.expected else row.where,
    ]


def wide_row(row: JobTableRow, now_s: float, *, with_namespace: bool) -> list[str]:
    """Return the cells of the job's row in the wide table, one for each of `WIDE`."""
    name, queue, state, pods, since, _ = short_row(row, now_s, with_namespace=with_namespace)
    start, left = row.expected.removeprefix("expected "), _left(row, now_s)
    return [name, row.user, queue, state, pods, str(row.gpus or ""), row.each, since, left, start, row.where]


def table_of(
    rows: Sequence[JobTableRow], now_s: float, *, with_namespace: bool, wide: bool = False
) -> tuple[Sequence[str], list[list[str]], Sequence[str]]:
    """Return the columns of a table of jobs, its cells, and the columns that may be left out on a narrow terminal. The
    table has a column CLUSTER only if another cluster runs one of the jobs."""
    columns, gives_way = (WIDE, WIDE_GIVES_WAY) if wide else (COLUMNS, GIVES_WAY)
    lines = [(wide_row if wide else short_row)(row, now_s, with_namespace=with_namespace) for row in rows]
    if not any(row.cluster for row in rows):
        return columns, lines, gives_way
    with_cluster = [[*line[:-1], row.cluster, line[-1]] for row, line in zip(rows, lines, strict=True)]
    return (*columns[:-1], "CLUSTER", columns[-1]), with_cluster, gives_way


def tasks_together(found: Sequence[JobTableRow]) -> list[JobTableRow]:
    """Return the rows. All waiting tasks of an array share a row, and so do all ended tasks with the same state:
    `sweep[5-9%2]`."""
    groups = defaultdict[tuple[str, str, str], list[JobTableRow]](list)
    for row in found:
        if row.task is not None and row.state in _TOGETHER:
            groups[row.namespace, row.array, row.state].append(row)
    first = {id(group[0]): group for group in groups.values() if len(group) > 1}
    rest = {id(row) for group in first.values() for row in group[1:]}
    return [_together(first[id(row)]) if id(row) in first else row for row in found if id(row) not in rest]


def _together(tasks: Sequence[JobTableRow]) -> JobTableRow:
    first = tasks[0]
    return replace(
        first,
        name=f"{first.array}{shown([task.task for task in tasks if task.task is not None], first.cap)}",
        wanted=sum(task.wanted for task in tasks),
        placed=sum(task.placed for task in tasks),
        minimum=None,
        since_s=min(task.since_s for task in tasks),
    )


def _left(row: JobTableRow, now_s: float) -> str:
    """For a running job, return how much of its time limit is left. For other jobs, return the time limit. Return ""
    without a limit."""
    if row.limit_s is None:
        return ""
    return duration(row.since_s + row.limit_s - now_s if row.state in RUNS else row.limit_s)


def said(expected: StartForecast, now_s: float) -> str:
    """Return the expected start as text: `expected 14:20–15:05 UTC`, or `expected by 15:40 UTC` if only time limits are
    known."""
    if expected.nearly_sure_s[0] < expected.latest_s:
        return f"expected {interval(expected.likely_s, now_s)}"
    return f"expected by {interval((expected.latest_s, expected.latest_s), now_s)}"


def interval(from_to_s: tuple[float, float], now_s: float) -> str:
    """Return an interval as `14:20–15:05 UTC`. The start is rounded down and the end is rounded up to whole minutes. If
    a time is not today, its date is shown too."""
    from_s, to_s = from_to_s
    if from_s == to_s:
        return f"{_minute(ceil(to_s / 60) * 60, now_s)} UTC"
    first = _minute(floor(from_s / 60) * 60, now_s)
    return f"after {first} UTC" if to_s == inf else f"{first}–{_minute(ceil(to_s / 60) * 60, from_s)} UTC"


def _minute(at_s: float, now_s: float) -> str:
    return format_time(at_s, now_s).removesuffix(":00 UTC")


def start_record(found: StartForecast | None) -> dict[str, object] | None:
    """Return an expected start as a record for `--json`; None if it is unknown."""
    if found is None:
        return None
    interval_known = found.latest_s < inf or found.nearly_sure_s[0] < found.nearly_sure_s[1]
    return {
        "at": _moment(found.start_s),
        "likely": [_moment(at_s) for at_s in found.likely_s] if interval_known else None,
        "nearly_sure": [_moment(at_s) for at_s in found.nearly_sure_s] if interval_known else None,
        "latest": _moment(found.latest_s),
        "after": found.after,
    }


def _moment(at_s: float) -> str | None:
    return write_moment(at_s) if at_s < inf else None


_NODES_SHOWN = 3
_GPU = "nvidia.com/gpu"
WAITS = ("queued", "promised")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """The facts about a job that rows and pages show.

    `state`: queued, promised (nominated: its victims terminate, or an autoscaler has promised its nodes), starting,
    running, stuck (the job has started, but one of its pods cannot start), stopping (the job is being preempted),
    complete or failed. `placed`: the number of the `wanted` pods that have a node. `minimum`: the number of pods that
    must start together; None if these are all pods, or if the job has groups. `since_s`: when the job entered this
    state, in seconds since the epoch. `nodes`: node -> number of the job's pods on it. `soon`: True if the next cycle
    starts the job. `preempted`: the number of times that the whole job was preempted. `preempted_by`: the preemptor,
    while the job waits after a preemption. `limit_s`: the time limit of each run; None if there is no limit or it is
    unknown. `ending`: True if no pod of the job runs or will run, but its end is not reported yet. `fixed`: True if the
    job starts with as many pods as fit, and does not grow. `kind`: the kind of the object that the user created.
    `made`: the name of this object if the job has the name of another object in the scheduler; else "". `user`: the
    submitter.
    `array`: the name of the array to which the task belongs. `cap`: the largest number of tasks of the array that run
    at the same time; 0 for no limit. `cluster`: the other cluster that runs the job. `clusters`: for a waiting job, a
    text about each other cluster; for a running job, the reason why its cluster was chosen."""

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
    message: str  # the reason why the job failed or is stuck
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
    minimum: int | None = None

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
        """Return the number of GPUs that all pods of the job request together."""
        asked = ((role.count, dict(role.shape.requests)) for role in self.roles)
        return sum(count * requests.get(_GPU, 0) for count, requests in asked)

    @property
    def title(self) -> str:
        """Return NAMESPACE/NAME of the object that the user created."""
        return f"{self.namespace}/{self.name}"

    def where(self) -> str:
        """Return the reason why the job waits, is stuck or failed; for other jobs, return the nodes."""
        if self.reason is not None:
            return self.reason.text
        if self.ending:
            return "its pods have ended; the Job's controller reports the result in a moment"
        if self.soon:
            return "there is capacity; it starts in a moment"
        if self.state == "queued" and not (self.message or self.nodes):
            return "the scheduler decides on it in a moment"
        return in_brief(self.message) or _places(self.nodes)

    def row(self, start: StartForecast | None, now_s: float, *, recorded: bool = False) -> JobTableRow:
        """Return the row of the job. `start`: its expected start, if known. `recorded`: True to fill the field
        `record`."""
        record = {**self.record(), "expected_start": start_record(start)} if recorded else {}
        return JobTableRow(
            id=self.id,
            name=self.name,
            kind=self.kind,
            user=self.user,
            queue=self.queue,
            state=self.state,
            wanted=self.wanted,
            placed=self.placed,
            minimum=self.minimum,
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
        """Return the record of the job for `--json`; docs/guide/command-line.md describes its fields."""
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
            "pods": {"wanted": self.wanted, "placed": self.placed, "minimum": self.minimum},
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


def _places(nodes: dict[str, int]) -> str:
    """Return the nodes with their numbers of pods as text: `a x4, b, c and 7 more nodes`."""
    shown = [f"{node} x{pods}" if pods > 1 else node for node, pods in sorted(nodes.items())[:_NODES_SHOWN]]
    more = len(nodes) - len(shown)
    return ", ".join(shown) + (f" and {counted(more, 'more node')}" if more else "")


def lines(numbers: Object) -> Iterator[str]:
    """Yield lines of `phalanx explain` from the published numbers: the position in the queue, the jobs before it, and
    the user's own jobs in the queue."""
    if position := numbers.get("position"):
        yield "place"
        yield f"  {position} of {numbers['waiting']} waiting jobs in queue {numbers['queue']}"
        yield f"  ahead: {_demand(numbers['ahead'])}"
    yield "your jobs in this queue"
    yield f"  running: {_demand(numbers['own']['running'])}"
    yield f"  waiting: {_demand(numbers['own']['waiting'])}"


def page(numbers: Object, now_s: float) -> Iterator[str]:
    """Yield the lines of the page of `phalanx explain` for a user who may only read the published numbers about the
    job. `now_s`: the present time, in seconds since the epoch."""
    meta = numbers["metadata"]
    yield f"{meta['namespace']}/{meta['name']}: {numbers['state']}, in queue {numbers['queue']}"
    if (reason := numbers.get("reason")) is not None:
        yield "reason"
        yield f"  {reason['code']}: {reason['message']}"
    yield from lines(numbers)
    if (found := forecast_of(numbers)) is not None:
        yield "expected start"
        yield f"  {interval(found.likely_s, now_s)}"


def record(numbers: Object) -> dict[str, Any]:
    """Return the published numbers as a record for `--json`."""
    return {name: numbers[name] for name in ("position", "waiting", "ahead", "own", "expectedStart") if name in numbers}


def _demand(found: Object) -> str:
    if not found["jobs"]:
        return "no job"
    amounts = ", ".join(f"{amount} {name}" for name, amount in found["amounts"].items())
    return f"{counted(found['jobs'], 'job')}, {counted(found['pods'], 'pod')}" + (f" ({amounts})" if amounts else "")
