"""The scale test of KubeCon EU 2024 (astefanutti/kube-schedulers) in virtual time: 1,000 jobs of ten pods (2 cpu, 2
Gi) on 100 nodes (100 cpu, 100 Gi), so two waves; a job runs 180 to 270 s from when all its pods do, and fails 900 s
after it was started. Published for kube-scheduler: about 200 jobs fail.

Pods come into being at 30 a second, as kube-controller-manager's limit there was. How many jobs' pods come interleaved
is not published, and decides: see docs/guide/tables.md. As gangs nothing fails at any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from study import Cell, Figures, Row, Study

from phalanx import loop
from phalanx.model.job import Job, Outcome, Role
from phalanx.model.node import Node
from phalanx.model.pod import CPU, MEMORY, PODS, Shape, amounts
from phalanx.model.queue import Queue, QueueOrder
from phalanx.simulator.cluster.factory import Creation
from phalanx.simulator.run.play import play as simulate
from phalanx.simulator.run.setup import GREEDY, ONE, Setup
from phalanx.simulator.workload import Task, Workload

JOBS, PODS_EACH, NODES, GIB = 1000, 10, 100, 2**30
SIDE_BY_SIDE = (100, 550, 575, 600)


def play(gang: bool, side_by_side: int) -> Figures:  # called by name
    queues = (Queue(name=ONE, order=QueueOrder.FIFO, gang=gang),)
    setup = Setup(name="kubecon", policy=GREEDY, queues=queues, creation=Creation(side_by_side=side_by_side))
    schedule = simulate(workload(), setup, loop.step)
    return {
        "failed": sum(fate.outcome is not Outcome.SUCCEEDED for fate in schedule.fates),
        "makespan_s": max(fate.end_s or 0.0 for fate in schedule.fates),
        "wall_s": schedule.wall_s,
    }


def workload() -> Workload:
    random = Random("0 kubecon")
    shape = Shape(requests=amounts({CPU: 2000, MEMORY: 2 * GIB}))
    roles = (Role(name="", count=PODS_EACH, minimum=PODS_EACH, shape=shape),)
    has = amounts({CPU: 100_000, MEMORY: 100 * GIB, PODS: 1000})
    tasks = [
        Task(
            job=Job(id=f"job-{at:04}", queue="", roles=roles, submitted_s=at / 100),
            run_s=round(180 * (1 + 0.5 * random.random()), 3),
            active_s=900.0,
        )
        for at in range(JOBS)
    ]
    return Workload(
        name="kubecon", tasks=tasks, nodes=tuple(Node(name=f"node-{at:03}", allocatable=has) for at in range(NODES))
    )


def rows(of: Callable[..., Figures | None]) -> Iterator[Row]:
    for gang in (True, False):
        for side in SIDE_BY_SIDE:
            figures = of(gang=gang, side_by_side=side)
            for figure in ("failed", "makespan_s", "wall_s"):
                ours = None if figures is None else figures[figure]
                published = 200.0 if figure == "failed" and not gang else None
                what = f"{'gangs' if gang else 'pod by pod'}, {side} jobs' pods interleaved: {figure}"
                yield Row(what, ours, published, relative=False, digits=0 if figure != "wall_s" else 1)


CELLS = [Cell("kubecon", {"gang": gang, "side_by_side": side}, ()) for gang in (True, False) for side in SIDE_BY_SIDE]
STUDY = Study("kubecon", "KubeCon EU 2024 scale test: 1,000 jobs", CELLS, play, rows)
