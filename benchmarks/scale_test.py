"""The KubeCon EU 2024 scale test, end to end: `phalanx up`, real API, real Jobs, simulated nodes.

1000 Jobs x 10 pods x 2 CPU / 2Gi on 100 nodes x 100 CPU / 100Gi; a Job runs 180-270 s (one uniform draw each) from when
all ten pods are ready and fails 900 s after its (re)start. Parameters: astefanutti/kube-schedulers (MIT), "Scale your
Batch / AI workloads beyond the Kubernetes scheduler". `tight` is the same on nodes of 10 CPU with all times ÷ 10: ten
times fewer places, so that a scheduler that starts jobs by halves cannot finish.

Prints one JSON object per variant. `makespan_ratio` is makespan ÷ (work ÷ capacity); `best_packing_ratio` is makespan ÷
the best packing known to us that does know the run times (longest first), `list_schedule_ratio` ÷ that of a scheduler
without any delay that does not (in order of submission, as Phalanx must). `api_writes_per_job` counts every change of
any object by anybody (the server's resourceVersion counts them). Time starts with the first creation.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import JOBS, NAMESPACES, PODS, Kind

QUEUES = Kind(group="phalanx.dev", plural="queues", name="Queue", namespaced=False)
NODES, POD_CPU, PODS_PER_JOB, CREATORS = 100, 2, 10, 5
SEED = 2024


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """All times in seconds, before `--time-scale`."""

    name: str
    node_cpu: int
    run_s: tuple[float, float]
    deadline_s: float


VARIANTS = {
    "kubecon": Variant(name="kubecon", node_cpu=100, run_s=(180.0, 270.0), deadline_s=900.0),
    "tight": Variant(name="tight", node_cpu=10, run_s=(18.0, 27.0), deadline_s=90.0),
}


@dataclass(slots=True)
class Watch:
    """What an observer saw, by its own clock."""

    bound_at: list[float] = field(default_factory=list)
    pods_created_at: list[float] = field(default_factory=list)
    outcome: dict[str, str] = field(default_factory=dict)
    finished_at: float = 0.0
    done: asyncio.Event = field(default_factory=asyncio.Event)
    jobs: int = 0

    def pod(self, change: Change) -> None:
        now = time.monotonic()
        if change.old is None:
            self.pods_created_at.append(now)
        bound_before = change.old is not None and "nodeName" in change.old["spec"]
        if change.new is not None and "nodeName" in change.new["spec"] and not bound_before:
            self.bound_at.append(now)

    def job(self, change: Change) -> None:
        if change.new is None:
            return
        for condition in change.new.get("status", {}).get("conditions", ()):
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                self.outcome[change.new["metadata"]["name"]] = condition["type"]
                self.finished_at = time.monotonic()
        if len(self.outcome) >= self.jobs:
            self.done.set()


def job(number: int, run_s: float, deadline_s: float) -> Object:
    resources = {"cpu": str(POD_CPU), "memory": "2Gi"}
    container = {"name": "main", "image": "host", "command": ["true"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number:04d}", "labels": {"phalanx.dev/queue": "scale-test"}},
        "spec": {
            "suspend": True,
            "parallelism": PODS_PER_JOB,
            "completions": PODS_PER_JOB,
            "backoffLimit": 0,
            "activeDeadlineSeconds": max(1, round(deadline_s)),
            "template": {
                "metadata": {"annotations": {"phalanx.dev/run-seconds": f"{run_s:.3f}"}},
                "spec": {
                    "schedulerName": "phalanx",
                    "restartPolicy": "Never",
                    "containers": [{**container, "resources": {"requests": resources, "limits": resources}}],
                },
            },
        },
    }


def makespan(run_s: Iterable[float], places: int) -> float:
    """List scheduling without any delay: each job takes the place that is free first."""
    free = [0.0] * places
    for duration in run_s:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


async def measure(variant: Variant, jobs: int, scale: float, gang: bool, kubeconfig: Path) -> dict[str, Any]:
    """Submit, watch until every Job has finished, and say what was seen."""
    draw = random.Random(SEED)
    run_s = [draw.uniform(*variant.run_s) / scale for _ in range(jobs)]
    deadline_s = variant.deadline_s / scale
    async with await Connection.open(kubeconfig) as connection:
        await connection.create(NAMESPACES, {"metadata": {"name": "scale-test"}})
        queue = {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": "scale-test"}}
        await connection.create(QUEUES, {**queue, "spec": {"gang": gang}})
        seen = Watch(jobs=jobs)
        informers = [Informer(connection, kind, namespace="scale-test") for kind in (PODS, JOBS)]
        for informer, subscriber in zip(informers, (seen.pod, seen.job), strict=True):
            informer.subscribe(subscriber)
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        writes_before = await _version(connection)
        started = time.monotonic()
        await _create(connection, [job(number, run, deadline_s) for number, run in enumerate(run_s)])
        created_s = time.monotonic() - started
        ticker = asyncio.create_task(_progress(seen, started))
        await seen.done.wait()
        writes = await _version(connection) - writes_before
        for task in (*tasks, ticker):
            task.cancel()
    places = NODES * variant.node_cpu // (POD_CPU * PODS_PER_JOB)
    took = seen.finished_at - started
    return {
        "benchmark": "scale_test",
        "variant": variant.name,
        "gang": gang,
        "jobs": jobs,
        "time_scale": scale,
        "completed": sum(outcome == "Complete" for outcome in seen.outcome.values()),
        "failed": sum(outcome == "Failed" for outcome in seen.outcome.values()),
        "makespan_s": round(took, 2),
        "makespan_ratio": round(took / (sum(run_s) / places), 3),
        "best_packing_ratio": round(took / makespan(sorted(run_s, reverse=True), places), 3),
        "list_schedule_ratio": round(took / makespan(run_s, places), 3),
        "creation_s": round(created_s, 2),
        "pods_bound": len(seen.bound_at),
        "pods_bound_per_s": round(_burst(seen, min(places, jobs) * PODS_PER_JOB), 1),
        "api_writes_per_job": round(writes / jobs, 1),
    }


def _burst(seen: Watch, first_wave: int) -> float:
    """Pods per second from the first pod's creation to the binding of the last one that fits the empty cluster."""
    if len(seen.bound_at) < first_wave:
        return 0.0
    return first_wave / (seen.bound_at[first_wave - 1] - seen.pods_created_at[0])


