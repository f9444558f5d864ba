"""What goes wrong in a cluster, done to real processes, and how long it takes until all is right again.

The API server, the Job controller and one or two `phalanx scheduler` are processes of their own, started again when
they end, as a Deployment does. Gangs are submitted, something breaks, and in the end every gang must be bound whole: no
pod lost, none made twice, no node over its room. One JSON object per scene on standard output; `right_again_s` is
counted from the fault to the last binding (where the server goes, from its return; where the network is bad, from the
first Job).

    python benchmarks/faults.py [--jobs N] [--pods N] [--listed N] [SCENE …]

`server restarted`   the API server is killed in the middle of a burst, and comes back a second later
`scheduler killed`   the scheduler is killed three times in the burst, wherever it is (every single write: tests/kube)
`two schedulers`     the one that leads is killed; the other waits until its lease is over
`slow network`       every call takes 50 ms longer
`calls fail`         of a hundred calls one fails: half of them before they are carried out, half of them after
`node vanishes`      with half of a gang on it
`many pods`          pods that run already are listed before the first decision
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import JOBS, LEASES, NODES, PODS
from phalanx.kube.read.records import read_start_record

NODES_COUNT, NODE_CPU = 20, 100
POD_CPU = 2
PATIENCE_S = 240.0


@dataclass(slots=True)
class Processes:
    """The server, the controllers and the schedulers; schedulers that end are started again."""

    data: Path
    port: int = 0
    server: subprocess.Popen[str] | None = None
    schedulers: list[subprocess.Popen[str]] = field(default_factory=list)
    others: list[subprocess.Popen[str]] = field(default_factory=list)

    def start_server(self) -> None:
        """Where it was before, if it was: somebody's connection may have been given its port, until that ends."""
        ready = ""
        while not ready:
            command = ("phalanx.embedded.apiserver", "--data", str(self.data), "--port", str(self.port))
            self.server = _start(*command, read=True)
            assert self.server.stdout is not None
            ready = self.server.stdout.readline()
        self.port = int(ready.split()[1].rpartition(":")[2])

    def start_controllers(self) -> None:
        self.others.append(_start("phalanx.embedded.controllers", "--kubeconfig", str(self.data / "kubeconfig")))

    def start_scheduler(self, kubeconfig: Path | None = None) -> None:
        where = str(kubeconfig or self.data / "kubeconfig")
        self.schedulers.append(_start("phalanx.cli.app", "scheduler", "--kubeconfig", where))

    async def keep(self) -> None:
        """As a kubelet does."""
        while True:
            for group in (self.schedulers, self.others):
                for number, process in enumerate(group):
                    if process.poll() is not None:
                        group[number] = _run(process.args)
            await asyncio.sleep(0.2)

    def stop(self) -> None:
        for process in (*self.schedulers, *self.others, *([self.server] if self.server else [])):
            process.kill()
            process.wait()


def _start(module: str, *words: str, read: bool = False) -> subprocess.Popen[str]:
    out = subprocess.PIPE if read else subprocess.DEVNULL
    return _run([sys.executable, "-m", module, *words], out)


def _run(command: Any, out: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, text=True)


