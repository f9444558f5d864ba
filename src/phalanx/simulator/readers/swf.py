"""The Standard Workload Format of the Parallel Workloads Archive (Feitelson, Tsafrir, Krakov: "Experience with using
the Parallel Workloads Archive", JPDC 2014; format: cs.huji.ac.il/labs/parallel/workload/swf.html).


A line has eighteen fields, separated by white space; -1 means that a value is unknown. Header lines have the form `;
Name: value`. The fields are used as follows:

- *Size*: the requested processors (field 8), or the allocated processors (5) if the request is unknown. Records without
  processors, and records whose run time is 0 or unknown (the job was cancelled before its start), are left out, as is
  usual with this archive. Their number is reported.
- *Limit*: the requested time (9). If the requested time is unknown, the job has no limit. If a job ran longer than its
  limit, the reader shortens its run time to the limit, because a simulation stops jobs at their limits.
- User, group, queue (12, 13, 15; the partition 16 if there is no queue), and the recorded wait (3).
- Average CPU time, used and requested memory, and executable are not used. The status is only used to recognise parts
  of jobs: a job that was checkpointed has one record for the whole job, and one record with the same job number for
  each of its parts (status 2, 3, 4). Records of parts are left out.
- *Preceding job* and think time (17, 18) are used only with the option `follow`, because many logs use these fields for
  other values. With the option, a job is submitted when its think time has passed since the end of its preceding job. A
  job without a think time is submitted when the preceding job ends, but not before its own submit time. If the
  preceding job is not part of the run, both fields are ignored.

The size of the cluster is the value of `MaxProcs` in the header or, if there is none, the value of `MaxNodes`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from phalanx.model.job import Job, Role
from phalanx.simulator.readers.lines import LONGEST_S, BadRecord, OnError, SourceFile, TraceError
from phalanx.simulator.workload import Task, Workload, machine, processors

FIELDS = 18
NAMES = (
    *("job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory"),
    *("requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue"),
    *("partition", "preceding job", "think time"),
)
PARTIAL = {2, 3, 4}
MOST_PROCESSORS = 10**8


def read(
    path: Path,
    *,
    on_error: OnError = OnError.STOP,
    first: int | None = None,
    follow: bool = False,
    size: int | None = None,
) -> Workload:
    """Return the workload of a log. `first`: the number of jobs after which reading stops; None for all jobs. `follow`:
    whether the preceding-job field is used. `size`: the machine's number of processors, which is used instead of the
    number in the header. Raises `TraceError`."""
    source, header = SourceFile(path, on_error), dict[str, str]()
    tasks, seen = list[Task](), set[int]()
    for line, text in source.lines():
        if text.lstrip().startswith(";"):
            note_header(header, text)
        elif text.strip():
            try:
                task = read_record(source, text, follow, seen)
            except BadRecord as bad:
                source.fault(line, bad)
                continue
            if task is not None:
                tasks.append(task)
                if len(tasks) == first:
                    break
    count = size or machine_size(path, header, tasks)
    return source.workload(as_submitted(following(tasks) if follow else tasks), nodes=(machine(count),))


def following(tasks: list[Task]) -> list[Task]:
    """Remove references to preceding jobs that are not part of the run or have a higher number, so that no task waits
    for ever. Return the tasks."""
    known = {task.job.id for task in tasks}
    return [
        task
        if task.follows in known and int(task.follows) < int(task.job.id)
        else replace(task, follows="", think_s=None)
        for task in tasks
    ]


def as_submitted(tasks: list[Task]) -> list[Task]:
    """Return the tasks sorted by submission time; tasks with equal times are in the order of their job numbers. Most
    logs already have this order, but logs of simulators may be in the order in which jobs ended."""
    if all(one.job.submitted_s <= other.job.submitted_s for one, other in pairwise(tasks)):
        return tasks
    return sorted(tasks, key=lambda task: (task.job.submitted_s, int(task.job.id)))


def note_header(header: dict[str, str], text: str) -> None:
    name, colon, value = text.lstrip("; \t").partition(":")
    if colon and name.strip() not in header:
        header[name.strip()] = value.strip()


def machine_size(path: Path, header: dict[str, str], tasks: Iterable[Task]) -> int:
    for name in ("MaxProcs", "MaxNodes"):
        value = header.get(name, "").split()[:1]
        if value and value[0].isdecimal() and int(value[0]) > 0:
            return min(int(value[0]), MOST_PROCESSORS)
    raise TraceError(
        f"{path}: the header has neither MaxProcs nor MaxNodes, so nothing says how large the machine is.\n"
        "Say it with --processors, or give its nodes with --cluster."
    )


def read_record(source: SourceFile, text: str, follow: bool, seen: set[int]) -> Task | None:
    """Return the task of one line; None if the line is not the record of a job that ran. `seen`: the job numbers of
    earlier records. Raises `BadRecord`."""
    values = fields(text)
    number, submit, wait, run, _, _, _, requested, limit, _, status, *_ = values
    size_at = 7 if requested > 0 else 4
    count = values[size_at]
    if submit < 0:
        raise BadRecord(f"the submit time is {submit}", place_of(text, 1))
    for at, seconds in ((1, submit), (3, run)):
        if seconds > LONGEST_S:
            raise BadRecord(f"{NAMES[at]}: more than {LONGEST_S:.0f} s", place_of(text, at))
    if count > MOST_PROCESSORS:
        raise BadRecord(f"{count} processors are more than any machine has", place_of(text, size_at))
    if number in seen and status not in PARTIAL:
        raise BadRecord(f"job number {number} was there before", place_of(text, 0))
    if why := no_job(run, count, known=number in seen):
        source.drop(why)
        return None
    seen.add(number)
    preceding, think = values[16:]
    return Task(
        job=job_of(values, count, float(min(limit, LONGEST_S)) if limit > 0 else None),
        run_s=float(run),
        queue=named(values[14]) or named(values[15]),
        waited_s=float(wait) if wait >= 0 else None,
        follows=str(preceding) if follow and preceding > 0 else "",
        think_s=float(min(think, LONGEST_S)) if follow and preceding > 0 and think >= 0 else None,
    )


def job_of(values: list[int], count: int, limit_s: float | None) -> Job:
    number, submit = values[:2]
    return Job(
        id=str(number),
        queue="",
        roles=asked(count),
        submitted_s=float(submit),
        user=named(values[11]),
        group=named(values[12]),
        limit_s=limit_s,
    )


def no_job(run: int, count: int, *, known: bool) -> str:
    """Return why a record does not count as the record of a job that ran; an empty text if it does.
    `known`: whether an earlier record has the same number."""
    if known:
        return "parts of a job that is recorded as a whole (status 2 to 4)"
    if run <= 0:
        return "jobs that never ran (run time 0 or unknown)"
    return "jobs without processors" if count <= 0 else ""


def fields(text: str) -> list[int]:
    """Return the eighteen values of a line. Some logs have values with a decimal point (`12.0`, or CPU times); the
    digits after the point are dropped."""
    cells = text.split()
    if len(cells) != FIELDS:
        column = len(text) + 1 if len(cells) < FIELDS else place_of(text, FIELDS)
        raise BadRecord(f"{len(cells)} fields where a record has {FIELDS}", column)
    try:
        return list(map(int, cells))
    except ValueError:
        return [whole_part(text, index, cell) for index, cell in enumerate(cells)]


def whole_part(text: str, index: int, cell: str) -> int:
    try:
        return int(float(cell))
    except (ValueError, OverflowError):
        raise BadRecord(f"{NAMES[index]}: {cell!r} is not a number", place_of(text, index)) from None


def place_of(text: str, index: int) -> int:
    """Return the column, counted from 1, at which the field `index` begins."""
    at = 0
    for cell in text.split()[: index + 1]:
        start = text.index(cell, at)
        at = start + len(cell)
    return start + 1


@lru_cache(maxsize=65536)
def asked(count: int) -> tuple[Role, ...]:
    return (processors(count),)


@lru_cache(maxsize=65536)
def named(number: int) -> str:
    return "" if number < 0 else str(number)
