"""The traces of Muri (Zhao et al., SIGCOMM'22), derived from Philly's. Columns:
`job_id,num_gpu,submit_time,…,duration,…`.

`submit_time`, `duration` and `iteration_time` are milliseconds; `duration` is the product of iterations and iteration
time. The columns about other resources (`resource_time_0` …) are ignored, because jobs of a Muri trace do not share
GPUs in this simulator.

The reader applies two rules of the authors' own simulator, because the published results depend on them. An iteration
takes 1.5 % longer than the trace states, because a profiler runs at the same time. Saving and restarting a job takes
the time that the authors measured for its model and number of GPUs."""

from __future__ import annotations

from pathlib import Path

from phalanx.model.job import Job
from phalanx.simulator.readers.lines import (
    LONGEST_S,
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
from phalanx.simulator.workload import GPU, Task, Workload

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "batch_size", "duration", "iteration_time")
MS_PER_S = 1000.0
PROFILED = 1.015

# The cost of a restart in seconds for each model, on 1, 2, 4, 8, 16 and 32 GPUs; 10 for other models.
GPUS = (1, 2, 4, 8, 16, 32)
RESTART_S: dict[str, tuple[float, ...]] = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
OTHERWISE_S = 10.0


def read(path: Path, *, on_error: OnError = OnError.STOP) -> Workload:
    source, tasks, seen = SourceFile(path, on_error), list[Task](), set[str]()
    for line, row in source.rows(COLUMNS):
        try:
            tasks.append(task_of(row, seen))
        except BadRecord as bad:
            source.fault(line, bad)
    return source.workload(tasks, counted=GPU, unit=1)


def task_of(row: dict[str, str], seen: set[str]) -> Task:
    gpus = whole(row, "num_gpu", least=1, most=MOST_GPUS)
    submitted_s = milliseconds(row, "submit_time") / MS_PER_S
    iterations, each_s = number(row, "iterations", least=0), milliseconds(row, "iteration_time") / MS_PER_S
    run_s = iterations * each_s or milliseconds(row, "duration", least=1) / MS_PER_S
    if run_s > LONGEST_S:
        raise wrong(row, "iterations", f"of {each_s:g} s are {run_s:.0f} s, longer than there are clusters")
    job = Job(id=unheard_of(row, "job_id", seen), queue="", roles=roles_of(gpus), submitted_s=submitted_s)
    restart_s = restarting_s(row["model_name"], gpus)
    return Task(job=job, run_s=round(run_s * PROFILED, 6), queue=row["model_name"], restart_s=restart_s)


def milliseconds(row: dict[str, str], column: str, *, least: float = 0) -> float:
    return number(row, column, least=least, most=LONGEST_S * MS_PER_S)


def restarting_s(model: str, gpus: int) -> float:
    return dict(zip(GPUS, RESTART_S.get(model, ()), strict=False)).get(gpus, OTHERWISE_S)
