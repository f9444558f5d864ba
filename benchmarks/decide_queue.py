"""What a cycle costs when a long queue waits: 100,000 queued jobs of 1,000 shapes on 5,000 full nodes, in one queue or
in many.

Every cycle changes 1 %: of the running jobs that many finish, and of the queue's length as many jobs in all are
submitted or withdrawn. One JSON object a line and queue length: p50, p99 and the longest of (fold, decide, fold the
plan) in milliseconds, by the clock and of the processor; `first_s`: what the first cycle takes, in which all are new,
as after a restart; `memory_mib`: the most that the process used; `sweep_cpu_ms`: the longest collection of garbage,
which is done between cycles and is in no other figure. The aim is that the figures of a cycle do not grow with the
queue.

`--queues 1000`: below a hundred others. `--order fair`: of these, and of the queues. `--limited`: each queue has a
ceiling. `--strict`: a queue's first job holds up the others. `--timed`: all jobs state a time limit, so that one that
waits has a reservation (EASY). `--changes 200`: so many jobs are submitted or withdrawn a cycle, however many wait.

    python benchmarks/decide_queue.py --queued 10000 100000 --queues 1000 --cycles 100
    python benchmarks/decide_queue.py --queued 1000000 --cycles 10
    python benchmarks/decide_queue.py --queued 50000 --queues 1000 --order fair --limited
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from dataclasses import replace

from decide_gangs import nodes, shapes
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.loop import Sweeps
from phalanx.model.event import Event, Finished, QueueSeen, Started, Submitted, Ticked
from phalanx.model.job import Job, Role
from phalanx.model.plan import Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueueOrder, Quota
from phalanx.state.cluster import Cluster

POLICY = Policy()
SIZES = (1, 2, 4, 8, 16, 32)
LIMITS_S = (600.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
STEP_S = 60.0  # between cycles
WARM = 3  # cycles that do not count
VARIED = ("nodes", "shapes", "queues", "order", "limited", "strict", "timed", "changes")


class Workload:
    """A queue of random jobs in front of a full cluster. `running`, `waiting`: the jobs, by phase, in lists that a
    random one is taken from at no cost."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.seed = random.Random(7)
        self.cluster = Cluster()
        self.timed, self.changes = args.timed, args.changes
        queues = tree(args.queues, args.order, args.nodes if args.limited else 0, strict=args.strict)
        self.queues = [queue.name for queue in queues if queue.parent or len(queues) == 1]
        fold(self.cluster, map(QueueSeen, queues))
        fold(self.cluster, nodes(args.nodes, self.seed))
        self.roles = [
            (Role(name="worker", count=size, minimum=size, shape=shape),)
            for shape in shapes(args.shapes, self.seed)
            for size in [self.seed.choice(SIZES)]
        ]
        self.submitted = 0
        self.running: list[str] = []
        self.waiting: list[str] = []
        self.is_waiting: dict[str, None] = {}

    def submission(self) -> Submitted:
        self.submitted += 1
        roles, queue = self.seed.choice(self.roles), self.seed.choice(self.queues)
        limit_s = self.seed.choice(LIMITS_S) if self.timed else None
        name = f"job-{self.submitted}"
        self.waiting.append(name)
        self.is_waiting[name] = None
        return Submitted(Job(id=name, queue=queue, roles=roles, submitted_s=self.submitted, limit_s=limit_s))

    def fill(self, queued: int) -> float:
        """Submit until the cluster is full and that many wait; how long the first cycle took, CPU seconds."""
        first_s = 0.0
        while (missing := queued - len(self.is_waiting)) > 0:
            _, cpu_s, _ = self.cycle([self.submission() for _ in range(missing)])
            first_s = first_s or cpu_s
        return first_s

    def churn(self, queued: int) -> list[Event]:
        finished = [self.drawn(self.running) for _ in range(max(1, len(self.running) // 100))]
        withdrawn: list[str] = []
        each = (self.changes or queued // 100) // 2
        while len(withdrawn) < each - len(finished):
            name = self.drawn(self.waiting)
            if name in self.is_waiting:  # it has not started meanwhile
                del self.is_waiting[name]
                withdrawn.append(name)
        events: list[Event] = [Finished(job) for job in (*finished, *withdrawn)]
        return events + [self.submission() for _ in range(each)]

    def drawn(self, names: list[str]) -> str:
        """Any of them, taken out."""
        at = self.seed.randrange(len(names))
        names[at], names[-1] = names[-1], names[at]
        return names.pop()

    def cycle(self, events: list[Event]) -> tuple[float, float, int]:
        """(seconds, CPU seconds, jobs started)."""
        begin, cpu = time.perf_counter(), time.process_time()
        fold(self.cluster, events)
        plan = decide(self.cluster, POLICY, self.cluster.now_s)
        fold_plan(self.cluster, plan)
        took_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        starts = [action for action in plan.actions if isinstance(action, Start)]
        for start in starts:
            self.running.append(start.job)
            del self.is_waiting[start.job]
        fold(self.cluster, [Started(start.job, start.attempt) for start in starts])
        return took_s, cpu_s, len(starts)


def tree(leaves: int, order: str, nodes: int, *, strict: bool) -> list[Queue]:
    """One queue, or that many below as many tenths; each limited to about its even part of half of so many nodes, if
    any are named."""
    by = QueueOrder(order)
    if leaves == 1:
        return [Queue(name="default", order=by, strict=strict)]
    inner = [Queue(name=f"up-{n}", order=by) for n in range(max(1, leaves // 10))]
    quota = (Quota(limit=(("cpu", 96_000 * nodes // 2 // leaves),)),) if nodes else ()
    leaf = Queue(name="", order=by, quotas=quota, strict=strict)
    return inner + [replace(leaf, name=f"q-{n}", parent=f"up-{n % len(inner)}") for n in range(leaves)]


def measure(queued: int, args: argparse.Namespace) -> dict[str, object]:
    cycles = args.cycles
    workload = Workload(args)
    first_s = workload.fill(queued)
    sweeps, found, sweep_s = Sweeps(), [], 0.0
    for number in range(WARM + cycles):
        events = [Ticked(STEP_S * (number + 1)), *workload.churn(queued)]
        found.append(workload.cycle(events))
        begin = time.process_time()
        sweeps.after(2 * len(events))
        sweep_s = max(sweep_s, time.process_time() - begin) if number else 0.0
    times, cpu_times, starts = zip(*found[WARM:], strict=True)
    ordered, cpu_ordered = sorted(times), sorted(cpu_times)
    last = min(cycles - 1, cycles * 99 // 100)
    return {
        "benchmark": "decide_queue",
        "queued": queued,
        **{name: getattr(args, name) for name in VARIED},
        "cycles": cycles,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "running": len(workload.running),
        "started_per_cycle": round(sum(starts) / cycles, 1),
        "first_s": round(first_s, 2),
        "p50_ms": round(1000 * ordered[cycles // 2], 2),
        "p99_ms": round(1000 * ordered[last], 2),
        "p50_cpu_ms": round(1000 * cpu_ordered[cycles // 2], 2),
        "p99_cpu_ms": round(1000 * cpu_ordered[last], 2),
        "max_ms": round(1000 * ordered[-1], 2),
        "sweep_cpu_ms": round(1000 * sweep_s, 2),
    }


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queued", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--shapes", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--queues", type=int, default=1)
    parser.add_argument("--changes", type=int, default=0, help="of the queue, a cycle; 0: 1 %% of its length")
    parser.add_argument("--order", default="priority", help="of the queues: priority, fifo, fair, multifactor, usage")
    for name in ("limited", "strict", "timed"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser


def main() -> None:
    args = arguments().parse_args()
    for queued in args.queued:
        print(json.dumps(measure(queued, args)), flush=True)


if __name__ == "__main__":
    main()
