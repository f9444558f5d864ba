"""The traces of Chronus (Gao et al., SoCC'21), derived from the Philly trace: some jobs have deadlines, others have
none.

Columns: `job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,
best_effort,job_type`. All times are in seconds. The column `user` has the virtual cluster, which becomes the queue. A
job that is not best effort has a deadline: the submission time plus the first value of `expect_time_list` (for soft
deadlines the last value). Values of a list are separated by `-`. `expect_value_list`, if present, has for each time
in `expect_time_list` the value of the job if it ends by this time."""

from __future__ import annotations

from pathlib import Path

from phalanx.model.job import Job
from phalanx.simulator.readers.lines import (
    MOST_GPUS,
    BadRecord,
    OnError,
    SourceFile,
    number,
    roles_of,
    unheard_of,
    whole,
    wrong,
)
from phalanx.simulator.workload import GPU, Task, Workload, Worth

TIMES, VALUES = "expect_time_list", "expect_value_list"
COLUMNS = ("job_id", "user", "num_gpu", "submit_time", "duration", TIMES, "job_type")
BEST_EFFORT, SOFT = "best", "soft"


def read(path: Path, *, on_error: OnError = OnError.STOP) -> Workload:
    source, tasks, seen = SourceFile(path, on_error), list[Task](), set[str]()
    for line, row in source.rows(COLUMNS):
        try:
            task = task_of(source, row, seen)
        except BadRecord as bad:
            source.fault(line, bad)
        else:
            tasks += [] if task is None else [task]
    return source.workload(tasks, counted=GPU, unit=1)


def task_of(source: SourceFile, row: dict[str, str], seen: set[str]) -> Task | None:
    gpus = whole(row, "num_gpu", least=0, most=MOST_GPUS)
    if gpus == 0:
        source.drop("jobs without GPUs")
        return None
    submitted_s = number(row, "submit_time", least=0)
    job = Job(
        id=unheard_of(row, "job_id", seen),
        queue="",
        roles=roles_of(gpus),
        submitted_s=submitted_s,
        user=row["user"],
        deadline_s=None if row["job_type"] == BEST_EFFORT else submitted_s + expected_s(row),
    )
    worth = () if row["job_type"] == BEST_EFFORT or not row.get(VALUES) else worth_of(row)
    return Task(job=job, run_s=number(row, "duration", least=0.001), queue=row["user"], worth=worth)


def expected_s(row: dict[str, str]) -> float:
    times_s = numbers(row, TIMES)
    return times_s[-1] if row["job_type"] == SOFT else times_s[0]


def worth_of(row: dict[str, str]) -> Worth:
    times_s, values = numbers(row, TIMES), numbers(row, VALUES)
    if len(values) != len(times_s):
        raise wrong(row, VALUES, f"are not as many as the {len(times_s)} in {TIMES}")
    return tuple(zip(times_s, values, strict=True))


def numbers(row: dict[str, str], column: str) -> list[float]:
    return [number({**row, column: text}, column, least=0) for text in row[column].split("-")]
