"""What the start on a large cluster costs: from the first list to the first decision, the memory, and how long the
event loop is kept.

A lease is lost when nothing renews it for 6 s: so what counts, beside the whole time and the memory, is the longest
time that somebody who waits for a timer got no turn. The objects come from a server in another process, over HTTP:
twenty pods a node, and a namespace with a quota for every five nodes. Each size is measured in a process of its own.

    python benchmarks/kube_start.py [--nodes 500 1000 5000] [--pages] [--to docs/benchmarks]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib as mpl
from aiohttp import web
from matplotlib.figure import Figure

from phalanx import loop
from phalanx.cli.cluster.informers import Informers
from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, NODES, PODS, RESOURCE_QUOTAS, Kind
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.wire import WIRE_TYPES
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.usage import load_usage
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.model.event import Event
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster

Object = dict[str, Any]
GANG = 10
PODS_PER_NODE, NODES_PER_NAMESPACE = 20, 5


def meta(name: str, version: int, namespace: str = "", **more: Any) -> Object:
    spaced = {"namespace": namespace} if namespace else {}
    times = {"resourceVersion": str(version), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"name": name, "uid": f"uid-{name}-{namespace}", "labels": {}, **spaced, **times, **more}


def objects(nodes: int, pods: int, namespaces: int) -> dict[Kind, list[Object]]:
    """Half of the pods are gangs of ours that run, half are others'."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    allocatable = {"cpu": "96", "memory": "768Gi", "pods": "110"}
    found: dict[Kind, list[Object]] = {kind: [] for kind in (NODES, QUEUES, RESOURCE_QUOTAS, JOBS, PODS)}
    for number in range(nodes):
        found[NODES].append({"metadata": meta(f"n{number}", 1), "status": {"allocatable": allocatable, **ready}})
    found[QUEUES].append({"metadata": meta("default", 1), "spec": {}})
    for number in range(namespaces):
        hard = {"pods": "100000", "requests.cpu": "100000"}
        found[RESOURCE_QUOTAS].append({"metadata": meta("quota", 1, f"team-{number}"), "spec": {"hard": hard}})
    record = json.dumps({"attempt": 1, "queue": "default", "count": GANG, "at_s": 1.0})
    for number in range(pods):
        team, job = f"team-{number % namespaces}", number // GANG
        team = f"team-{job % namespaces}"
        ours = job % 2 == 0
        container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        spec = {"containers": [container], "schedulerName": "phalanx" if ours else "default-scheduler"}
        owner = [{"kind": "Job", "name": f"j{job}", "uid": f"uid-j{job}-{team}", "controller": True}] if ours else []
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        name = meta(f"p{number}", 1, team, ownerReferences=owner)
        found[PODS].append({"metadata": name, "spec": {**spec, "nodeName": f"n{number % nodes}"}, "status": status})
        if ours and number % GANG == 0:
            labels = {"phalanx.dev/queue": "default"}
            head = {**meta(f"j{job}", 1, team), "labels": labels, "annotations": {"phalanx.dev/admitted": record}}
            template = {"spec": spec}
            size = {"parallelism": GANG, "completions": GANG, "suspend": False}
            found[JOBS].append({"metadata": head, "spec": {**size, "template": template}, "status": {"active": GANG}})
    return found


async def answer(request: web.Request) -> web.StreamResponse:
    """As an API server does: a watch that begins with what exists, or a list in pages."""
    path, query = request.path, request.query
    bodies: list[bytes] | None = request.app["bodies"].get(path)
    if request.method != "GET":
        return web.json_response({}, status=403)
    if bodies is None:
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound", "message": path}, status=404)
    if "watch" not in query:
        begin, size = int(query.get("continue") or 0), int(query.get("limit") or len(bodies) or 1)
        page, end = bodies[begin : begin + size], begin + size
        head = {"resourceVersion": "2", "continue": str(end) if end < len(bodies) else ""}
        text = b'{"kind":"List","metadata":%s,"items":[%s]}' % (json.dumps(head).encode(), b",".join(page))
        return web.Response(body=text, content_type="application/json")
    if "sendInitialEvents" in query and not request.app["streams"]:
        return web.json_response({"code": 422, "message": "sendInitialEvents is not served"}, status=422)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    if "sendInitialEvents" in query:
        for begin in range(0, len(bodies), 200):
            lines = (b'{"type":"ADDED","object":%s}\n' % one for one in bodies[begin : begin + 200])
            await response.write(b"".join(lines))
        told = {"resourceVersion": "2", "annotations": {"k8s.io/initial-events-end": "true"}}
        await response.write(json.dumps({"type": "BOOKMARK", "object": {"metadata": told}}).encode() + b"\n")
    await asyncio.sleep(3600)
    return response


async def serve(found: dict[Kind, list[Object]], *, streams: bool, ready: Any) -> None:
    """Until this process is ended; `ready` is told the port. `streams`: watches may begin with what exists."""
    app = web.Application()
    app["streams"] = streams
    app["bodies"] = {kind.path(): [json.dumps(obj).encode() for obj in objs] for kind, objs in found.items()}
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    ready.send(runner.addresses[0][1])
    await asyncio.sleep(3600)