async def _create(connection: Connection, bodies: list[Object]) -> None:
    rest = iter(bodies)

    async def creator() -> None:
        for body in rest:
            await connection.create(JOBS, body, "scale-test")

    await asyncio.gather(*(creator() for _ in range(CREATORS)))


async def _version(connection: Connection) -> int:
    listing = await connection.list(NAMESPACES)
    return int(listing["metadata"]["resourceVersion"])


async def _progress(seen: Watch, started: float) -> None:
    while True:
        await asyncio.sleep(5)
        print(
            f"scale_test: {time.monotonic() - started:6.0f} s: {len(seen.pods_created_at)} pods created, "
            f"{len(seen.bound_at)} bound, {len(seen.outcome)} of {seen.jobs} Jobs finished",
            file=sys.stderr,
        )


def peak_memory_bytes(root_pid: int) -> dict[str, int]:
    """Peak resident memory of each process below `root_pid`, by its command's last words."""
    parents, peaks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line)
                command = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            parents[int(entry.name)] = int(status["PPid"])
            peaks[int(entry.name)] = (" ".join(command[1:4]), int(status.get("VmHWM", "0 kB").split()[0]) * 1024)
    family = {root_pid}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return {f"{pid} {peaks[pid][0]}": peaks[pid][1] for pid in sorted(family) if pid in peaks}


def run(variant: Variant, jobs: int, scale: float, gang: bool) -> dict[str, Any]:
    """One variant on a fresh `phalanx up`."""
    with tempfile.TemporaryDirectory(prefix="phalanx-scale-test-") as data:
        nodes = ["--simulate-nodes", str(NODES), "--node-cpu", str(variant.node_cpu)]
        sizes = ["--node-memory", f"{variant.node_cpu}Gi", "--node-pods", "1000"]
        command = [sys.executable, "-m", "phalanx.cli.app", "up", "--data", data, "--port", "0", "--no-local-node"]
        with subprocess.Popen([*command, *nodes, *sizes], stdout=subprocess.PIPE, text=True) as up:
            try:
                assert up.stdout is not None
                for line in up.stdout:
                    if "ready" in line:
                        break
                result = asyncio.run(measure(variant, jobs, scale, gang, Path(data, "kubeconfig")))
                result["peak_memory_bytes"] = peak_memory_bytes(up.pid)
                result["peak_memory_total_bytes"] = sum(result["peak_memory_bytes"].values())
            finally:
                up.terminate()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=[*VARIANTS, "both"], default="both")
    parser.add_argument("--time-scale", type=float, default=10.0, help="divide all times by this (1: as published)")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--no-gang", action="store_true", help="pod by pod, as kube-scheduler does")
    options = parser.parse_args()
    for name in VARIANTS if options.variant == "both" else [options.variant]:
        print(json.dumps(run(VARIANTS[name], options.jobs, options.time_scale, not options.no_gang)), flush=True)


if __name__ == "__main__":
    main()
