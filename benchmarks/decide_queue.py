"""What a cycle costs when a long queue waits: 100,000 queued jobs of 1,000 shapes on 5,000 full nodes, in one queue or
in many (`--queues 1000`, `--order fair`, `--limited`: each with a ceiling of its own).

Every cycle changes 1 %: of the running jobs that many finish, and of the queue's length as many jobs in all are
submitted or withdrawn. One JSON object a line and queue length: p50, p99 and the longest of (fold, decide, fold the
plan) in milliseconds. The aim is that the figures do not grow with the queue.

    python benchmarks/decide_queue.py [--queued 10000 100000] [--cycles 100] [--queues 1000]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Sequence

from decide_gangs import nodes, shapes
from phalanx.core.decide import decide
from phalanx.core.fold import fold, fold_plan
from phalanx.loop import spare_the_book
from phalanx.model.cluster import Cluster
from phalanx.model.event import Event, Finished, QueueSeen, Started, Submitted
from phalanx.model.job import Job, Phase, Role
from phalanx.model.plan import Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Order, Queue, Quota

POLICY = Policy()
SIZES = (1, 2, 4, 8, 16, 32)


class Workload:
    """A queue of random jobs in front of a full cluster."""

    def __init__(self, node_count: int, shape_count: int, queues: Sequence[Queue]) -> None:
        self.seed = random.Random(7)
        self.cluster = Cluster()
        self.queues = [queue.name for queue in queues if queue.parent or len(queues) == 1]
        fold(self.cluster, map(QueueSeen, queues))
        fold(self.cluster, nodes(node_count, self.seed))
        self.roles = [
            (Role(name="worker", count=size, minimum=size, shape=shape),)
            for shape in shapes(shape_count, self.seed)
            for size in [self.seed.choice(SIZES)]
        ]
        self.submitted = 0
        self.changes = 0

    def submission(self) -> Submitted:
        self.submitted += 1
        roles = self.seed.choice(self.roles)
        queue = self.seed.choice(self.queues)
        return Submitted(Job(id=f"job-{self.submitted}", queue=queue, roles=roles, submitted_s=self.submitted))

    def fill(self, queued: int) -> None:
        """Submit until the cluster is full and that many wait."""
        while (missing := queued - self.count(Phase.QUEUED)) > 0:
            self.cycle([self.submission() for _ in range(missing)])

    def count(self, phase: Phase) -> int:
        return sum(record.phase is phase for record in self.cluster.jobs.values())

    def churn(self, queued: int) -> list[Event]:
        jobs = self.cluster.jobs
        running = [job for job, record in jobs.items() if record.phase is Phase.RUNNING]
        waiting = [job for job, record in jobs.items() if record.phase is Phase.QUEUED]
        finished = self.seed.sample(running, max(1, len(running) // 100))
        withdrawn = self.seed.sample(waiting, max(0, queued // 200 - len(finished)))
        events: list[Event] = [Finished(job) for job in (*finished, *withdrawn)]
        return events + [self.submission() for _ in range(queued // 200)]

    def cycle(self, events: list[Event]) -> tuple[float, float, int]:
        """(seconds, CPU seconds, jobs started)."""
        begin, cpu = time.perf_counter(), time.process_time()
        fold(self.cluster, events)
        plan = decide(self.cluster, POLICY, 0.0)
        fold_plan(self.cluster, plan)
        took_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        starts = [action for action in plan.actions if isinstance(action, Start)]
        fold(self.cluster, [Started(start.job, start.attempt) for start in starts])
        return took_s, cpu_s, len(starts)


def tree(leaves: int, order: str, *, limited: bool) -> list[Queue]:
    """One queue, or that many below as many tenths; each may be limited to about its even part of half the cluster."""
    if leaves == 1:
        return [Queue(name="default", order=Order(order))]
    inner = [Queue(name=f"up-{n}", order=Order(order)) for n in range(max(1, leaves // 10))]
    quota = (Quota(limit=(("cpu", 96_000 * 2500 // leaves),)),) if limited else ()
    return inner + [Queue(name=f"q-{n}", parent=f"up-{n % len(inner)}", quotas=quota) for n in range(leaves)]


def measure(queued: int, args: argparse.Namespace) -> dict[str, object]:
    cycles = args.cycles
    workload = Workload(args.nodes, args.shapes, tree(args.queues, args.order, limited=args.limited))
    workload.fill(queued)
    spare_the_book()
    times, cpu_times, starts = zip(*(workload.cycle(workload.churn(queued)) for _ in range(cycles)), strict=True)
    ordered, cpu_ordered = sorted(times), sorted(cpu_times)
    return {
        "benchmark": "decide_queue",
        "queued": queued,
        "nodes": args.nodes,
        "shapes": args.shapes,
        "queues": args.queues,
        "order": args.order,
        "limited": args.limited,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "running": workload.count(Phase.RUNNING),
        "started_per_cycle": round(sum(starts) / cycles, 1),
        "p50_ms": round(1000 * ordered[cycles // 2], 2),
        "p99_ms": round(1000 * ordered[min(cycles - 1, cycles * 99 // 100)], 2),
        "p50_cpu_ms": round(1000 * cpu_ordered[cycles // 2], 2),
        "p99_cpu_ms": round(1000 * cpu_ordered[min(cycles - 1, cycles * 99 // 100)], 2),
        "max_ms": round(1000 * ordered[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--shapes", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--queues", type=int, default=1)
    parser.add_argument("--order", default="priority", help="of inner queues: priority, fifo, fair, multifactor")
    parser.add_argument("--limited", action="store_true")
    args = parser.parse_args()
    for queued in args.queued:
        print(json.dumps(measure(queued, args)), flush=True)


if __name__ == "__main__":
    main()
