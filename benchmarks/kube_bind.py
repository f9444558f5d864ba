"""How many pods a second are created and bound, end to end: 10-pod Jobs through a real API server on loopback.

The server is a process of its own; the scheduler, the Job controller and the garbage collector share the other one, as
in `phalanx up`. With `--apart` the controllers have a process of their own and the scheduler is alone in its own, as in
a cluster: then the figures are the scheduler's. All Jobs fit, so what is measured is the way of a pod: Job created,
queued, planned, resumed with the record, pods created by the Job controller, barrier, bindings. No kubelet.

`--with dialects` has the dialects of all other schedulers on, and nobody uses them; `--with kueue` has them on, and the
same Jobs name a LocalQueue, so that each has a Workload: it ends when all Workloads are admitted, too. What is more
than `--with nothing` is what they cost; run them in turns.

One JSON object on standard output. `cpu_us` figures are processor time per pod, which say more than the rate on a
machine that does other things as well. `busy_share` is the part of the time that the process works; the rest of it, it
waits for the server. `calls_per_job` are all calls of the process that are no watches.

    python benchmarks/kube_bind.py [--jobs N] [--pods N] [--apart] [--with nothing|dialects|kueue]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import uvloop

from phalanx import loop
from phalanx.cli.cluster.informers import Informers
from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.client.tally import Tally
from phalanx.dialects.enabled import DIALECTS
from phalanx.dialects.job_kinds.replica_types import NAME as KUBEFLOW
from phalanx.dialects.kueue import kinds
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.run import run_controllers
from phalanx.kube.install.definitions import install, install_dialect
from phalanx.kube.read.wire import WIRE_TYPES
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster

NODE_CPU, POD_CPU = 100, 2
CREATORS = 8
WRITES = frozenset({"create", "update", "patch", "delete"})
MODES = ("nothing", "dialects", "kueue")


def node(name: str) -> Object:
    room = {"cpu": str(NODE_CPU), "memory": "400Gi", "pods": "1000"}
    ready = [{"type": "Ready", "status": "True", "reason": "Benchmark"}]
    status = {"capacity": room, "allocatable": room, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def job(number: int, pods: int, label: dict[str, str]) -> Object:
    requests = {"cpu": str(POD_CPU), "memory": "2Gi"}
    container = {"name": "c", "image": "bench", "resources": {"requests": requests}}
    template = {"spec": {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "labels": label},
        "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": template},
    }


class Admitted:
    """Which Workloads are admitted."""

    def __init__(self, expected: int) -> None:
        self.names: set[str] = set()
        self.done = asyncio.Event()
        self._expected = expected

    def take(self, change: Change) -> None:
        said = ((change.new or {}).get("status") or {}).get("conditions") or ()
        if change.new is not None and any(one["type"] == "Admitted" and one["status"] == "True" for one in said):
            self.names.add(change.new["metadata"]["name"])
            if len(self.names) == self._expected:
                self.done.set()


class Times:
    """When each pod was first seen, and first seen bound."""

    def __init__(self, expected: int) -> None:
        self.first_s, self.last_s, self.done = 0.0, 0.0, asyncio.Event()
        self.bound: set[str] = set()
        self._expected = expected

    def take(self, change: Change) -> None:
        if change.new is None:
            return
        self.first_s = self.first_s or time.monotonic()
        uid = change.new["metadata"]["uid"]
        if change.new["spec"].get("nodeName") and uid not in self.bound:
            self.bound.add(uid)
            self.last_s = time.monotonic()
            if len(self.bound) == self._expected:
                self.done.set()


def queues() -> Iterator[tuple[Kind, Object]]:
    """A ClusterQueue with room for all, and its LocalQueue."""
    quota = [{"name": name, "nominalQuota": amount} for name, amount in (("cpu", "1M"), ("memory", "1Pi"))]
    flavors = [{"name": "any", "resources": quota}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": flavors}
    for kind, name, spec in (
        (kinds.RESOURCE_FLAVORS, "any", {}),
        (kinds.CLUSTER_QUEUES, "all", {"namespaceSelector": {}, "resourceGroups": [group]}),
        (kinds.LOCAL_QUEUES, "mine", {"clusterQueue": "all"}),
    ):
        yield kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


async def prepare(user: Connection, mode: str) -> KubeSettings:
    """The kinds of every dialect, and queues for those who use them."""
    if mode == "nothing":
        return KubeSettings()
    await install(user)
    await install_operators(user)
    for dialect in DIALECTS.values():
        await install_dialect(user, dialect)
    for kind, body in queues() if mode == "kueue" else ():
        await user.create(kind, body, "default" if kind.namespaced else "")
    return KubeSettings(dialects=frozenset({*DIALECTS, KUBEFLOW}))


async def measure(kubeconfig: Path, server: int, jobs: int, pods: int, apart: bool, mode: str) -> dict[str, Any]:
    async with await Connection.open(kubeconfig) as user, await Connection.open(kubeconfig) as connection:
        for number in range(1 + jobs * pods * POD_CPU // NODE_CPU):
            await user.create(NODES, node(f"node-{number}"))
            await user.patch(NODES, f"node-{number}", {"spec": {"taints": None}})
            await user.patch(NODES, f"node-{number}", {"status": node("")["status"]}, subresource="status")
        settings = await prepare(user, mode)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            informers = Informers(connection, group, WIRE_TYPES if apart else {})
            async with open_world(connection, informers, settings) as world:
                started_s = time.monotonic() - began
                parts = [group.create_task(loop.run(world, Cluster(), Policy(), time.time))]
                if not apart:
                    parts.append(group.create_task(run_controllers(connection, informers)))
                found = await burst(user, connection, informers, server, jobs, pods, mode)
                for part in parts:
                    part.cancel()
            informers.stop()
    return {**found, "with": mode, "seconds_to_open_the_world": round(started_s, 2)}


async def burst(
    user: Connection, connection: Connection, informers: Informers, server: int, jobs: int, pods: int, mode: str
) -> dict[str, Any]:
    times = Times(jobs * pods)
    informers(PODS).subscribe(times.take)
    admitted = Admitted(jobs)
    label = {"phalanx.dev/queue": "default"}
    if mode == "kueue":
        informers(kinds.WORKLOADS).subscribe(admitted.take)
        label = {kinds.QUEUE_LABEL: "mine"}
    before = totals(connection.tally)
    cpu_s, server_s, began = time.process_time(), _cpu_s(server), time.monotonic()
    rest = iter(range(jobs))

    async def creator() -> None:
        for number in rest:
            await user.create(JOBS, job(number, pods, label), "default")

    await asyncio.gather(*(creator() for _ in range(CREATORS)))
    async with asyncio.timeout(600):
        await times.done.wait()
        if mode == "kueue":
            await admitted.done.wait()
    ended = time.monotonic()
    count, busy_s, took_s = jobs * pods, time.process_time() - cpu_s, times.last_s - began
    calls = totals(connection.tally) - before
    return {
        "benchmark": "kube_bind",
        "jobs": jobs,
        "pods_per_job": pods,
        "pods_per_s": round(count / (times.last_s - times.first_s)),
        "seconds_from_first_job_to_last_binding": round(took_s, 2),
        "seconds_until_all_is_said": round(ended - began, 2),
        "writes_per_job": round(sum(made for name, made in calls.items() if name.split()[0] in WRITES) / jobs, 2),
        "cpu_us": round(busy_s / count * 1e6),
        "busy_share": round(busy_s / took_s, 2),
        "server_cpu_us": round((_cpu_s(server) - server_s) / count * 1e6),
        "calls_per_job": {name: round(made / jobs, 2) for name, made in calls.most_common()},
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def totals(tally: Tally) -> Counter[str]:
    """`create pods/binding` -> calls made."""
    made = {call: codes.total() for call, codes in tally.calls.items() if call.resource and call.verb != "watch"}
    return Counter({f"{call.verb} {call.resource}": count for call, count in made.items()})


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def controllers(kubeconfig: Path) -> Iterator[None]:
    """The Job controller and its companions, in a process."""
    command = [sys.executable, "-m", "phalanx.embedded.controllers", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10)
    parser.add_argument("--apart", action="store_true", help="controllers in a process of their own")
    parser.add_argument("--with", dest="mode", choices=MODES, default="nothing", help="which dialects are on, or used")
    given = parser.parse_args()
    gc.set_threshold(50_000, 20, 50)  # as `phalanx up` has it
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", data]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            server.stdout.readline()  # "ready https://…"
            kubeconfig = Path(data) / "kubeconfig"
            try:
                with controllers(kubeconfig) if given.apart else nullcontext():
                    found = uvloop.run(measure(kubeconfig, server.pid, given.jobs, given.pods, given.apart, given.mode))
            finally:
                server.terminate()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
