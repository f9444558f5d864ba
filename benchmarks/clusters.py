"""A manager sends Jobs to three workers: jobs dispatched a second, writes, processor time, and wrong dispatches.

Four API servers in processes of their own. This process is the scheduler of the manager. One child for each worker
starts each copy at once and ends it after `--seconds`, without pods, and lets deleted copies go. Another child submits
the Jobs. Two thirds of the jobs fit at a time at most, so that jobs wait, and places are used again.

`--own` queues the Jobs in a queue of Phalanx whose flavors are the clusters, instead of a ClusterQueue with
MultiKueue's AdmissionCheck; then there are no Workloads to write. Prints one JSON object:

- `dispatched_per_s`: jobs that were sent, by the time from the first submission to the last creation of a copy.
- `writes_per_job`: calls of the manager's scheduler that write to its own API, by resource, divided by the jobs.
- `processor_s`: processor time of the manager's scheduler. `servers_s`: processor time of the four API servers.
- `doubles`: copies beyond one for a job; `wrong`: jobs that did not succeed exactly once.
- `seconds`: from the first submission to the last final status on the manager.

    python benchmarks/clusters.py [--jobs 1000] [--workers 3] [--seconds 5] [--own]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import ExitStack
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from phalanx import loop
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NAMESPACES, NODES, SECRETS, Kind
from phalanx.clusters.copies import content
from phalanx.clusters.copies.sendable import SENDABLE
from phalanx.clusters.dispatch import Dispatcher
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.tree.checks import is_active
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import FLAVORS, QUEUES, install_dialect, served
from phalanx.kube.install.installation import install_all
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.capacity_sources import CapacitySources
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster

NODE_CPUS, PODS = 32, 2
Object = dict[str, Any]
SETTINGS = KubeSettings(dialects=frozenset({kinds.NAME}))
CHECK = {
    "controllerName": "kueue.x-k8s.io/multikueue",
    "parameters": {"apiGroup": kinds.GROUP, "kind": "MultiKueueConfig", "name": "workers"},
}


class Server:
    """An API server in a process of its own."""

    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(data), "--port", "0"]
        data.mkdir()
        with data.joinpath("server.log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[1]
        self.data, self.kubeconfig = data, data / "kubeconfig"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def secret(self, name: str) -> Object:
        """Return a Secret with a kubeconfig for this server."""
        authority = base64.b64encode((self.data / "pki" / "ca.crt").read_bytes()).decode()
        token = self.data.joinpath("tokens.csv").read_text().split(",")[0]
        found = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": "c", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        data = {"kubeconfig": base64.b64encode(json.dumps(found).encode()).decode()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def named(kind: Kind, name: str, **spec: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


def job(number: int, labels: dict[str, str]) -> Object:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]}}
    sizes = {"suspend": True, "parallelism": PODS, "completions": PODS, "managedBy": CHECK["controllerName"]}
    found = named(JOBS, f"j{number}", **sizes, template=template)
    return {**found, "metadata": {**found["metadata"], "labels": labels}}


def node(number: int) -> Object:
    has = {"cpu": str(NODE_CPUS), "memory": "256Gi", "pods": "110"}
    status = {"allocatable": has, "capacity": has, "conditions": [{"type": "Ready", "status": "True"}]}
    return {**named(NODES, f"n{number}"), "status": status}


async def ready(connection: Connection) -> None:
    """Install Kueue's kinds."""
    await install_dialect(connection, KUEUE)
    await served(connection, kinds.MULTI_CLUSTERS)


