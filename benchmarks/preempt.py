"""What it costs to find who gives way: 5,000 full nodes of 8 GPUs, and a gang that finds no room.

The nodes are full of jobs of the sizes named (pods x GPUs each). A gang of 64 pods of 8 GPUs preempts lower priorities
of its own queue; one of 250 such pods reclaims 2,000 GPUs of its queue's guarantee from two others; and one preempts
though nobody may go. One JSON object a line: the search alone (`search_ms`: collect, try, put back), the whole cycle
that makes it (`cycle_ms`), the best of several, in milliseconds of CPU; how many jobs give way; and what reading all
that runs into columns cost once (`first_ms`).

    python benchmarks/preempt.py [--nodes 5000] [--repeat 5]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.core.preemption import guard
from phalanx.core.preemption import search as victim_search
from phalanx.model.event import Adopted, Finished, NodeSeen, QueueSeen, Submitted, Ticked
from phalanx.model.job import Job, Phase, Placement, Role
from phalanx.model.node import Node
from phalanx.model.plan import Preempt
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota, ReclaimFloor, ReclaimWithinCohort, WithinQueue
from phalanx.state.cluster import Cluster, residents

POLICY = Policy()
GPU = "nvidia.com/gpu"
SIZES = ((1, 1), (1, 8), (8, 8))


def queues(guaranteed: int) -> Iterator[QueueSeen]:
    within = QueuePreemption(within=WithinQueue.LOWER)
    reclaim = QueuePreemption(reclaim=ReclaimWithinCohort.ANY, down_to=ReclaimFloor.FAIR_SHARE)
    yield QueueSeen(Queue(name="own", preemption=within))
    yield QueueSeen(Queue(name="lender", quotas=(Quota(guaranteed=((GPU, guaranteed),)),), preemption=reclaim))
    yield from (QueueSeen(Queue(name=name)) for name in ("one", "other"))


def job(name: str, queue: str, priority: int, pods: int, gpus: int) -> Job:
    shape = Shape(requests=amounts({"cpu": 4000 * gpus, "memory": 8 * 2**30 * gpus, GPU: gpus}))
    role = Role(name="worker", count=pods, minimum=pods, shape=shape)
    return Job(id=name, queue=queue, roles=(role,), priority=priority)


def full(node_count: int, pods: int, gpus: int, queue_names: tuple[str, ...]) -> Cluster:
    """Every node full; the jobs started one after the other, with priorities -3 to -1."""
    cluster = Cluster()
    has = amounts({"cpu": 64_000, "memory": 2**40, GPU: 8, "pods": 110})
    fold(cluster, (NodeSeen(Node(name=f"node-{at}", allocatable=has)) for at in range(node_count)))
    fold(cluster, queues(node_count * 8))
    places = [f"node-{at}" for at in range(node_count) for _ in range(8 // gpus)]
    for at in range(0, len(places) - pods + 1, pods):
        number = at // pods
        queue = queue_names[number % len(queue_names)]
        placed = tuple(Placement(0, ordinal, node) for ordinal, node in enumerate(places[at : at + pods]))
        what = job(f"job-{number}", queue, -1 - number * 7919 % 3, pods, gpus)
        fold(cluster, [Adopted(what, 1, Phase.RUNNING, placed, started_s=float(number * 7919 % 10_007))])
    fold(cluster, [Ticked(100_000.0)])
    return cluster


class Stopwatch:
    """Times every search of a cycle."""

    def __init__(self) -> None:
        self.took_s = 0.0
        self._search = victim_search.find_victims
        guard.find_victims = self.search

    def search(self, *args: object) -> object:
        begin = time.process_time()
        found = self._search(*args)  # type: ignore[arg-type]  # the same arguments
        self.took_s += time.process_time() - begin
        return found

    def stop(self) -> None:
        guard.find_victims = self._search


def measure(node_count: int, size: tuple[int, int], case: str, repeat: int) -> dict[str, object]:
    pods, gpus = size
    cluster = full(node_count, pods, gpus, ("one", "other") if case == "reclaim" else ("own",))
    begin = time.process_time()
    residents(cluster)
    first_s = time.process_time() - begin
    asked = job("new", *{"within": ("own", 5, 64), "reclaim": ("lender", 5, 250), "nobody": ("own", -9, 64)}[case], 8)
    searches, cycles, victims = [], [], 0
    for _ in range(repeat):
        fold(cluster, [Submitted(asked)])
        watch = Stopwatch()
        begin = time.process_time()
        plan = decide(cluster, POLICY, 100_000.0)
        cycles.append(time.process_time() - begin)
        watch.stop()
        searches.append(watch.took_s)
        victims = sum(isinstance(action, Preempt) for action in plan.actions)
        fold(cluster, [Finished("new")])
    return {
        "benchmark": "preempt",
        "case": case,
        "nodes": node_count,
        "victims_are": f"{pods} pods x {gpus} GPUs",
        "running_jobs": len(cluster.jobs),
        "asked_gpus": asked.roles[0].count * 8,
        "give_way": victims,
        "search_ms": round(1000 * min(searches), 2),
        "cycle_ms": round(1000 * min(cycles), 2),
        "first_ms": round(1000 * first_s, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    for size in SIZES:
        for case in ("within", "reclaim", "nobody"):
            print(json.dumps(measure(args.nodes, size, case, args.repeat)), flush=True)


if __name__ == "__main__":
    main()
