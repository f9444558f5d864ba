"""A job as a row of `phalanx jobs`. Pure, and imports no scheduler: rows may come from the scheduler itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from phalanx.cli.terminal.output import duration
from phalanx.slurm.notation.arrays import shown

COLUMNS = ("JOB", "QUEUE", "STATE", "PODS", "SINCE", "WHERE, OR WHY NOT")
GIVES_WAY = ("SINCE", "QUEUE")
WIDE = ("JOB", "USER", "QUEUE", "STATE", "PODS", "GPUS", "EACH POD", "SINCE", "LEFT", "EXPECTED", "WHERE, OR WHY NOT")
WIDE_GIVES_WAY = ("EACH POD", "SINCE", "USER", "QUEUE", "LEFT", "GPUS", "EXPECTED")
StateName = Literal["queued", "promised", "starting", "running", "stuck", "stopping", "complete", "failed"]
MANY_JOBS = 200  # with more live jobs, commands compute no forecast
RUNS = ("running", "stuck")  # states in which a time limit passes
_TOGETHER = frozenset({"queued", "complete", "failed"})  # states of tasks that are shown as one line


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A row.

    `id`: the scheduler's name of the job. `name`, `kind`: the name and kind of the object that the user created.
    `placed`: how many of the `wanted` pods have a node. `minimum`: the number of pods that must start together; None if
    that is all pods, or if the job has groups. `each`: the request of each pod. `where`: the nodes, or why the job
    waits. `expected`: the expected start, as text.
    `task`: the number of a task within its `array`, of which `cap` run at a time (0: all).
    `cluster`: the other cluster that runs the job.
    `record`: all that `--json` prints, if it was asked for.
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
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.id.partition("/")[0]

    @property
    def title(self) -> str:
        """Return NAMESPACE/NAME of the object that the user made."""
        return f"{self.namespace}/{self.name}"


def short_row(row: JobRow, now_s: float, *, with_namespace: bool) -> list[str]:
    """Return the cells of `COLUMNS`."""
    return [
        row.title if with_namespace else row.name,
        row.queue,
        row.state,
        f"{row.placed}/{row.wanted}" + (f" (min {row.minimum})" if row.minimum else ""),
        duration(now_s - row.since_s),
        f"{row.expected}; {row.where}" if row.expected else row.where,
    ]


def wide_row(row: JobRow, now_s: float, *, with_namespace: bool) -> list[str]:
    """Return the cells of `WIDE`."""
    name, queue, state, pods, since, _ = short_row(row, now_s, with_namespace=with_namespace)
    start, left = row.expected.removeprefix("expected "), _left(row, now_s)
    return [name, row.user, queue, state, pods, str(row.gpus or ""), row.each, since, left, start, row.where]


def table_of(
    rows: Sequence[JobRow], now_s: float, *, with_namespace: bool, wide: bool = False
) -> tuple[Sequence[str], list[list[str]], Sequence[str]]:
    """Return the columns of a table of jobs, its cells, and the columns that a narrow terminal leaves out. There is a
    column CLUSTER if another cluster runs one of the jobs."""
    columns, gives_way = (WIDE, WIDE_GIVES_WAY) if wide else (COLUMNS, GIVES_WAY)
    lines = [(wide_row if wide else short_row)(row, now_s, with_namespace=with_namespace) for row in rows]
    if not any(row.cluster for row in rows):
        return columns, lines, gives_way
    with_cluster = [[*line[:-1], row.cluster, line[-1]] for row, line in zip(rows, lines, strict=True)]
    return (*columns[:-1], "CLUSTER", columns[-1]), with_cluster, gives_way


def tasks_together(found: Sequence[JobRow]) -> list[JobRow]:
    """Return the rows of the jobs. Those tasks of an array that do not run and are in the same state become one row:
    `sweep[5-9%2]`."""
    groups = defaultdict[tuple[str, str, str], list[JobRow]](list)
    for row in found:
        if row.task is not None and row.state in _TOGETHER:
            groups[row.namespace, row.array, row.state].append(row)
    first = {id(group[0]): group for group in groups.values() if len(group) > 1}
    rest = {id(row) for group in first.values() for row in group[1:]}
    return [_together(first[id(row)]) if id(row) in first else row for row in found if id(row) not in rest]


def _together(tasks: Sequence[JobRow]) -> JobRow:
    first = tasks[0]
    return replace(
        first,
        name=f"{first.array}{shown([task.task for task in tasks if task.task is not None], first.cap)}",
        wanted=sum(task.wanted for task in tasks),
        placed=sum(task.placed for task in tasks),
        minimum=None,
        since_s=min(task.since_s for task in tasks),
    )


def _left(row: JobRow, now_s: float) -> str:
    """Return the time that the job may still run; its time limit if it does not run."""
    if row.limit_s is None:
        return ""
    return duration(row.since_s + row.limit_s - now_s if row.state in RUNS else row.limit_s)