async def play(kubeconfig: Path, seconds: float, told: Pipe) -> None:
    """Start each copy, and end it after a while. Sends (copies made by name, starts by name) when it is asked."""
    async with await Connection.open(kubeconfig) as there:
        informer, made, ended = Informer(there, JOBS), Counter[str](), set[str]()
        seen, news = set[str](), asyncio.Queue[Object]()
        informer.subscribe(lambda change: news.put_nowait(change.new) if change.new is not None else None)
        tasks = {asyncio.ensure_future(informer.run())}

        async def collect(name: str) -> None:
            """Let a deleted copy go, as the garbage collector does when its pods are gone."""
            with contextlib.suppress(ApiRefusal):  # it is gone
                await there.patch(JOBS, name, {"metadata": {"finalizers": None}}, "default")

        async def run(name: str) -> None:
            now = "2026-01-01T00:00:00Z"
            body = {"spec": {"suspend": False}}
            await there.patch(JOBS, name, body, "default")
            await there.patch(JOBS, name, {"status": {"startTime": now, "active": PODS}}, "default", "status")
            await asyncio.sleep(seconds)
            done = [
                {"type": kind, "status": "True", "lastTransitionTime": now}
                for kind in ("SuccessCriteriaMet", "Complete")
            ]
            status = {"completionTime": now, "succeeded": PODS, "active": 0, "conditions": done}
            await there.patch(JOBS, name, {"status": status}, "default", "status")
            ended.add(name)

        async def listen() -> None:
            while True:
                meta = (await news.get())["metadata"]
                if "deletionTimestamp" in meta:
                    begin(collect(meta["name"]))
                elif meta["uid"] not in seen:
                    seen.add(meta["uid"])
                    made[meta["name"]] += 1
                    begin(run(meta["name"]))

        def begin(work: Coroutine[Any, Any, None]) -> None:
            task = asyncio.ensure_future(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        tasks.add(asyncio.ensure_future(listen()))
        await asyncio.to_thread(told.recv)
        told.send((made, ended))
        for task in list(tasks):
            task.cancel()


def player(kubeconfig: Path, seconds: float, told: Pipe) -> None:
    asyncio.run(play(kubeconfig, seconds, told))


async def submit_all(kubeconfig: Path, jobs: int, queue: dict[str, str]) -> None:
    async with await Connection.open(kubeconfig) as user:
        gate = asyncio.Semaphore(8)

        async def one(number: int) -> None:
            async with gate:
                await user.create(JOBS, job(number, queue), "default")

        await asyncio.gather(*map(one, range(jobs)))


def submitter(kubeconfig: Path, jobs: int, queue: dict[str, str]) -> None:
    asyncio.run(submit_all(kubeconfig, jobs, queue))


async def prepare(manager: Server, workers: dict[str, Server], nodes: int, *, own: bool) -> dict[str, str]:
    """Define the clusters and the queues. Return the labels of a Job."""
    for server in workers.values():
        async with await Connection.open(server.kubeconfig) as there:
            await ready(there)
            for number in range(nodes):
                await there.create(NODES, node(number))
                await there.patch(NODES, f"n{number}", {"spec": {"taints": None}})
    async with await Connection.open(manager.kubeconfig) as user:
        await ready(user)
        await user.create(NAMESPACES, {"metadata": {"name": "kueue-system"}})
        for name, server in workers.items():
            await user.create(SECRETS, server.secret(name), "kueue-system")
            source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
            await user.create(kinds.MULTI_CLUSTERS, named(kinds.MULTI_CLUSTERS, name, clusterSource=source))
        if not own:
            return await define(user, list(workers))
        await install_all(user, time.time, SETTINGS.others)
        for name in workers:
            await user.create(FLAVORS, named(FLAVORS, name, labels={"phalanx.dev/cluster": name}))
        quotas = [{"flavor": name, "limit": {"cpu": 10**6}} for name in workers]
        await user.create(QUEUES, named(QUEUES, "own", quotas=quotas))
        return {"phalanx.dev/queue": "own"}


async def define(user: Connection, workers: list[str]) -> dict[str, str]:
    """Define a ClusterQueue that sends its jobs to the workers. Return the labels of a Job."""
    quotas = [{"name": "cpu", "nominalQuota": str(10**6)}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": quotas}]}
    checks = {"admissionChecks": [{"name": "send"}]}
    queue: Object = {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": checks}
    for kind, body in (
        (kinds.MULTI_CONFIGS, named(kinds.MULTI_CONFIGS, "workers", clusters=workers)),
        (kinds.ADMISSION_CHECKS, named(kinds.ADMISSION_CHECKS, "send", **CHECK)),
        (kinds.RESOURCE_FLAVORS, named(kinds.RESOURCE_FLAVORS, "any")),
        (kinds.CLUSTER_QUEUES, named(kinds.CLUSTER_QUEUES, "q", **queue)),
    ):
        await user.create(kind, body)
    await user.create(kinds.LOCAL_QUEUES, named(kinds.LOCAL_QUEUES, "l", clusterQueue="q"), "default")
    return {kinds.QUEUE_LABEL: "l"}


async def manage(manager: Server, arguments: argparse.Namespace, labels: dict[str, str]) -> Object:
    """Run the manager until the end of each Job is known there."""
    async with await Connection.open(manager.kubeconfig) as api, SharedInformers(api) as informers:
        versions, over, sent_s = dict[str, set[str]](), asyncio.Event(), 0.0
        count = Counter[str]()

        def on_job(change: Any) -> None:
            nonlocal sent_s
            if (new := change.new) is None:
                return
            name = new["metadata"]["name"]
            versions.setdefault(name, set()).add(new["metadata"]["resourceVersion"])
            if not count[f"sent {name}"] and content.sent_to(new):
                count[f"sent {name}"], sent_s = 1, time.monotonic()
            if not count[f"over {name}"] and SENDABLE[JOBS].is_over(new):
                count[f"over {name}"] = 1
                count["over"] += 1
                if count["over"] == arguments.jobs:
                    over.set()

        active = asyncio.Event()

        def on_cluster(change: Any) -> None:
            if all(map(is_active, informers(kinds.MULTI_CLUSTERS).objects.values())):
                active.set()

        informers(JOBS).subscribe(on_job)
        clusters = Dispatcher(api, informers, time.time)
        async with open_world(api, informers, SETTINGS, sources=CapacitySources(clusters=clusters)) as world:
            informers(kinds.MULTI_CLUSTERS).subscribe(on_cluster)
            deciding = asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time))
            await active.wait()
            before, began_cpu_s, began_s = writes(api), time.process_time(), time.monotonic()
            submitting = multiprocessing.get_context("spawn").Process(
                target=submitter, args=(manager.kubeconfig, arguments.jobs, labels)
            )
            submitting.start()
            timed_out = False
            try:
                async with asyncio.timeout(arguments.timeout):
                    await over.wait()
            except TimeoutError:
                timed_out = True
            seconds, processor_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
            await asyncio.sleep(1.0)
            deciding.cancel()
            await asyncio.gather(deciding, return_exceptions=True)
            submitting.join()
        made = writes(api) - before
        return {
            "dispatched_per_s": round(arguments.jobs / max(0.001, sent_s - began_s), 1),
            "seconds": round(seconds, 1),
            "processor_s": round(processor_s, 2),
            "writes_per_job": {name: round(number / arguments.jobs, 2) for name, number in sorted(made.items())},
            "most_job_writes": max((len(each) - 1 for each in versions.values()), default=0),
            **({"timed_out_with_over": count["over"]} if timed_out else {}),
        }


def writes(api: Connection) -> Counter[str]:
    """Return the writes so far, by resource."""
    found = Counter[str]()
    for call, codes in api.tally.calls.items():
        if call.verb in ("create", "update", "patch", "delete"):
            found[call.resource] += codes.total()
    return found


def processor_s(pid: int) -> float:
    """Return the processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=540.0)
    parser.add_argument("--own", action="store_true")
    arguments = parser.parse_args()
    names = [f"w{number + 1}" for number in range(arguments.workers)]
    nodes = max(1, arguments.jobs * PODS * 2 // 3 // NODE_CPUS // arguments.workers)
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = {name: stack.enter_context(Server(Path(folder) / name)) for name in ("manager", *names)}
        workers = {name: servers[name] for name in names}
        labels = asyncio.run(prepare(servers["manager"], workers, nodes, own=arguments.own))
        pipes = dict[str, Pipe]()
        for name, server in workers.items():
            pipes[name], theirs = spawn.Pipe()
            process = spawn.Process(target=player, args=(server.kubeconfig, arguments.seconds, theirs), daemon=True)
            process.start()
            stack.callback(process.kill)
        found = asyncio.run(manage(servers["manager"], arguments, labels))
        made, ended = Counter[str](), Counter[str]()
        for pipe in pipes.values():
            pipe.send(None)
            each, over = pipe.recv()
            made += each
            ended.update(over)
        doubles = sum(number - 1 for number in made.values() if number > 1)
        wrong = sum(ended[f"j{number}"] != 1 for number in range(arguments.jobs))
        servers_s = sum(processor_s(server.process.pid) for server in servers.values())
    load = os.getloadavg()
    print(
        json.dumps(
            {
                "benchmark": "clusters",
                "jobs": arguments.jobs,
                "workers": arguments.workers,
                "own_queue": arguments.own,
                "doubles": doubles,
                "wrong": wrong,
                **found,
                "servers_s": round(servers_s, 1),
                "load": [round(each, 1) for each in load],
            }
        )
    )


if __name__ == "__main__":
    main()
