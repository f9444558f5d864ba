"""How many writes a second the embedded API server makes durable: pod creations, bindings, status patches.

A server process of its own, a client process with 32 connections over TLS, three watchers of all pods that must see
every event. One JSON object on standard output. `server_cpu_us` is the processor time of the server per write, which
says more than the rate on a machine that does other things as well.

    python benchmarks/apiserver_writes.py [--pods N] [--concurrency C] [--watchers W]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvloop

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"app": "bench", "batch.kubernetes.io/job-name": "bench"}},
    "spec": {
        "restartPolicy": "Never",
        "schedulerName": "phalanx",
        "containers": [
            {
                "name": "main",
                "image": "host",
                "command": ["python3", "-m", "train", "--epochs", "10"],
                "env": [{"name": "RANK", "value": "0"}, {"name": "WORLD_SIZE", "value": "10"}],
                "resources": {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
            }
        ],
    },
}
STATUS = {
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
}
PODS = "/api/v1/namespaces/default/pods"
Call = tuple[str, str, bytes, str]  # method, path, body, content type


class Connection:
    """One keep-alive connection; a call is written whole and its answer read by its Content-Length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self.reader, self.writer = reader, writer
        self.head = f"host: x\r\nauthorization: Bearer {token}\r\naccept: application/json\r\n"

    async def call(self, method: str, path: str, body: bytes, media: str) -> int:
        head = f"{method} {path} HTTP/1.1\r\n{self.head}content-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        await self.reader.readexactly(length)
        return int(answer[9:12])


async def connect(port: int, token: str, tls: ssl.SSLContext) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=2**24)
    return Connection(reader, writer, token)


class Watcher:
    """Counts the events of all pods."""

    def __init__(self) -> None:
        self.events = 0

    async def run(self, connection: Connection) -> None:
        connection.writer.write(f"GET {PODS}?watch=1 HTTP/1.1\r\n{connection.head}\r\n".encode())
        while piece := await connection.reader.read(2**20):
            self.events += piece.count(b'"type":"ADDED"') + piece.count(b'"type":"MODIFIED"')


def creations(count: int) -> Iterator[Call]:
    for number in range(count):
        pod = POD | {"metadata": POD["metadata"] | {"name": f"pod-{number}"}}
        yield "POST", PODS, json.dumps(pod).encode(), "application/json"


def bindings(count: int) -> Iterator[Call]:
    for number in range(count):
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % 100}"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"pod-{number}"}, "target": target}
        yield "POST", f"{PODS}/pod-{number}/binding", json.dumps(body).encode(), "application/json"


def patches(count: int) -> Iterator[Call]:
    body = json.dumps(STATUS).encode()
    for number in range(count):
        yield "PATCH", f"{PODS}/pod-{number}/status", body, "application/merge-patch+json"


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) // 1024


async def measure(pool: list[Connection], calls: Iterator[Call], expected: int, pid: int) -> dict[str, float]:
    waits: list[float] = []

    async def work(connection: Connection) -> None:
        for method, path, body, media in calls:
            start = time.perf_counter()
            code = await connection.call(method, path, body, media)
            waits.append(time.perf_counter() - start)
            if code != expected:
                raise SystemExit(f"{method} {path} answered {code}")

    cpu, start = cpu_s(pid), time.perf_counter()
    await asyncio.gather(*map(work, pool))
    took = time.perf_counter() - start
    waits.sort()
    return {
        "per_s": round(len(waits) / took),
        "server_cpu_us": round((cpu_s(pid) - cpu) / len(waits) * 1e6),
        "p50_ms": round(waits[len(waits) // 2] * 1e3, 2),
        "p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 2),
    }


async def run(given: argparse.Namespace, data: Path, port: int, pid: int) -> dict[str, object]:
    tls = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
    token = (data / "tokens.csv").read_text().split(",")[0]
    pool = [await connect(port, token, tls) for _ in range(given.concurrency)]
    watchers = [Watcher() for _ in range(given.watchers)]
    tasks = [asyncio.ensure_future(one.run(await connect(port, token, tls))) for one in watchers]
    phases: dict[str, tuple[Callable[[int], Iterator[Call]], int]] = {
        "pod_creates": (creations, 201),
        "bindings": (bindings, 201),
        "status_patches": (patches, 200),
    }
    found: dict[str, object] = {"pods": given.pods, "concurrency": given.concurrency, "watchers": given.watchers}
    for name, (calls, code) in phases.items():
        found[name] = await measure(pool, iter(calls(given.pods)), code, pid)
    for _ in itertools.repeat(None, 100):
        if all(one.events == 3 * given.pods for one in watchers):
            break
        await asyncio.sleep(0.05)
    found["watch_events_missed"] = [3 * given.pods - one.events for one in watchers]
    for task in tasks:
        task.cancel()
    found["server_peak_rss_mib"] = peak_mib(pid)
    return found


@contextlib.contextmanager
def serving(given: Path | None = None) -> Iterator[tuple[Path, int, int]]:
    """A server process of its own, in a fresh directory if none is given: the directory, its port, its process id."""
    with tempfile.TemporaryDirectory() as folder:
        data = given or Path(folder) / "data"
        command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(data)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            yield data, int(server.stdout.readline().rsplit(":", 1)[1]), server.pid
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--watchers", type=int, default=3)
    given = parser.parse_args()
    with serving() as (data, port, pid):
        print(json.dumps({"benchmark": "apiserver_writes"} | uvloop.run(run(given, data, port, pid))))


if __name__ == "__main__":
    main()
