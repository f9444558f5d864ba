"""The traces of Muri (Zhao et al., SIGCOMM'22), derived from Philly's: `job_id,num_gpu,submit_time,…,duration,…`.

`submit_time` and `duration` are milliseconds. How a model uses other resources (`resource_time_0` …), its iterations
and batch size are not used: no two jobs share a GPU here."""

from __future__ import annotations

from pathlib import Path

from phalanx.model.job import Job
from phalanx.simulator.readers.gpus import MOST_GPUS, roles_of
from phalanx.simulator.readers.lines import BadRecord, OnError, Source, number, unheard_of, whole
from phalanx.simulator.workload import GPU, Task, Workload

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "batch_size", "duration", "iteration_time")
MS_PER_S = 1000.0


def read(path: Path, *, on_error: OnError = OnError.STOP) -> Workload:
    source, tasks, seen = Source(path, on_error), list[Task](), set[str]()
    for line, row in source.rows(COLUMNS):
        try:
            tasks.append(task_of(row, seen))
        except BadRecord as bad:
            source.fault(line, bad)
    return source.workload(tasks, counted=GPU, unit=1)


def task_of(row: dict[str, str], seen: set[str]) -> Task:
    gpus = whole(row, "num_gpu", least=1, most=MOST_GPUS)
    submitted_s = number(row, "submit_time", least=0) / MS_PER_S
    run_s = number(row, "duration", least=1) / MS_PER_S
    job = Job(id=unheard_of(row, "job_id", seen), queue="", roles=roles_of(gpus), submitted_s=submitted_s)
    return Task(job=job, run_s=run_s, queue=row["model_name"])
