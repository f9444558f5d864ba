"""How fast gangs are placed: gangs of 10 pods on half-full clusters of 1,000, 5,000 and 20,000 nodes.

One JSON object a line: for 1 and for 1,000 distinct shapes, pods per second of `decide` alone, and of a whole step
(fold, decide, fold the plan); per CPU second too, for machines with other work. Every gang is submitted at once and
started in one cycle. The seed makes runs comparable.

    python benchmarks/decide_gangs.py [--nodes 5000] [--gangs 2000]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.loop import spare_the_book
from phalanx.model.event import Event, NodeSeen, Occupied, QueueSeen, Submitted
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.plan import Start
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster

GIB = 2**30
POLICY = Policy()


def nodes(count: int, seed: random.Random) -> Iterator[Event]:
    """Nodes of 96 cores, 384 GiB and, every fourth, 8 GPUs, a fifth to four fifths of them taken by others."""
    yield QueueSeen(Queue(name="default"))
    for index in range(count):
        gpus = 8 if index % 4 == 0 else 0
        room = {"cpu": 96_000, "memory": 384 * GIB, "pods": 250, "nvidia.com/gpu": gpus}
        yield NodeSeen(Node(name=f"node-{index}", allocatable=amounts(room)))
        part = seed.uniform(0.2, 0.8)
        taken = {"cpu": int(96_000 * part), "memory": int(384 * GIB * part)}
        yield Occupied(f"pod-{index}", f"node-{index}", amounts(taken))


def shapes(count: int, seed: random.Random) -> list[Shape]:
    """Distinct pods of 0.5 to 8 cores with 1 to 32 GiB; a tenth also asks a GPU."""
    made: dict[Shape, None] = {}
    while len(made) < count:
        gpu = int(len(made) % 10 == 9)
        asks = {"cpu": seed.randrange(500, 8000, 10), "memory": seed.randrange(1, 32) * GIB, "nvidia.com/gpu": gpu}
        made[Shape(requests=amounts(asks))] = None
    return list(made)


def measure(node_count: int, shape_count: int, gangs: int) -> dict[str, object]:
    seed = random.Random(1)
    cluster = Cluster()
    fold(cluster, nodes(node_count, seed))
    kinds = shapes(shape_count, seed)
    roles = [(Role(name="worker", count=10, minimum=10, shape=shape),) for shape in kinds]
    jobs = [Job(id=f"job-{n}", queue="default", roles=seed.choice(roles), submitted_s=n) for n in range(gangs)]
    spare_the_book()
    begin = time.perf_counter()
    fold(cluster, (Submitted(job) for job in jobs))
    folded = time.perf_counter()
    cpu = time.process_time()
    plan = decide(cluster, POLICY, 0.0)
    decided, cpu_s = time.perf_counter(), time.process_time() - cpu
    fold_plan(cluster, plan)
    end = time.perf_counter()
    pods = sum(len(action.placements) for action in plan.actions if isinstance(action, Start))
    return {
        "benchmark": "decide_gangs",
        "nodes": node_count,
        "shapes": shape_count,
        "gangs": gangs,
        "pods_placed": pods,
        "decide_pods_per_s": round(pods / (decided - folded)),
        "decide_pods_per_cpu_s": round(pods / cpu_s),
        "step_pods_per_s": round(pods / (end - begin)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1000, 5000, 20000])
    parser.add_argument("--shapes", type=int, nargs="*", default=[1, 1000])
    parser.add_argument("--gangs", type=int, default=0, help="default: as many as about half the free room takes")
    args = parser.parse_args()
    for node_count in args.nodes:
        for shape_count in args.shapes:
            gangs = args.gangs or min(3000, node_count // 2)
            print(json.dumps(measure(node_count, shape_count, gangs)), flush=True)


if __name__ == "__main__":
    main()