def run_server(sizes: tuple[int, int, int], streams: bool, ready: Any) -> None:
    asyncio.run(serve(objects(*sizes), streams=streams, ready=ready))


class Turns:
    """How long the event loop was kept: the longest turn, by what was done then."""

    def __init__(self) -> None:
        self.doing, self.longest_s = "list", dict[str, float]()

    async def watch(self) -> None:
        while True:
            since_s = time.perf_counter()
            await asyncio.sleep(0.001)
            took_s = time.perf_counter() - since_s - 0.001
            self.longest_s[self.doing] = max(took_s, self.longest_s.get(self.doing, 0.0))


class Staged:
    """A world that says when the first cycle has begun, and when it is over."""

    def __init__(self, inner: loop.World, turns: Turns) -> None:
        self._inner, self._turns = inner, turns
        self.first = asyncio.Event()

    def events(self) -> Sequence[Event]:
        return self._inner.events()

    def apply(self, plan: Plan) -> None:
        self._inner.apply(plan)

    async def wait(self, timeout_s: float | None) -> None:
        self.first.set()
        await self._inner.wait(timeout_s)


async def start(port: int) -> dict[str, object]:
    """What the start costs, from the first list to the first decision."""
    turns = Turns()
    began_s = time.perf_counter()
    watching = asyncio.ensure_future(turns.watch())
    async with Connection(f"http://127.0.0.1:{port}", headers={}, tls=None) as connection, asyncio.TaskGroup() as group:
        informers = Informers(connection, group, WIRE_TYPES)
        world = KubeWorld(connection, informers, KubeSettings(), time.time)
        syncing = asyncio.ensure_future(world.sync(load_usage(connection)))
        await informers(PODS).synced.wait()
        listed_s, listed_mib = time.perf_counter() - began_s, peak_mib()
        turns.doing = "route"
        await syncing
        routed_s = time.perf_counter() - began_s
        turns.doing = "decide"
        staged, cluster = Staged(world, turns), Cluster()
        running = asyncio.ensure_future(loop.run(staged, cluster, Policy(), time.time))
        await staged.first.wait()
        await asyncio.sleep(0.01)  # the last turn is measured, too
        leads_s = time.perf_counter() - began_s
        informers.stop()
        for task in (running, watching):
            task.cancel()
        assert len(cluster.jobs) > 0
    return {
        "listed_s": round(listed_s, 2),
        "routed_s": round(routed_s, 2),
        "first_decision_s": round(leads_s, 2),
        "longest_turn_s": {doing: round(took_s, 3) for doing, took_s in turns.longest_s.items()},
        "listed_mib": listed_mib,
        "peak_mib": peak_mib(),
    }


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure(nodes: int, pages: bool) -> dict[str, Any]:
    """Return what the start costs with so many nodes. `pages`: the server's watches do not begin with what exists."""
    pods, namespaces = nodes * PODS_PER_NODE, max(1, nodes // NODES_PER_NAMESPACE)
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=run_server, args=((nodes, pods, namespaces), not pages, theirs), daemon=True)
    server.start()
    said = {"benchmark": "kube_start", "nodes": nodes, "pods": pods, "namespaces": namespaces, "pages": pages}
    try:
        return {**said, "load": round(os.getloadavg()[0], 1), **asyncio.run(start(ours.recv()))}
    finally:
        server.kill()


def drawn(found: Sequence[dict[str, Any]]) -> Figure:
    """Return the time, the longest turn and the memory, each against the number of pods."""
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    times, turns, memory = figure.subplots(1, 3)
    pods = [each["pods"] for each in found]
    for name, mark in (("listed_s", "o-"), ("routed_s", "s-"), ("first_decision_s", "^-")):
        times.plot(pods, [each[name] for each in found], mark, label=name.removesuffix("_s").replace("_", " "))
    for doing in ("list", "route", "decide"):
        turns.plot(pods, [1000 * each["longest_turn_s"][doing] for each in found], "o-", label=doing)
    for name in ("listed_mib", "peak_mib"):
        memory.plot(pods, [each[name] for each in found], "o-", label=name.removesuffix("_mib"))
    for axes, what in ((times, "since the first list (s)"), (turns, "longest turn (ms)"), (memory, "memory (MiB)")):
        axes.set_xlabel("pods")
        axes.set_ylabel(what)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[5000])
    parser.add_argument("--pages", action="store_true", help="a server whose watches do not begin with what exists")
    parser.add_argument("--to", type=Path, help="a folder for the plot")
    args = parser.parse_args()
    found = []
    for nodes in args.nodes:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
            found.append(alone.submit(measure, nodes, args.pages).result())
        print(json.dumps(found[-1]), flush=True)
    if args.to is not None:
        mpl.rcParams["svg.hashsalt"] = "phalanx"  # the same figures, the same file
        drawn(found).savefig(args.to / "cluster-start.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
