"""Small workloads and runs, for tests to be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from phalanx import loop
from phalanx.model.job import Job, Outcome
from phalanx.model.node import Node
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.schedule import Fate, Schedule, Stint
from phalanx.simulator.workload import Task, Workload, machine, processors

DATA = Path(__file__).parent / "data"
KTH = DATA / "kth-sp2-4000.swf.gz"


def task(
    id: str, submit_s: float, run_s: float, size: int = 1, *, limit_s: float | None = None, **more: object
) -> Task:
    queue = str(more.pop("queue", ""))
    job = Job(id=id, queue="", roles=(processors(size),), submitted_s=submit_s, limit_s=limit_s, **more)  # type: ignore[arg-type]  # whatever a test says of a job
    return Task(job=job, run_s=run_s, queue=queue)


def workload(*tasks: Task, size: int = 10, nodes: Sequence[Node] = ()) -> Workload:
    return Workload(name="test", tasks=tasks, nodes=tuple(nodes) or (machine(size),))


def played(*tasks: Task, size: int = 10, policy: str = "greedy", **options: object) -> Schedule:
    return play(workload(*tasks, size=size), built_in(policy), loop.step, **options)  # type: ignore[arg-type]  # as play's


def starts(schedule: Schedule) -> dict[str, float | None]:
    return {fate.task.job.id: fate.start_s for fate in schedule.fates}


def ends(schedule: Schedule) -> dict[str, float | None]:
    return {fate.task.job.id: fate.end_s for fate in schedule.fates}


def recorded(of: Workload, spans: Iterable[tuple[float, float]]) -> Schedule:
    """A schedule as if each task had run undisturbed from one time to the other."""
    fates, stints = [], []
    for index, (task, (start_s, end_s)) in enumerate(zip(of.tasks, spans, strict=True)):
        fate = Fate(index, task)
        fate.start_s, fate.end_s, fate.ran_s, fate.starts = start_s, end_s, end_s - start_s, 1
        fate.outcome = Outcome.SUCCEEDED
        fates.append(fate)
        pods = sum(role.count for role in task.job.roles)
        stints.append(Stint(index, start_s, end_s, [None] * pods, True))  # type: ignore[list-item]  # where they ran does not matter
    return Schedule(workload=of, policy="test", estimates="user", seed=0, fates=fates, stints=stints)