class Seen:
    """Every pod that ever was, and where it was bound, as the API tells it."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}  # uid -> node
        self.made: set[str] = set()
        self.alive: set[str] = set()
        self.moved: list[str] = []
        self.last_s = 0.0
        self.news = asyncio.Event()

    def take(self, change: Change) -> None:
        obj = change.new or change.old or {}
        if "job-name" not in (obj["metadata"].get("labels") or {}):
            return
        uid, node = obj["metadata"]["uid"], obj["spec"].get("nodeName")
        self.made.add(uid)
        (self.alive.discard if change.new is None else self.alive.add)(uid)
        if node and uid not in self.bound:
            self.bound[uid], self.last_s = node, time.monotonic()
        elif node and self.bound[uid] != node:
            self.moved.append(uid)
        self.news.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not reached():
                self.news.clear()
                await self.news.wait()

    @property
    def standing(self) -> int:
        """Pods that are there and bound."""
        return sum(uid in self.bound for uid in self.alive)


@dataclass(slots=True)
class Cluster:
    """What a scene acts on. `wanted`: pods in the end."""

    processes: Processes
    user: Connection
    seen: Seen
    jobs: int
    pods: int
    listed: int
    figures: dict[str, float] = field(default_factory=dict)  # what only this scene tells

    @property
    def wanted(self) -> int:
        return self.jobs * self.pods

    async def submit(self, first: int = 0) -> None:
        rest = iter(range(first, first + self.jobs))

        async def creator() -> None:
            for number in rest:
                await persist(lambda number=number: self.user.create(JOBS, job(number, self.pods), "default"))

        await asyncio.gather(*(creator() for _ in range(4)))

    async def led(self, kubeconfig: Path | None = None) -> None:
        """Start a scheduler, and wait until it has the lease."""
        self.processes.start_scheduler(kubeconfig)
        async with asyncio.timeout(PATIENCE_S):
            while not await self.holder():  # noqa: ASYNC110 (another process does it)
                await asyncio.sleep(0.1)

    async def holder(self) -> str:
        try:
            lease = await self.user.get(LEASES, "phalanx", "kube-system")
        except ApiError:
            return ""
        return str(lease["spec"].get("holderIdentity") or "")

    async def bound(self, count: int) -> None:
        await self.seen.until(lambda: self.seen.standing >= count)


async def persist(call: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        try:
            return await call()
        except ApiError as error:
            if "already exists" in str(error):
                return None
            await asyncio.sleep(0.2)


def job(number: int, pods: int, cpu: int = POD_CPU) -> Object:
    container = {"name": "c", "image": "bench", "resources": {"requests": {"cpu": str(cpu), "memory": "1Gi"}}}
    template = {"spec": {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]}}
    counts = {"parallelism": pods, "completions": pods, "backoffLimit": 10_000}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "labels": {"phalanx.dev/queue": "default"}},
        "spec": {"suspend": True, **counts, "template": template},
    }


async def furnish(user: Connection) -> None:
    room = {"cpu": str(NODE_CPU), "memory": "400Gi", "pods": "2000"}
    ready = [{"type": "Ready", "status": "True", "reason": "Benchmark"}]
    for number in range(NODES_COUNT):
        name = f"node-{number}"
        await user.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        await user.patch(NODES, name, {"spec": {"taints": None}})
        status = {"capacity": room, "allocatable": room, "conditions": ready}
        await user.patch(NODES, name, {"status": status}, subresource="status")


# --- the scenes: each returns when it has broken something, with the moment from which time counts --------------------


async def server_restarted(cluster: Cluster) -> float:
    await cluster.led()
    burst = asyncio.ensure_future(cluster.submit())
    await cluster.bound(cluster.wanted // 3)
    assert cluster.processes.server is not None
    cluster.processes.server.kill()
    cluster.processes.server.wait()
    await asyncio.sleep(1.0)
    cluster.processes.start_server()
    began_s = time.monotonic()
    await burst
    return began_s


async def scheduler_killed(cluster: Cluster) -> float:
    await cluster.led()
    burst, began_s = asyncio.ensure_future(cluster.submit()), 0.0
    for part in (1, 2, 3):
        await cluster.bound(cluster.wanted * part // 4)
        cluster.processes.schedulers[0].kill()
        began_s = time.monotonic()
        await burst
    return began_s


async def two_schedulers(cluster: Cluster) -> float:
    await cluster.led()
    cluster.processes.start_scheduler()
    await cluster.submit()
    await cluster.bound(cluster.wanted // 2)
    lease = await cluster.user.get(LEASES, "phalanx", "kube-system")
    leader = int(lease["spec"]["holderIdentity"].rpartition("-")[2])
    next(one for one in cluster.processes.schedulers if one.pid == leader).send_signal(signal.SIGKILL)
    killed_s, before = time.monotonic(), await cluster.holder()
    while await cluster.holder() == before:  # noqa: ASYNC110 (another process does it)
        await asyncio.sleep(0.05)
    cluster.figures["taken_over_s"] = round(time.monotonic() - killed_s, 2)
    return killed_s


async def slow_network(cluster: Cluster) -> float:
    return await _through(cluster, delay_s=0.05)


async def calls_fail(cluster: Cluster) -> float:
    return await _through(cluster, failing=0.01)


async def _through(cluster: Cluster, *, delay_s: float = 0.0, failing: float = 0.0) -> float:
    """The scheduler speaks through a middleman that is slow, or loses calls."""
    kubeconfig = cluster.processes.data / "through"
    await middleman(cluster.processes, kubeconfig, delay_s, failing)
    await cluster.led(kubeconfig)
    began_s = time.monotonic()
    await cluster.submit()
    return began_s


async def node_vanishes(cluster: Cluster) -> float:
    """Four pods on two nodes, and one of these goes. Its pods are missed for a while before they count as failed, and a
    Job controller rests after failures: most of the time is theirs."""
    await cluster.led()
    cluster.jobs, cluster.pods = 1, 4
    await cluster.user.create(JOBS, job(0, 4, NODE_CPU // 2), "default")
    await cluster.bound(cluster.wanted)
    ((gone, _),) = Counter(cluster.seen.bound.values()).most_common(1)
    began_s = time.monotonic()
    await cluster.user.delete(NODES, gone)
    await cluster.seen.until(lambda: cluster.seen.standing < cluster.wanted)
    return began_s


async def many_pods(cluster: Cluster) -> float:
    """Pods of others on the nodes, and then the scheduler starts; one gang waits for it."""
    rest = iter(range(cluster.listed))

    async def creator() -> None:
        for number in rest:
            spec = {"nodeName": f"node-{number % NODES_COUNT}", "containers": [{"name": "c", "image": "bench"}]}
            meta = {"name": f"theirs-{number}"}
            await cluster.user.create(
                PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "default"
            )

    await asyncio.gather(*(creator() for _ in range(16)))
    cluster.jobs = 1
    await cluster.submit()
    cluster.processes.start_scheduler()
    return time.monotonic()


SCENES = {
    "server restarted": server_restarted,
    "scheduler killed": scheduler_killed,
    "two schedulers": two_schedulers,
    "slow network": slow_network,
    "calls fail": calls_fail,
    "node vanishes": node_vanishes,
    "many pods": many_pods,
}


# --- a bad network ----------------------------------------------------------------------------------------------------


async def middleman(processes: Processes, kubeconfig: Path, delay_s: float, failing: float) -> None:
    """Serve plain HTTP on a free port of this machine, hand every call on, and write a kubeconfig that names it."""
    said = yaml.safe_load((processes.data / "kubeconfig").read_text())
    server = said["clusters"][0]["cluster"]["server"]
    dice = random.Random(1)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False, limit=0), timeout=aiohttp.ClientTimeout())

    async def hand_on(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(delay_s)
        fault = dice.random() < failing and dice.choice(["before", "after"])
        if fault == "before":
            return web.Response(status=503, text="it was not carried out")
        body, head = await request.read(), {k: v for k, v in request.headers.items() if k.lower() != "host"}
        async with session.request(request.method, server + request.raw_path, data=body, headers=head) as answer:
            kept = {"content-type": answer.headers.get("content-type", "application/json")}
            if fault == "after" and "watch" not in request.query:
                await answer.read()
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            if "watch" not in request.query:
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
            stream = web.StreamResponse(status=answer.status, headers=kept)
            await stream.prepare(request)
            async for chunk in answer.content.iter_any():
                await stream.write(chunk)
            return stream

    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", hand_on)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    said["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}
    _write_private(kubeconfig, yaml.safe_dump(said))


def _write_private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


# --- a scene from its beginning to its end ---------------------------------------------------------------------------


@asynccontextmanager
async def stage(given: argparse.Namespace) -> AsyncIterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(Path(folder))
        processes.start_server()
        try:
            async with await Connection.open(Path(folder) / "kubeconfig") as user:
                await furnish(user)
                seen, cache = Seen(), Informer(user, PODS)
                cache.subscribe(seen.take)
                tasks = [asyncio.ensure_future(work) for work in (cache.run(), processes.keep())]
                processes.start_controllers()
                yield Cluster(processes, user, seen, given.jobs, given.pods, given.listed)
                for task in tasks:
                    task.cancel()
        finally:
            processes.stop()


async def play(name: str, given: argparse.Namespace) -> dict[str, Any]:
    async with stage(given) as cluster:
        began_s = await SCENES[name](cluster)
        seen, wrong = cluster.seen, []
        with suppress(TimeoutError):
            await cluster.bound(cluster.wanted)
        await asyncio.sleep(1.0)  # for what should not happen
        if seen.standing != cluster.wanted:
            wrong.append(f"{seen.standing} of {cluster.wanted} pods are bound")
        if seen.moved:
            wrong.append(f"{len(seen.moved)} pods were bound twice")
        replaced = sum(uid not in seen.alive for uid in seen.made)
        if name != "node vanishes" and replaced:
            wrong.append(f"{replaced} pods were made for nothing")
        wrong += await _overfull(cluster.user)
        lease = await cluster.user.get(LEASES, "phalanx", "kube-system")
        return {
            "benchmark": "faults",
            "scene": name,
            "pods": cluster.wanted,
            "right_again_s": round(seen.last_s - began_s, 2),
            "leaders": lease["spec"]["leaseTransitions"],
            **cluster.figures,
            "starts_of_the_most_started_job": await _attempts(cluster.user),
            "wrong": wrong,
        }


async def _overfull(user: Connection) -> list[str]:
    held = Counter[str]()
    for pod in (await user.list(PODS))["items"]:
        for container in pod["spec"]["containers"]:
            held[pod["spec"].get("nodeName", "")] += int((container["resources"].get("requests") or {}).get("cpu", 0))
    return [f"{node} holds {cpu} of {NODE_CPU} cpu" for node, cpu in held.items() if node and cpu > NODE_CPU]


async def _attempts(user: Connection) -> int:
    """How often the job that was started most often was started."""
    jobs = (await user.list(JOBS))["items"]
    records = (read_start_record(one["metadata"].get("annotations")) for one in jobs)
    return max((record.attempt for record in records if record is not None), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="*", choices=[*SCENES, []], help="all, if none is named")
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--pods", type=int, default=10, help="per Job")
    parser.add_argument("--listed", type=int, default=10_000)
    given = parser.parse_args()
    results = []
    for name in given.scene or SCENES:
        results.append(asyncio.run(play(name, given)))
        print(json.dumps(results[-1]), flush=True)
    sys.exit(any(result["wrong"] for result in results))


if __name__ == "__main__":
    main()
