"""How many jobs a second the simulator replays: the real core in the loop, two passes or so for each job.

Without a trace a log's machine is made up: one node of 100 processors, jobs of 1 to 100 processors that run for
minutes to hours and ask for two to twenty times as long, and come at 70 % of what the machine can do. With `--nodes`
it is a cluster of so many nodes of eight GPUs, and jobs of 1 to 64 GPUs, at most eight a pod. `--trace` replays a log
instead (any that `phalanx simulate` reads; `--cluster 552x8` for those that have none). For each policy the first jobs,
then more of them: a cost per job that is flat in the trace's length shows as an equal rate.

One JSON object a line: jobs a second of this process's own processor time (other work on the machine counts less so
than on the wall clock), passes, the peak of resident memory so far, and the hash of the schedule.

    python benchmarks/simulate.py [--nodes 5000] [--policy easy fifo ...] [--jobs 1000 4000]
    python benchmarks/simulate.py --trace FILE [--cluster NODESxGPUS] ...
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import time
from dataclasses import replace
from pathlib import Path

from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.loop import spare_the_book, step
from phalanx.model.job import Job, Role
from phalanx.simulator.readers.lines import roles_of
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.workload import Task, Workload, gpu_nodes, machine, processors

PROCESSORS = 100
SIZES = [1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64, 100]
GPUS = 8  # of a node
GPU_SIZES = [1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64]
LOAD = 0.7


def made_up(jobs: int, nodes: int = 0) -> Workload:
    seed = random.Random(7)
    sizes = GPU_SIZES if nodes else SIZES
    roles: dict[int, tuple[Role, ...]] = {size: roles_of(size) if nodes else (processors(size),) for size in sizes}
    in_all = nodes * GPUS if nodes else PROCESSORS
    mean_s = sum(sizes) / len(sizes) * 3600.0 / (in_all * LOAD)  # between submissions: an hour each, on average
    tasks, now_s = [], 0.0
    for number in range(jobs):
        now_s += seed.expovariate(1 / mean_s)
        run_s, size = seed.expovariate(1 / 3600.0) + 1.0, seed.choice(sizes)
        limit_s = 60.0 * round(run_s * seed.uniform(2, 20) / 60.0 + 1)
        job = Job(id=f"j{number}", queue="", roles=roles[size], submitted_s=now_s, user="", limit_s=limit_s)
        tasks.append(Task(job=job, run_s=run_s))
    cluster = gpu_nodes(nodes, GPUS) if nodes else (machine(PROCESSORS),)
    return Workload(name="made up", tasks=tasks, nodes=cluster)


def measured(workload: Workload, policy: str) -> dict[str, object]:
    spare_the_book()
    began_s = time.process_time()
    schedule = play(workload, built_in(policy), step)
    spent_s, jobs = time.process_time() - began_s, len(workload.tasks)
    return {
        "trace": workload.name,
        "nodes": len(workload.nodes),
        "policy": policy,
        "jobs": jobs,
        "passes": schedule.passes,
        "jobs_per_s": round(jobs / spent_s),
        "pass_us": round(spent_s / schedule.passes * 1e6, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load_average": round(os.getloadavg()[0], 1),
        "schedule_sha256": schedule.sha256(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--cluster", default="")
    parser.add_argument("--nodes", type=int, default=0, help="of eight GPUs, for jobs that are made up")
    parser.add_argument("--policy", nargs="+", default=["fifo", "greedy", "easy", "easy-sjbf"])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1000, 4000])
    arguments = parser.parse_args()
    if arguments.trace:
        workload = workload_of(TraceSource(trace=arguments.trace, cluster=arguments.cluster), 0)
    else:
        workload = made_up(max(arguments.jobs), arguments.nodes)
    for policy in arguments.policy:
        for jobs in sorted(set(arguments.jobs)):
            print(json.dumps(measured(replace(workload, tasks=workload.tasks[:jobs]), policy)), flush=True)


if __name__ == "__main__":
    main()
