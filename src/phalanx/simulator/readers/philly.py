"""Microsoft's Philly trace (Jeon et al., ATC'19) as a table of jobs. Columns:
`timestamp,duration,num_gpus,gpu_time,cluster`.

`timestamp`: the time of the submission (`YYYY-MM-DD HH:MM:SS`, read as UTC); `duration`: the run time in
seconds; `cluster`: the virtual cluster, which becomes the queue. The trace does not state users, limits, waits
or machines; the machines are set with `--cluster`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from phalanx.model.job import Job
from phalanx.simulator.readers.lines import MOST_GPUS, BadRecord, OnError, SourceFile, number, roles_of, whole
from phalanx.simulator.workload import GPU, Task, Workload

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read(path: Path, *, on_error: OnError = OnError.STOP) -> Workload:
    source, tasks = SourceFile(path, on_error), list[Task]()
    for line, row in source.rows(COLUMNS):
        try:
            task = task_of(source, row, line)
        except BadRecord as bad:
            source.fault(line, bad)
        else:
            tasks += [] if task is None else [task]
    return source.workload(tasks, counted=GPU, unit=1)


def task_of(source: SourceFile, row: dict[str, str], line: int) -> Task | None:
    gpus, run_s = whole(row, "num_gpus", least=0, most=MOST_GPUS), number(row, "duration")
    if gpus == 0 or run_s <= 0:
        source.drop("jobs without GPUs" if gpus == 0 else "jobs that never ran (duration 0 or less)")
        return None
    job = Job(id=f"philly-{line}", queue="", roles=roles_of(gpus), submitted_s=moment(row), user=row["cluster"])
    return Task(job=job, run_s=run_s, queue=row["cluster"])


def moment(row: dict[str, str]) -> float:
    try:
        return datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        column = list(row).index("timestamp") + 1
        raise BadRecord(f"timestamp: {row['timestamp']!r} is not like 2017-10-09 07:01:55", column) from None
