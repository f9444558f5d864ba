"""Measure the time to the first binding of `phalanx scheduler`, and its rate of bindings, beside raw POSTs of bindings.

Plain pods wait on an API server before the scheduler starts. A watch of this process sees the first and the last pod
that is bound. The same pods are then bound by a program that only sends POSTs, `CLIENTS` at a time, and decides
nothing. All turns use one API server, run one after the other, and create new pods. `--against` adds another checkout
of Phalanx to the turns, so that two versions are compared on the same machine at the same time. Compare figures of one
run only: other programs of the machine change them.

One JSON object per turn on standard output, then one with the medians. `first_s` is the time from the start of the
process to its first binding; `first_cpu_s` is the processor time of the process until then. `bound_per_s` counts from
the first to the last binding. So do `cpu_us` and `server_cpu_us`, the processor time per pod of the process and of the
API server.

    python benchmarks/scheduler_start.py [--nodes N] [--pods N] [--turns N] [--against FOLDER] [--kubeconfig FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import NAMESPACES, NODES, PODS
from phalanx.kube.read.wire import WIRE_TYPES

CLIENTS = 32
ROOT = Path(__file__).parent.parent
POSTS = "posts"
# As an installed package: what is imported was compiled before.
COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
_TICKS = os.sysconf("SC_CLK_TCK")


def node(name: str) -> Object:
    amounts = {"cpu": "96", "memory": "400Gi", "pods": "200"}
    ready = [{"type": "Ready", "status": "True", "reason": "Benchmark"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str) -> Object:
    container = {"name": "c", "image": "bench", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {
        "schedulerName": "phalanx",
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Bindings:
    """The pods of one namespace that are bound, as a watch shows them."""

    def __init__(self, expected: int) -> None:
        self.first_s, self.last_s, self.first, self.all = 0.0, 0.0, asyncio.Event(), asyncio.Event()
        self._bound: set[str] = set()
        self._expected = expected

    def take(self, change: Change) -> None:
        if change.new is None or not change.new["spec"].get("nodeName"):
            return
        self._bound.add(change.new["metadata"]["uid"])
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        self.first.set()
        if len(self._bound) == self._expected:
            self.all.set()


async def each(count: int, call: Any) -> None:
    """Call `call(number)` for all numbers, `CLIENTS` at a time."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def prepare(user: Connection, nodes: int) -> None:
    async def add(number: int) -> None:
        name = f"node-{number}"
        with contextlib.suppress(ApiRefusal):  # it is there from an earlier run
            await user.create(NODES, node(name))
        await user.patch(NODES, name, {"spec": {"taints": None}})
        await user.patch(NODES, name, {"status": node(name)["status"]}, subresource="status")

    await each(nodes, add)


