"""What watches cost the embedded API server: to open many, each on a connection of its own, and to tell them events.

A server process of its own. First W watches are opened at once and each has its first line (a bookmark is not waited
for: the pods that are there); then a few watchers see as many pods created as are asked for. One JSON object on
standard output. `server_cpu_us` is the processor time of the server per watch, and per event and watcher.

    python benchmarks/apiserver_watches.py [--watches W] [--pods N] [--watchers K]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import ssl
import time
from pathlib import Path

import uvloop

from apiserver_writes import PODS, Connection, connect, cpu_s, creations, measure, peak_mib, serving

AT_ONCE = 64


async def watching(port: int, token: str, tls: ssl.SSLContext) -> Connection:
    """A watch that has answered: the header, and the one pod that is there."""
    connection = await connect(port, token, tls)
    connection.writer.write(f"GET {PODS}?watch=1 HTTP/1.1\r\n{connection.head}\r\n".encode())
    await connection.reader.readuntil(b'"type":"ADDED"')
    return connection


async def count(connection: Connection, events: int) -> None:
    seen = 0
    while seen < events:
        seen += (await connection.reader.read(2**20)).count(b'"type":"ADDED"')


async def run(given: argparse.Namespace, data: Path, port: int, pid: int) -> dict[str, object]:
    tls = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
    token = (data / "tokens.csv").read_text().split(",")[0]
    pool = [await connect(port, token, tls) for _ in range(8)]
    await measure(pool, iter(creations(1)), 201, pid)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> Connection:
        async with gate:
            return await watching(port, token, tls)

    cpu, start = cpu_s(pid), time.perf_counter()
    open_watches = await asyncio.gather(*(one() for _ in range(given.watches)))
    opened = {
        "watches": given.watches,
        "opened_s": round(time.perf_counter() - start, 2),
        "server_cpu_us": round((cpu_s(pid) - cpu) / given.watches * 1e6),
        "server_peak_rss_mib": peak_mib(pid),
    }
    for each in open_watches[given.watchers :]:
        each.writer.close()
    await asyncio.sleep(0.5)  # the server lets go of them; what is measured next is without
    told = [asyncio.ensure_future(count(each, given.pods)) for each in open_watches[: given.watchers]]
    start = time.perf_counter()
    created = await measure(pool, (call for call in creations(given.pods + 1) if b'"pod-0"' not in call[2]), 201, pid)
    await asyncio.gather(*told)
    rate = given.pods * given.watchers / (time.perf_counter() - start)
    return {"open": opened, "pod_creates": created, "events_per_s": round(rate)}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--watches", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--watchers", type=int, default=10)
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with serving() as (data, port, pid):
        print(json.dumps({"benchmark": "apiserver_watches"} | uvloop.run(run(given, data, port, pid))))


if __name__ == "__main__":
    main()
