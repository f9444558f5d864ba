"""What backfill costs: each event is one cycle (fold, decide, fold the plan).

`machine`: a log's machine, one node of 100 processors with 30 running jobs and a queue of 10 to 1,000 in front, as on
KTH-SP2 (jobs of 1 to 100 processors, limits of minutes to hours). `cluster`: 5,000 nodes, 1,000 running gangs with
limits, 10,000 queued ones of 100 shapes and 17 limits. One JSON object a line: p50, p99 and the longest in ms.

    python benchmarks/backfill.py [--policy easy conservative greedy] [--events 300] [--quick]
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
from phalanx.model.event import Event, Finished, NodeSeen, QueueSeen, Submitted, Ticked
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import Queue, QueueOrder
from phalanx.state.cluster import Cluster

LIMITS_S = [60.0 * minutes for minutes in (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 360, 480, 600, 720, 1440)]


class Load:
    """A queue that keeps its length: for each job that ends one is submitted."""

    def __init__(
        self, name: str, nodes: list[Node], roles: list[tuple[Role, ...]], queued: int, policy: Policy
    ) -> None:
        self.name, self.roles, self.queued, self.policy = name, roles, queued, policy
        self.seed = random.Random(11)
        self.cluster = Cluster()
        self.now_s = 0.0
        self.submitted = 0
        fold(self.cluster, [QueueSeen(Queue(name="default", order=QueueOrder.FIFO)), *map(NodeSeen, nodes)])

    def job(self) -> Submitted:
        self.submitted += 1
        limit_s, roles = self.seed.choice(LIMITS_S), self.seed.choice(self.roles)
        job = Job(id=f"j{self.submitted}", queue="default", roles=roles, submitted_s=self.now_s, limit_s=limit_s)
        return Submitted(job)

    def fill(self) -> None:
        self.step([self.job() for _ in range(self.queued)])
        while (missing := self.queued - (len(self.cluster.jobs) - len(self.cluster.ends.order))) > 0:
            self.step([self.job() for _ in range(missing)])

    def step(self, events: list[Event]) -> float:
        began_s = time.perf_counter()
        fold(self.cluster, (Ticked(self.now_s), *events))
        fold_plan(self.cluster, decide(self.cluster, self.policy, self.now_s))
        return time.perf_counter() - began_s

    def events(self) -> Iterator[list[Event]]:
        """An end, at its limit or a while before, then a submission, for ever."""
        while True:
            end_s, job = self.seed.choice(self.cluster.ends.order[:20])
            self.now_s = max(self.now_s, self.now_s + (end_s - self.now_s) * self.seed.random() * 0.1)
            yield [Finished(job)]
            self.now_s += 1.0
            yield [self.job()]


def machine(queued: int, policy: Policy) -> Load:
    sizes = [1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64, 100]
    roles = [
        (Role(name="", count=1, minimum=1, shape=Shape(requests=amounts({"cpu": 1000 * size}))),) for size in sizes
    ]
    node = Node(name="machine", allocatable=amounts({"cpu": 100_000, "pods": 100}))
    return Load(f"machine, {queued} queued", [node], roles, queued, policy)


def cluster(policy: Policy, size: int) -> Load:
    seed = random.Random(5)
    room = amounts({"cpu": 64_000, "memory": 256 << 30, "nvidia.com/gpu": 8, "pods": 110})
    roles = []
    for _ in range(100):
        asks = amounts(
            {"cpu": seed.choice([4, 8, 16]) * 1000, "memory": 16 << 30, "nvidia.com/gpu": seed.choice([2, 4, 8])}
        )
        pods = seed.choice([1, 4, 8, 16, 32])
        roles.append((Role(name="w", count=pods, minimum=pods, shape=Shape(requests=asks)),))
    nodes = [Node(name=f"n{index}", allocatable=room) for index in range(size)]
    return Load(f"{size} nodes, {2 * size} queued", nodes, roles, 2 * size, policy)


def measure(load: Load, events: int) -> dict[str, object]:
    load.fill()
    spare_the_book()
    taken = []
    for _, happened in zip(range(events), load.events(), strict=False):
        taken.append(1000 * load.step(happened))
    taken.sort()
    return {
        "load": load.name,
        "policy": str(load.policy.backfill),
        "running": len(load.cluster.ends.order),
        "lines": len(load.cluster.pending.request_classes),
        "p50_ms": round(taken[len(taken) // 2], 3),
        "p99_ms": round(taken[int(len(taken) * 0.99)], 3),
        "max_ms": round(taken[-1], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", nargs="+", default=[str(each) for each in Backfill])
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="500 nodes instead of 5,000")
    options = parser.parse_args()
    for name in options.policy:
        policy = Policy(backfill=Backfill(name))
        for queued in (10, 100, 1000):
            print(json.dumps(measure(machine(queued, policy), options.events)), flush=True)
        events = options.events if name != Backfill.CONSERVATIVE else min(10, options.events)
        print(json.dumps(measure(cluster(policy, 500 if options.quick else 5000), events)), flush=True)


if __name__ == "__main__":
    main()