@contextlib.asynccontextmanager
async def waiting_pods(user: Connection, namespace: str, pods: int) -> AsyncIterator[Bindings]:
    """Create the pods, follow them, and delete them at the end."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await user.create(NAMESPACES, body)
    await each(pods, lambda number: user.create(PODS, pod(f"pod-{number}"), namespace))
    bindings = Bindings(pods)
    informer = Informer(user, PODS, namespace=namespace, lean=WIRE_TYPES[PODS])
    informer.subscribe(bindings.take)
    watching = asyncio.ensure_future(informer.run())
    await informer.synced.wait()
    try:
        yield bindings
    finally:
        watching.cancel()
        await each(pods, lambda number: user.delete(PODS, f"pod-{number}", namespace, {"gracePeriodSeconds": 0}))


async def turn(user: Connection, kubeconfig: Path, server: int, subject: str, pods: int) -> dict[str, Any]:
    """Let the subject bind new pods. `subject`: a checkout of Phalanx, or `POSTS`."""
    namespace = f"turn-{time.time_ns()}"
    async with waiting_pods(user, namespace, pods) as bindings:
        with tempfile.TemporaryFile() as log:
            command = [sys.executable, "-m", "phalanx.cli.app", "scheduler", "--kubeconfig", str(kubeconfig)]
            if subject == POSTS:
                command = [sys.executable, __file__, "--kubeconfig", str(kubeconfig), "--post", namespace]
            path = str(ROOT / "src" if subject == POSTS else Path(subject) / "src")
            began_s = time.monotonic()
            environment = {**COMPILED, "PYTHONPATH": path}
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=log, stderr=log)
            try:
                async with asyncio.timeout(120):
                    await bindings.first.wait()
                    first_cpu_s, server_s = cpu_s(process.pid), cpu_s(server)
                    await bindings.all.wait()
                took_s, used_s, used_server_s = bindings.last_s - bindings.first_s, cpu_s(process.pid), cpu_s(server)
            except TimeoutError:
                log.seek(0)
                raise SystemExit(f"{subject} did not bind all pods:\n{log.read().decode()}") from None
            finally:
                process.terminate()
                await process.wait()
    return {
        "subject": subject,
        "load": round(os.getloadavg()[0], 1),
        "first_s": round(bindings.first_s - began_s, 3),
        "first_cpu_s": round(first_cpu_s, 3),
        "bound_per_s": round((pods - 1) / took_s),
        "cpu_us": round((used_s - first_cpu_s) / pods * 1e6),
        "server_cpu_us": round((used_server_s - server_s) / pods * 1e6),
    }


async def post(kubeconfig: Path, namespace: str) -> None:
    """Bind all pods of the namespace, spread over all nodes."""
    async with await Connection.open(kubeconfig) as connection:
        nodes = [one["metadata"]["name"] for one in (await connection.list(NODES))["items"]]
        pods = [one["metadata"] async for page in connection.pages(PODS, namespace) for one in page["items"]]

        async def bind(number: int) -> None:
            meta = {"name": pods[number]["name"], "namespace": namespace, "uid": pods[number]["uid"]}
            target = {"apiVersion": "v1", "kind": "Node", "name": nodes[number % len(nodes)]}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
            await connection.create(PODS, body, namespace, "binding", meta["name"])

        await each(len(pods), bind)
        await asyncio.Event().wait()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process; 0 if it has no number (a server of another machine)."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextlib.contextmanager
def own_server() -> Iterator[tuple[Path, int]]:
    """Run the embedded API server; yield its kubeconfig and its process id."""
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", data]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            server.stdout.readline()  # "ready https://…"
            try:
                yield Path(data) / "kubeconfig", server.pid
            finally:
                server.terminate()


async def measure(kubeconfig: Path, server: int, subjects: Sequence[str], given: argparse.Namespace) -> None:
    async with await Connection.open(kubeconfig) as user:
        await prepare(user, given.nodes)
        for subject in subjects:  # compiles the modules, and installs the definitions
            await turn(user, kubeconfig, server, subject, min(100, given.pods))
        found: dict[str, list[dict[str, Any]]] = {subject: [] for subject in subjects}
        for _ in range(given.turns):
            for subject in subjects:
                found[subject].append(await turn(user, kubeconfig, server, subject, given.pods))
                print(json.dumps(found[subject][-1]), flush=True)
    print(json.dumps(summary(found, given)))


def summary(found: dict[str, list[dict[str, Any]]], given: argparse.Namespace) -> dict[str, Any]:
    """Return the medians, and each turn's binding rate relative to the POSTs of the same round."""
    medians = {
        subject: {name: median(one[name] for one in turns) for name in turns[0] if name != "subject"}
        for subject, turns in found.items()
    }
    ratios = {
        subject: [
            round(one["bound_per_s"] / plain["bound_per_s"], 2) for one, plain in zip(turns, found[POSTS], strict=True)
        ]
        for subject, turns in found.items()
        if subject != POSTS
    }
    said = {"benchmark": "scheduler_start", "nodes": given.nodes, "pods": given.pods}
    return {**said, "medians": medians, "rate_relative_to_posts": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout of Phalanx that takes turns with this one")
    parser.add_argument("--kubeconfig", type=Path, help="an API server that runs; default: an embedded one is started")
    parser.add_argument("--server-pid", type=int, default=0, help="its process, for its processor time")
    parser.add_argument("--post", metavar="NAMESPACE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.post:
        uvloop.run(post(given.kubeconfig, given.post))
        return
    subjects = [str(ROOT), *([str(given.against.resolve())] if given.against else []), POSTS]
    running = contextlib.nullcontext((given.kubeconfig, given.server_pid)) if given.kubeconfig else own_server()
    with running as (kubeconfig, server):
        uvloop.run(measure(kubeconfig, server, subjects, given))


if __name__ == "__main__":
    main()
